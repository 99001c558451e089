/* links: auth base */
/*
 * Any bytes as a token, which is never accepted; and as the claims of one that the
 * issuer has signed, which has a name if it is accepted.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "auth/oauth_token.h"
#include "config.h"

#ifdef HAVE_OAUTH

#	include <openssl/evp.h>

#	include "auth/base64.h"
#	include "base/buf.h"
#	include "base/mem.h"

static void put_base64(struct buf *b, const void *bytes, size_t len)
{
	char *text = mem_alloc(BASE64_LEN(len) + 1);

	base64_encode(bytes, len, text);
	for (char *at = text; *at && *at != '='; at++)
		buf_put_u8(b, (uint8_t)(*at == '+' ? '-' : *at == '/' ? '_' : *at));
	mem_free(text);
}

/* A token with these claims; *keys has the key that has signed it. */
static void put_token(
    struct buf *b, struct oauth_keys **keys, const uint8_t *claims, size_t len)
{
	static const uint8_t seed[32] = {1};
	static const char header[] = "{\"alg\":\"EdDSA\",\"kid\":\"k\"}";
	EVP_PKEY *key =
	    EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, sizeof(seed));
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	uint8_t public[32], signature[64];
	size_t public_len = sizeof(public), signature_len = sizeof(signature);
	struct buf set;
	struct err err;

	buf_init(&set, 0);
	EVP_PKEY_get_raw_public_key(key, public, &public_len);
	buf_put_text(&set,
	    "{\"keys\":[{\"kid\":\"k\",\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"");
	put_base64(&set, public, public_len);
	buf_put_text(&set, "\"}]}");
	*keys = oauth_keys_parse(buf_text(&set), set.len, &err);
	buf_done(&set);
	put_base64(b, header, strlen(header));
	buf_put_text(b, ".");
	put_base64(b, claims, len);
	if (!*keys || EVP_DigestSignInit(context, NULL, NULL, NULL, key) != 1 ||
	    EVP_DigestSign(context, signature, &signature_len, b->bytes, b->len) != 1)
		abort();
	buf_put_text(b, ".");
	put_base64(b, signature, signature_len);
	EVP_MD_CTX_free(context);
	EVP_PKEY_free(key);
}

static enum oauth_verdict judge(
    const void *token, size_t len, const struct oauth_keys *keys)
{
	const struct oauth_demands demands = {
	    .issuer = "https://i",
	    .audience = "db",
	    .scope = "s t",
	    .name_claim = "sub",
	    .now_s = 1000,
	};
	struct err err = {.text = ""};
	enum oauth_verdict verdict;
	char *name;

	verdict = oauth_token_judge(token, len, keys, &demands, &name, &err);
	if ((verdict == OAUTH_VALID) != (name && *name) ||
	    (verdict == OAUTH_VALID) == (err.text[0] != '\0'))
		abort();
	mem_free(name);
	return verdict;
}

#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
#ifdef HAVE_OAUTH
	struct oauth_keys *keys;
	struct buf token;

	buf_init(&token, 0);
	put_token(&token, &keys, data, len);
	if (judge(data, len, keys) == OAUTH_VALID)
		abort();
	(void)judge(token.bytes, token.len, keys);
	oauth_keys_unref(&keys);
	buf_done(&token);
#endif
	(void)data, (void)len;
	return 0;
}
