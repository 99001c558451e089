/*
 * A digest of libcrypto that is looked up once and then used many times: the look-up
 * takes longer than the digest of a short text.
 */
#ifndef AUTH_DIGEST_H
#define AUTH_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* For one thread. */
struct digest;

/* name: "SHA256" or "MD5".  NULL: libcrypto does not have it (MD5 with FIPS), or there
 * is no memory. */
struct digest *digest_new(const char *name);
void digest_free(struct digest **d);
/* Writes the digest of a, followed by b.  -1: it failed, for want of memory. */
int digest_of(struct digest *d, const void *a, size_t a_len, const void *b,
    size_t b_len, uint8_t *out);

#endif
