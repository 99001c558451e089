/* links: auth base */
/*
 * A hostile server: messages separated by NUL bytes, where `$` stands for the nonce the
 * client chose.  A server without the password must never be accepted, nor make the
 * client compute for long.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "auth/scram.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void put_message(
    struct buf *b, const uint8_t *text, size_t len, const char *nonce)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '$' && nonce)
			buf_put_text(b, nonce);
		else
			buf_put_u8(b, text[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	/* With keys the client derives nothing, so that the target is quick. */
	static const struct scram_keys keys = {{1}, {2}};
	static const uint8_t hash[] = {1, 2, 3};
	static const struct scram_binding binding = {hash, sizeof(hash), false};
	struct scram_client client;
	struct buf message, out;
	struct err err;

	scram_client_init(&client, NULL, &keys, NULL, len & 1 ? &binding : NULL);
	(void)scram_client_select(&client, true, len & 2, &err);
	buf_init(&message, 0);
	buf_init(&out, 100000);
	if (scram_client_step(&client, NULL, 0, &out, &err) != SCRAM_MORE)
		abort();
	for (int i = 0; i < 4 && len > 0; i++) {
		const uint8_t *nul = memchr(data, '\0', len);
		size_t part = nul ? (size_t)(nul - data) : len;

		buf_clear(&message);
		buf_clear(&out);
		put_message(&message, data, part, client.nonce);
		if (scram_client_step(
			&client, message.bytes, message.len, &out, &err) == SCRAM_DONE)
			abort();
		data += part;
		len -= part;
		if (len > 0) {
			data++;
			len--;
		}
	}
	scram_client_done(&client);
	buf_done(&message);
	buf_done(&out);
	return 0;
}
