/*
 * SASLprep (RFC 4013) brings passwords that look the same but have different code
 * points to one form.  It does what PostgreSQL does, which made the stored secrets:
 * Unicode 3.2, and the checks come before the normalization.
 */
#ifndef AUTH_SASLPREP_H
#define AUTH_SASLPREP_H

/* The prepared password, or NULL when it cannot be prepared (not UTF-8, prohibited or
 * unassigned characters, mixed direction, nothing left) and the raw one is to be used.
 * Caller wipes it and frees with mem_free. */
char *saslprep(const char *password);

#endif
