/* links: wire base */
/*
 * What the codec builds it reads back unchanged, for any texts; every shorter or longer
 * body is refused; frames end where their messages end.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "prop.h"
#include "wire/codec.h"
#include "wire/message.h"

enum { ROUNDS = 20000, TEXT_MOST = 40, HEADER = 5 };

static uint64_t random_state;

static unsigned below(unsigned n)
{
	return (unsigned)(random_next(&random_state) >> 33) % n;
}

/* Any bytes but NUL. */
static const char *random_text(char *to, unsigned least)
{
	unsigned len = least + below(TEXT_MOST - least);

	for (unsigned i = 0; i < len; i++)
		to[i] = (char)(1 + below(255));
	to[len] = '\0';
	return to;
}

/* The only frame in b, which is whole. */
static void check_frame(const struct buf *b, uint8_t type, bool is_front)
{
	const struct message_row *rows =
	    is_front ? message_front_rows : message_back_rows;
	struct frame f;

	assert(!b->failed);
	assert(frame_cut(b->bytes, b->len, b->len, rows, &f) == CUT_OK);
	assert(f.type == type && f.size == b->len);
	assert(frame_cut(b->bytes, b->len, b->len - 1, rows, &f) == CUT_BAD);
	assert(rows[type].flags & MSG_KNOWN);
}

static void strings(struct buf *b)
{
	char t1[TEXT_MOST + 1], t2[TEXT_MOST + 1];
	const char *name, *value;

	random_text(t1, 0);
	random_text(t2, 0);
	buf_clear(b);
	codec_put_query(b, t1);
	check_frame(b, 'Q', true);
	assert(!codec_read_query(b->bytes + HEADER, b->len - HEADER, &name));
	assert(!strcmp(name, t1));
	assert(codec_read_query(b->bytes + HEADER, b->len - HEADER - 1, &name));

	buf_clear(b);
	codec_put_parameter_status(b, t1, t2);
	check_frame(b, 'S', false);
	size_t len = b->len - HEADER;
	assert(!codec_read_parameter_status(b->bytes + HEADER, len, &name, &value));
	assert(!strcmp(name, t1) && !strcmp(value, t2));
	for (size_t n = 0; n < len; n++)
		assert(
		    codec_read_parameter_status(b->bytes + HEADER, n, &name, &value));
}

static void errors(struct buf *b)
{
	char m[TEXT_MOST + 1], d[TEXT_MOST + 1], h[TEXT_MOST + 1];
	struct error_fields f;

	random_text(m, 0);
	bool has_detail = below(2);
	buf_clear(b);
	if (has_detail)
		codec_put_error(
		    b, "ERROR", "22012", m, random_text(d, 0), random_text(h, 0));
	else
		codec_put_error(b, "ERROR", "22012", m, NULL, NULL);
	check_frame(b, 'E', false);
	size_t len = b->len - HEADER;
	assert(!codec_read_error(b->bytes + HEADER, len, &f));
	assert(!strcmp(f.severity, "ERROR") && !strcmp(f.sqlstate, "22012"));
	assert(!strcmp(f.message, m));
	assert(!strcmp(f.detail, has_detail ? d : ""));
	assert(!strcmp(f.hint, has_detail ? h : ""));
	for (size_t n = 0; n < len; n++)
		assert(codec_read_error(b->bytes + HEADER, n, &f));
}

static void startup(struct buf *b)
{
	char names[4][TEXT_MOST + 1], values[4][TEXT_MOST + 1];
	unsigned count = below(5), got = 0;
	struct startup_param p;
	struct cursor c;
	struct frame f;
	int r;

	buf_clear(b);
	size_t at = codec_begin_startup(b, PROTOCOL_3_0);
	for (unsigned i = 0; i < count; i++)
		codec_put_param(b, random_text(names[i], 1), random_text(values[i], 0));
	codec_end_startup(b, at);
	assert(frame_cut_startup(b->bytes, b->len, b->len, &f) == CUT_OK);
	assert(f.size == b->len && f.code == PROTOCOL_3_0);
	cursor_init(&c, b->bytes + 8, b->len - 8);
	while ((r = codec_next_param(&c, &p)) == 1) {
		assert(!strcmp(p.name, names[got]) && !strcmp(p.value, values[got]));
		got++;
	}
	assert(r == 0 && got == count);
}

static void rows(struct buf *b)
{
	char texts[8][TEXT_MOST + 1];
	const char *fields[8];
	size_t count = below(9), n, len;
	const uint8_t *value;
	struct cursor c;

	buf_clear(b);
	size_t at = codec_begin_row(b, count);
	for (size_t i = 0; i < count; i++) {
		fields[i] = below(4) ? random_text(texts[i], 0) : NULL;
		codec_put_field(b, fields[i]);
	}
	codec_end_row(b, at);
	check_frame(b, 'D', false);
	cursor_init(&c, b->bytes + HEADER, b->len - HEADER);
	assert(!codec_read_row_count(&c, &n) && n == count);
	for (size_t i = 0; i < count; i++) {
		assert(!codec_next_field(&c, &value, &len));
		assert((value != NULL) == (fields[i] != NULL));
		assert(!value ||
		       (len == strlen(fields[i]) && !memcmp(value, fields[i], len)));
	}
	assert(codec_next_field(&c, &value, &len) == -1);
}

static void row_descriptions(struct buf *b)
{
	char names[5][TEXT_MOST + 1];
	struct codec_column columns[5];
	size_t count = below(6), got;

	for (size_t i = 0; i < count; i++) {
		columns[i].name = random_text(names[i], 0);
		columns[i].type_oid = below(100000);
		columns[i].type_len = -1;
	}
	buf_clear(b);
	codec_put_row_description(b, columns, count);
	check_frame(b, 'T', false);
	size_t len = b->len - HEADER;
	assert(
	    !codec_read_row_description(b->bytes + HEADER, len, &got) && got == count);
	for (size_t n = 0; n < len; n++)
		assert(codec_read_row_description(b->bytes + HEADER, n, &got));
}

static void sasl(struct buf *b)
{
	char mechanism[TEXT_MOST + 1], text[TEXT_MOST + 1];
	const char *name;
	const uint8_t *data;
	size_t len;

	random_text(mechanism, 0);
	random_text(text, 0);
	bool has_data = below(3);
	buf_clear(b);
	codec_put_sasl_initial(
	    b, mechanism, has_data ? (const uint8_t *)text : NULL, strlen(text));
	check_frame(b, 'p', true);
	size_t body = b->len - HEADER;
	assert(!codec_read_sasl_initial(b->bytes + HEADER, body, &name, &data, &len));
	assert(!strcmp(name, mechanism) && (data != NULL) == has_data);
	assert(!data || (len == strlen(text) && !memcmp(data, text, len)));
	for (size_t n = 0; n < body; n++)
		assert(
		    codec_read_sasl_initial(b->bytes + HEADER, n, &name, &data, &len));
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
	struct buf b;

	printf("seed %llu\n", (unsigned long long)seed);
	random_state = seed * 0x9E3779B97F4A7C15u + 1;
	buf_init(&b, 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		strings(&b);
		errors(&b);
		startup(&b);
		rows(&b);
		row_descriptions(&b);
		sasl(&b);
	}
	buf_done(&b);
	return 0;
}
