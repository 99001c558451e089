/* links: auth base */
/*
 * Any bytes as the first message of a client of OAUTHBEARER.  A token lies in the
 * message, and a message that we make of it is read the same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "auth/oauth_message.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *token = NULL, *again;
	size_t token_len = 0, again_len;
	struct buf out;
	struct err err = {.text = ""};

	switch (oauth_message_read(data, len, &token, &token_len, &err)) {
	case OAUTH_MESSAGE_TOKEN:
		break;
	case OAUTH_MESSAGE_QUESTION:
		return 0;
	case OAUTH_MESSAGE_NO_TOKEN:
	case OAUTH_MESSAGE_MALFORMED:
		if (!err.text[0])
			abort();
		return 0;
	}
	if ((const uint8_t *)token < data || !token_len ||
	    (const uint8_t *)token + token_len > data + len)
		abort();
	char *copy = mem_alloc(token_len + 1);
	memcpy(copy, token, token_len);
	copy[token_len] = '\0';
	buf_init(&out, 0);
	if (oauth_message_put_token(&out, copy) < 0 ||
	    oauth_message_read(out.bytes, out.len, &again, &again_len, &err) !=
		OAUTH_MESSAGE_TOKEN ||
	    again_len != token_len || memcmp(again, token, token_len) != 0)
		abort();
	buf_done(&out);
	mem_free(copy);
	return 0;
}
