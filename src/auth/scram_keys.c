#include "auth/scram_keys.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>

#include "auth/digest.h"
#include "auth/saslprep.h"
#include "base/crash_flush.h"
#include "base/mem.h"

enum { HMAC_BLOCK = 64 }; /* block size of SHA-256 */

/* Such calls fail only without memory.  Going on with a key of undefined bytes could
 * let somebody in, so the process stops. */
static void must(int ok)
{
	if (ok)
		return;
	crash_flush_say();
	fputs("FATAL out of memory in libcrypto\n", stderr);
	_exit(1);
}

void scram_verifier_done(struct scram_verifier *v)
{
	if (v->salt)
		mem_free(v->salt);
	mem_wipe(v, sizeof(*v));
}

int scram_salted_password(const char *password, const uint8_t *salt, size_t salt_len,
    uint32_t iterations, uint8_t out[SCRAM_KEY_LEN])
{
	const char *used;
	char *prepared;

	assert(iterations > 0 && iterations <= INT32_MAX);
	if (saslprep(password, &prepared) < 0)
		return -1;
	used = prepared ? prepared : password;
	must(PKCS5_PBKDF2_HMAC(used, (int)strlen(used), salt, (int)salt_len,
	    (int)iterations, EVP_sha256(), SCRAM_KEY_LEN, out));
	mem_free_secret(prepared);
	return 0;
}

int scram_derive(const struct scram_due *due, uint8_t out[SCRAM_KEY_LEN])
{
	return scram_salted_password(
	    due->password, due->salt, due->salt_len, due->iterations, out);
}

/* The kept digest, or one for this call if none is kept. */
static struct digest *sha256_begin(struct digest *kept)
{
	struct digest *used = kept ? kept : digest_new("SHA256");

	must(used != NULL);
	return used;
}

static void sha256_end(struct digest *kept, struct digest *used)
{
	if (used != kept)
		digest_free(&used);
}

/* One pass of HMAC: the digest of the padded key and the text behind it. */
static void digest_padded(struct digest *sha256, const uint8_t key[SCRAM_KEY_LEN],
    uint8_t pad, const void *text, size_t len, uint8_t out[SCRAM_KEY_LEN])
{
	uint8_t padded[HMAC_BLOCK];

	memset(padded, pad, sizeof(padded));
	for (size_t i = 0; i < SCRAM_KEY_LEN; i++)
		padded[i] ^= key[i];
	must(digest_of(sha256, padded, sizeof(padded), text, len, out) == 0);
	mem_wipe(padded, sizeof(padded));
}

/* HMAC-SHA-256 (RFC 2104).  libcrypto's own function takes three times as long for such
 * short texts, because it looks up algorithms and copies contexts. */
void scram_sign_with(struct digest *kept, const uint8_t key[SCRAM_KEY_LEN],
    const void *text, size_t len, uint8_t out[SCRAM_KEY_LEN])
{
	struct digest *sha256 = sha256_begin(kept);
	uint8_t inner[SCRAM_KEY_LEN];

	digest_padded(sha256, key, 0x36, text, len, inner);
	digest_padded(sha256, key, 0x5c, inner, sizeof(inner), out);
	sha256_end(kept, sha256);
	mem_wipe(inner, sizeof(inner));
}

void scram_sign(const uint8_t key[SCRAM_KEY_LEN], const void *text, size_t len,
    uint8_t out[SCRAM_KEY_LEN])
{
	scram_sign_with(NULL, key, text, len, out);
}

void scram_client_key(const uint8_t salted[SCRAM_KEY_LEN], uint8_t out[SCRAM_KEY_LEN])
{
	scram_sign(salted, "Client Key", strlen("Client Key"), out);
}

void scram_server_key(const uint8_t salted[SCRAM_KEY_LEN], uint8_t out[SCRAM_KEY_LEN])
{
	scram_sign(salted, "Server Key", strlen("Server Key"), out);
}

void scram_stored_key_with(struct digest *kept, const uint8_t client_key[SCRAM_KEY_LEN],
    uint8_t out[SCRAM_KEY_LEN])
{
	struct digest *sha256 = sha256_begin(kept);

	must(digest_of(sha256, client_key, SCRAM_KEY_LEN, NULL, 0, out) == 0);
	sha256_end(kept, sha256);
}

void scram_stored_key(
    const uint8_t client_key[SCRAM_KEY_LEN], uint8_t out[SCRAM_KEY_LEN])
{
	scram_stored_key_with(NULL, client_key, out);
}

void scram_verifier_from_salted(struct scram_verifier *v, const struct scram_due *due,
    const uint8_t salted[SCRAM_KEY_LEN])
{
	uint8_t client_key[SCRAM_KEY_LEN];

	v->iterations = due->iterations;
	v->salt = mem_dup(due->salt, due->salt_len);
	v->salt_len = due->salt_len;
	scram_client_key(salted, client_key);
	scram_stored_key(client_key, v->stored_key);
	scram_server_key(salted, v->server_key);
	mem_wipe(client_key, sizeof(client_key));
}

void scram_verifier_from_password(
    struct scram_verifier *v, const char *password, uint32_t iterations)
{
	uint8_t salt[SCRAM_SALT_LEN], salted[SCRAM_KEY_LEN];
	const struct scram_due due = {password, salt, sizeof(salt), iterations};

	mem_random(salt, sizeof(salt));
	must(scram_derive(&due, salted) == 0);
	scram_verifier_from_salted(v, &due, salted);
	mem_wipe(salted, sizeof(salted));
}

void scram_steady_salt(const char *user, const char *password, const uint8_t secret[32],
    uint8_t salt[SCRAM_SALT_LEN])
{
	/* the NUL separates the two, because no name contains one */
	size_t user_len = strlen(user) + (password ? 1 : 0);
	size_t password_len = password ? strlen(password) : 0;
	uint8_t digest[SCRAM_KEY_LEN];
	EVP_MD_CTX *context = EVP_MD_CTX_new();

	must(context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) &&
	     EVP_DigestUpdate(context, user, user_len) &&
	     EVP_DigestUpdate(context, password, password_len) &&
	     EVP_DigestUpdate(context, secret, 32) &&
	     EVP_DigestFinal_ex(context, digest, NULL));
	EVP_MD_CTX_free(context);
	memcpy(salt, digest, SCRAM_SALT_LEN);
}

void scram_verifier_mock(struct scram_verifier *v, const char *user,
    const uint8_t secret[32], uint32_t iterations)
{
	v->iterations = iterations;
	v->salt_len = SCRAM_SALT_LEN;
	v->salt = mem_alloc(SCRAM_SALT_LEN);
	scram_steady_salt(user, NULL, secret, v->salt);
	mem_random(v->stored_key, sizeof(v->stored_key));
	mem_random(v->server_key, sizeof(v->server_key));
}
