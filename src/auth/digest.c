#include "auth/digest.h"

#include <stdbool.h>

#include <openssl/evp.h>

#include "base/mem.h"

struct digest {
	EVP_MD *algorithm;
	EVP_MD_CTX *context;
};

struct digest *digest_new(const char *name)
{
	struct digest *d = mem_zero(sizeof(*d));

	d->algorithm = EVP_MD_fetch(NULL, name, NULL);
	d->context = d->algorithm ? EVP_MD_CTX_new() : NULL;
	if (!d->context)
		digest_free(&d);
	return d;
}

/* libcrypto wipes what the context has seen. */
void digest_free(struct digest **dp)
{
	struct digest *d = *dp;

	*dp = NULL;
	if (!d)
		return;
	EVP_MD_CTX_free(d->context);
	EVP_MD_free(d->algorithm);
	mem_free(d);
}

int digest_of(struct digest *d, const void *a, size_t a_len, const void *b,
    size_t b_len, uint8_t *out)
{
	bool is_done = EVP_DigestInit_ex(d->context, d->algorithm, NULL) &&
		       EVP_DigestUpdate(d->context, a, a_len) &&
		       EVP_DigestUpdate(d->context, b, b_len) &&
		       EVP_DigestFinal_ex(d->context, out, NULL);

	return is_done ? 0 : -1;
}
