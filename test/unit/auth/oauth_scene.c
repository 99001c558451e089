/*
 * Keys and tokens, made by libcrypto.
 */
#include "oauth_scene.h"

#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include "auth/base64.h"
#include "base/mem.h"

void oauth_scene_open(struct oauth_scene *s)
{
	s->keys[SCENE_RSA] = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048);
	s->keys[SCENE_P256] = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
	s->keys[SCENE_P384] = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-384");
	s->keys[SCENE_ED25519] = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	for (int i = 0; i < SCENE_KEYS; i++)
		assert_non_null(s->keys[i]);
}

void oauth_scene_close(struct oauth_scene *s)
{
	for (int i = 0; i < SCENE_KEYS; i++)
		EVP_PKEY_free(s->keys[i]);
}

void oauth_scene_put_base64(struct buf *b, const void *bytes, size_t len)
{
	char *text = mem_alloc(BASE64_LEN(len) + 1);

	base64_encode(bytes, len, text);
	for (char *at = text; *at && *at != '='; at++)
		buf_put_u8(b, (uint8_t)(*at == '+' ? '-' : *at == '/' ? '_' : *at));
	mem_free(text);
}

static void put_number(
    struct buf *b, const char *name, EVP_PKEY *key, const char *member, int size)
{
	BIGNUM *number = NULL;
	uint8_t bytes[512];
	int len;

	assert_int_equal(EVP_PKEY_get_bn_param(key, member, &number), 1);
	len = size ? size : BN_num_bytes(number);
	assert_int_equal(BN_bn2binpad(number, bytes, len), len);
	BN_free(number);
	buf_printf(b, ",\"%s\":\"", name);
	oauth_scene_put_base64(b, bytes, (size_t)len);
	buf_put_text(b, "\"");
}

void oauth_scene_put_key(
    const struct oauth_scene *s, struct buf *b, enum scene_key key, const char *more)
{
	uint8_t raw[32];
	size_t len = sizeof(raw);

	buf_printf(b, "{%s", more);
	switch (key) {
	case SCENE_RSA:
		buf_put_text(b, "\"kty\":\"RSA\"");
		put_number(b, "n", s->keys[key], OSSL_PKEY_PARAM_RSA_N, 0);
		put_number(b, "e", s->keys[key], OSSL_PKEY_PARAM_RSA_E, 0);
		break;
	case SCENE_P256:
	case SCENE_P384:
		buf_printf(b, "\"kty\":\"EC\",\"crv\":\"P-%d\"",
		    key == SCENE_P256 ? 256 : 384);
		put_number(b, "x", s->keys[key], OSSL_PKEY_PARAM_EC_PUB_X,
		    key == SCENE_P256 ? 32 : 48);
		put_number(b, "y", s->keys[key], OSSL_PKEY_PARAM_EC_PUB_Y,
		    key == SCENE_P256 ? 32 : 48);
		break;
	default:
		assert_int_equal(
		    EVP_PKEY_get_raw_public_key(s->keys[key], raw, &len), 1);
		buf_put_text(b, "\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"");
		oauth_scene_put_base64(b, raw, len);
		buf_put_text(b, "\"");
	}
	buf_put_text(b, "}");
}

static size_t sign(EVP_PKEY *key, const char *algorithm, const uint8_t *bytes,
    size_t len, uint8_t out[1024])
{
	const char *digest = strstr(algorithm, "256")   ? "SHA256"
			     : strstr(algorithm, "384") ? "SHA384"
			     : strstr(algorithm, "512") ? "SHA512"
							: NULL;
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	EVP_PKEY_CTX *options = NULL;
	size_t size = 1024;

	assert_int_equal(
	    EVP_DigestSignInit_ex(context, &options, digest, NULL, NULL, key, NULL), 1);
	if (algorithm[0] == 'P') {
		EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING);
		EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST);
	}
	assert_int_equal(EVP_DigestSign(context, out, &size, bytes, len), 1);
	EVP_MD_CTX_free(context);
	if (strncmp(algorithm, "ES", 2) == 0) {
		int half = strstr(algorithm, "256") ? 32 : 48;
		const uint8_t *at = out;
		ECDSA_SIG *numbers = d2i_ECDSA_SIG(NULL, &at, (long)size);
		BN_bn2binpad(ECDSA_SIG_get0_r(numbers), out, half);
		BN_bn2binpad(ECDSA_SIG_get0_s(numbers), out + half, half);
		ECDSA_SIG_free(numbers);
		size = 2 * (size_t)half;
	}
	return size;
}

void oauth_scene_put_token(const struct oauth_scene *s, struct buf *b,
    enum scene_key key, const char *algorithm, const char *header, const char *claims)
{
	uint8_t signature[1024];
	size_t from = b->len, len;

	oauth_scene_put_base64(b, header, strlen(header));
	buf_put_text(b, ".");
	oauth_scene_put_base64(b, claims, strlen(claims));
	len = sign(s->keys[key], algorithm, b->bytes + from, b->len - from, signature);
	buf_put_text(b, ".");
	oauth_scene_put_base64(b, signature, len);
}
