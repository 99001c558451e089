/* links: auth base */
/*
 * Any bytes as a discovery document.  One that is accepted leads to a place with https.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "auth/oauth_token.h"
#include "base/mem.h"
#include "config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
#ifdef HAVE_OAUTH
	struct err err = {.text = ""};
	char *place = oauth_discovery_parse((const char *)data, len, "https://i", &err);

	if (!place != (err.text[0] != '\0') ||
	    (place && strncmp(place, "https://", 8) != 0))
		abort();
	mem_free(place);
#endif
	(void)data, (void)len;
	return 0;
}
