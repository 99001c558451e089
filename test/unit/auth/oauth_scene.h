/*
 * An issuer for tests: keys of every kind, their set as JSON, and tokens that they
 * sign.
 */
#ifndef TEST_UNIT_AUTH_OAUTH_SCENE_H
#define TEST_UNIT_AUTH_OAUTH_SCENE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum scene_key { SCENE_RSA, SCENE_P256, SCENE_P384, SCENE_ED25519, SCENE_KEYS };

struct oauth_scene {
	void *keys[SCENE_KEYS]; /* EVP_PKEY */
};

void oauth_scene_open(struct oauth_scene *s);
void oauth_scene_close(struct oauth_scene *s);
/* Appends the public key with the text in front of its other members, such as
 * "\"kid\":\"a\",". */
void oauth_scene_put_key(
    const struct oauth_scene *s, struct buf *b, enum scene_key key, const char *more);
/* Appends a token: header and claims as JSON; the signature is that of the algorithm.
 */
void oauth_scene_put_token(const struct oauth_scene *s, struct buf *b,
    enum scene_key key, const char *algorithm, const char *header, const char *claims);
void oauth_scene_put_base64(struct buf *b, const void *bytes, size_t len);

#endif
