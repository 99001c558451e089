#include "auth/scram_message.h"

#include <string.h>

#include "auth/base64.h"
#include "base/mem.h"
#include "base/text.h"

enum { NONCE_LEN = 18 };

enum { KEY_TEXT_LEN = BASE64_LEN(SCRAM_KEY_LEN) };

int scram_malformed(struct err *err, const char *what)
{
	return err_set(err, "malformed SCRAM message (%s)", what);
}

int scram_no_memory(struct err *err)
{
	return err_set_row(err, ERROR_OUT_OF_MEMORY);
}

int scram_reader_init(
    struct scram_reader *r, const uint8_t *in, size_t len, struct err *err)
{
	if (len == 0)
		return scram_malformed(err, "empty");
	if (memchr(in, '\0', len))
		return scram_malformed(err, "NUL byte");
	r->at = (const char *)in;
	r->end = r->at + len;
	return 0;
}

char scram_next_letter(const struct scram_reader *r)
{
	if (!r->at || r->end - r->at < 2 || !text_is_letter(r->at[0]) ||
	    r->at[1] != '=')
		return '\0';
	return r->at[0];
}

int scram_read_field(
    struct scram_reader *r, char letter, struct scram_field *f, struct err *err)
{
	char seen = scram_next_letter(r);
	const char *comma;

	if (seen == 'm')
		return err_set(err, "peer requires an unsupported SCRAM extension");
	if (seen != letter)
		return err_set(
		    err, "malformed SCRAM message (attribute \"%c\" expected)", letter);
	/* takes the attribute that scram_next_letter has seen, and the comma behind it
	 */
	f->text = r->at + 2;
	comma = memchr(f->text, ',', (size_t)(r->end - f->text));
	f->len = (size_t)((comma ? comma : r->end) - f->text);
	r->at = comma ? comma + 1 : NULL;
	return 0;
}

int scram_skip_extensions(struct scram_reader *r, char last, struct err *err)
{
	struct scram_field ignored;

	while (r->at) {
		char seen = scram_next_letter(r);
		if (seen == '\0')
			return scram_malformed(err, "attribute expected");
		if (seen == last)
			break;
		if (scram_read_field(r, seen, &ignored, err) < 0)
			return -1;
	}
	return 0;
}

bool scram_is_printable(const struct scram_field *f)
{
	for (size_t i = 0; i < f->len; i++)
		if (f->text[i] < 0x21 || f->text[i] > 0x7e)
			return false;
	return f->len > 0;
}

bool scram_is_text(const struct scram_field *f, const char *text, size_t len)
{
	return f->len == len && memcmp(f->text, text, len) == 0;
}

int scram_read_key(
    const struct scram_field *f, uint8_t out[SCRAM_KEY_LEN], struct err *err)
{
	size_t len;

	if (base64_decode(f->text, f->len, out, SCRAM_KEY_LEN, &len) < 0 ||
	    len != SCRAM_KEY_LEN)
		return scram_malformed(err, "32 bytes in base64 expected");
	return 0;
}

void scram_put_key(struct buf *out, const uint8_t key[SCRAM_KEY_LEN])
{
	char text[KEY_TEXT_LEN + 1];

	base64_encode(key, SCRAM_KEY_LEN, text);
	buf_put_text(out, text);
}

void scram_put_binding(struct buf *out, char gs2_flag, const uint8_t *hash, size_t len)
{
	struct buf raw;
	char *text;

	buf_init(&raw, 0);
	if (gs2_flag == 'p') {
		buf_put_text(&raw, SCRAM_BOUND_HEADER);
		buf_put(&raw, hash, len);
	} else {
		buf_put_u8(&raw, (uint8_t)gs2_flag);
		buf_put_text(&raw, ",,");
	}
	text = mem_try(BASE64_LEN(raw.len) + 1);
	if (text && !raw.failed) {
		base64_encode(raw.bytes, raw.len, text);
		buf_put_text(out, text);
	} else
		out->failed = true;
	mem_free(text);
	buf_done(&raw);
}

char *scram_copy_text(const char *text, size_t len)
{
	char *copy = mem_try(len + 1);

	if (copy) {
		memcpy(copy, text, len);
		copy[len] = '\0';
	}
	return copy;
}

char *scram_make_nonce(const struct scram_field *first, struct mem *mem)
{
	uint8_t random[NONCE_LEN];
	char *nonce = mem_try(first->len + BASE64_LEN(NONCE_LEN) + 1);

	if (!nonce)
		return NULL;
	if (mem)
		mem_draw(mem, random, sizeof(random));
	else
		mem_random(random, sizeof(random));
	memcpy(nonce, first->text, first->len);
	base64_encode(random, sizeof(random), nonce + first->len);
	return nonce;
}

int scram_auth_message(
    struct buf *message, const struct scram_transcript *t, struct err *err)
{
	buf_init(message, 0);
	buf_room(message, strlen(t->client_first_bare) + t->server_first_len +
			      t->client_final_len + 2);
	buf_put_text(message, t->client_first_bare);
	buf_put_u8(message, ',');
	buf_put(message, t->server_first, t->server_first_len);
	buf_put_u8(message, ',');
	buf_put(message, t->client_final, t->client_final_len);
	return message->failed ? scram_no_memory(err) : 0;
}
