/*
 * The public keys with which an issuer signs tokens: a JSON Web Key Set (RFC 7517),
 * read into keys of libcrypto.  The set does not change, and any thread may use it.
 */
#ifndef AUTH_OAUTH_KEYS_H
#define AUTH_OAUTH_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The longest set, and the longest discovery document, that is read; in bytes. */
enum { OAUTH_DOCUMENT_MAX = 1024 * 1024 };

struct oauth_keys;

/* Whether the program was built with what the method needs. */
bool oauth_is_supported(void);

/* Keys that no known algorithm uses, those for encryption, and RSA keys of less than
 * 2048 bits are left out.  The caller gets the first reference.  NULL and err: the text
 * is no set, or no key remains. */
struct oauth_keys *oauth_keys_parse(const char *text, size_t len, struct err *err);
struct oauth_keys *oauth_keys_load(const char *path, struct err *err);
/* NULL gives NULL. */
struct oauth_keys *oauth_keys_ref(struct oauth_keys *keys);
void oauth_keys_unref(struct oauth_keys **keys);
size_t oauth_keys_count(const struct oauth_keys *keys);

/* An algorithm that may sign a token: RS256 to PS512, ES256, ES384 and EdDSA (Ed25519).
 * NULL: none of this name; "none" and the symmetric ones are not there. */
const struct oauth_algorithm *oauth_algorithm_find(const char *name);

enum oauth_signature {
	OAUTH_SIGNATURE_GOOD,
	OAUTH_SIGNATURE_BAD,
	OAUTH_SIGNATURE_NO_KEY, /* no key of this id, or without an id none that fits */
};
/* Is this the signature of the bytes?  key_id NULL: the token names none, and every key
 * that can be used with the algorithm is tried. */
enum oauth_signature oauth_keys_verify(const struct oauth_keys *keys,
    const struct oauth_algorithm *a, const char *key_id, const void *bytes, size_t len,
    const uint8_t *signature, size_t signature_len);

#endif
