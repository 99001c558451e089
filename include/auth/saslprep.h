/*
 * SASLprep (RFC 4013): normalizes passwords, so that those that look the same but have
 * different code points become equal.  It must agree with PostgreSQL, which made the
 * stored secrets: Unicode 3.2, with the checks before the normalization.
 */
#ifndef AUTH_SASLPREP_H
#define AUTH_SASLPREP_H

/* Returns the prepared password; the caller wipes it and frees it with mem_free.  NULL:
 * there is no memory, or the password cannot be prepared (it is not UTF-8, has
 * prohibited or unassigned characters or mixed directions, or nothing is left of it).
 * The caller uses the raw password then. */
char *saslprep(const char *password);

#endif
