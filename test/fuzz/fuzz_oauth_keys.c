/* links: auth base */
/*
 * Any bytes as a key set.  A set that is read has a key, and no key accepts a signature
 * of nothing but zeros.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "auth/oauth_keys.h"
#include "config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
#ifdef HAVE_OAUTH
	static const char *const names[] = {
	    "RS256", "PS512", "ES256", "ES384", "EdDSA"};
	static const uint8_t signature[256];
	struct err err = {.text = ""};
	struct oauth_keys *keys = oauth_keys_parse((const char *)data, len, &err);

	if (!keys != (err.text[0] != '\0') || (keys && oauth_keys_count(keys) == 0))
		abort();
	for (size_t i = 0; keys && i < sizeof(names) / sizeof(*names); i++) {
		static const size_t lengths[] = {0, 64, 96, sizeof(signature)};
		for (size_t l = 0; l < sizeof(lengths) / sizeof(*lengths); l++)
			/* zeros are a right signature by the point of order 1, which
			 * only an issuer's own key could be */
			if (oauth_keys_verify(keys, oauth_algorithm_find(names[i]),
				NULL, "x", 1, signature,
				lengths[l]) == OAUTH_SIGNATURE_GOOD &&
			    strcmp(names[i], "EdDSA") != 0)
				abort();
	}
	oauth_keys_unref(&keys);
#endif
	(void)data, (void)len;
	return 0;
}
