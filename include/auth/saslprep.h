/*
 * SASLprep (RFC 4013): the one spelling of a password that is typed with different
 * characters.  Behaves as PostgreSQL's own preparation does, because the secrets were
 * made by it: Unicode 3.2 repertoire, checks made before normalization.
 */
#ifndef AUTH_SASLPREP_H
#define AUTH_SASLPREP_H

/* The prepared password, or NULL when it cannot be prepared (not UTF-8, prohibited or
 * unassigned characters, mixed direction, nothing left) and the raw one is to be used.
 * Caller wipes it and frees with mem_free. */
char *saslprep(const char *password);

#endif
