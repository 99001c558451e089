/*
 * SASLprep (RFC 4013) brings passwords that look the same but have different code
 * points to one form.  It does what PostgreSQL does, which made the stored secrets:
 * Unicode 3.2, and the checks come before the normalization.
 */
#ifndef AUTH_SASLPREP_H
#define AUTH_SASLPREP_H

/* The prepared password; the caller wipes it and frees it with mem_free.  NULL: the
 * password cannot be prepared (it is not UTF-8, has prohibited or unassigned characters
 * or mixed directions, or nothing is left of it), or there is no memory.  The caller
 * uses the raw password then. */
char *saslprep(const char *password);

#endif
