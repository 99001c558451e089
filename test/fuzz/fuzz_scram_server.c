/* links: auth base */
/*
 * A hostile client: messages separated by NUL bytes, where `$` stands for the nonce the
 * server chose.  Without the password it must never be let in.
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
	uint8_t salt[] = "0123456789abcdef";
	const struct scram_verifier verifier = {
	    .iterations = 4096, .salt = salt, .salt_len = 16, .stored_key = {1}};
	static const uint8_t hash[] = {1, 2, 3};
	const struct scram_binding binding = {hash, sizeof(hash), len & 8};
	struct scram_server server;
	struct buf message, out;
	struct err err;

	/* The channel binding and the mechanism may match or not. */
	scram_server_init(&server, &verifier, len % 2, len & 2 ? &binding : NULL);
	(void)scram_server_select(
	    &server, len & 4 ? SCRAM_MECHANISM_PLUS : SCRAM_MECHANISM);
	buf_init(&message, 0);
	buf_init(&out, 100000);
	for (int i = 0; i < 4 && len > 0; i++) {
		const uint8_t *nul = memchr(data, '\0', len);
		size_t part = nul ? (size_t)(nul - data) : len;

		buf_clear(&message);
		buf_clear(&out);
		put_message(&message, data, part, server.nonce);
		if (scram_server_step(
			&server, message.bytes, message.len, &out, &err) == SCRAM_DONE)
			abort();
		data += part;
		len -= part;
		if (len > 0) {
			data++;
			len--;
		}
	}
	scram_server_done(&server);
	buf_done(&message);
	buf_done(&out);
	return 0;
}
