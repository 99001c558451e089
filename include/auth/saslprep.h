/*
 * SASLprep (RFC 4013): normalizes passwords, so that those that look the same but have
 * different code points become equal.  It must agree with PostgreSQL, which made the
 * stored secrets: Unicode 3.2, with the checks before the normalization.
 */
#ifndef AUTH_SASLPREP_H
#define AUTH_SASLPREP_H

/* Sets *prepared to the prepared password; the caller wipes it and frees it with
 * mem_free.  NULL: the password cannot be prepared (it is not UTF-8, has prohibited or
 * unassigned characters or mixed directions, or nothing is left of it), and the caller
 * uses the raw one.  -1: no memory. */
int saslprep(const char *password, char **prepared);

#endif
