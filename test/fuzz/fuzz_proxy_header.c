/* links: wire base */
/*
 * Any bytes as a header of the PROXY protocol: a whole header stays whole with more
 * bytes behind it, and each shorter part of it is partial.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/proxy_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct proxy_header whole, part;
	enum proxy_header_result result = proxy_header_read(data, len, &whole);

	check(result != PROXY_HEADER_WHOLE ||
	      (whole.size <= len && whole.size <= PROXY_HEADER_MAX));
	for (size_t have = 0; have < len && have <= PROXY_HEADER_MAX; have++) {
		/* a copy of the exact size, so that a read past its end is seen */
		uint8_t *copy = malloc(have ? have : 1);
		memcpy(copy, data, have);
		enum proxy_header_result some = proxy_header_read(copy, have, &part);
		free(copy);
		if (result == PROXY_HEADER_WHOLE)
			check(some == (have < whole.size ? PROXY_HEADER_PARTIAL
							 : PROXY_HEADER_WHOLE));
		else if (result == PROXY_HEADER_PARTIAL)
			check(some == PROXY_HEADER_PARTIAL);
	}
	return 0;
}
