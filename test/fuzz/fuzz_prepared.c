/* links: wire base */
/*
 * Parse, Bind, Describe and Close on any bytes, whole and in pieces, and errors that
 * name a statement.  The first byte chooses: E an error's body behind it, q a query's
 * text, otherwise a message that begins with it.  The name that is found lies inside
 * the message; a renamed message has the new name; renamed back it is the old one.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/prepared.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static const char ours[] = "PGBOUNCER_12";

static void check(bool ok)
{
	if (!ok)
		abort();
}

/* The copy has the exact size, so that sanitizers see a read past its end. */
static uint8_t *copy(const uint8_t *bytes, size_t len)
{
	uint8_t *p = malloc(len ? len : 1);

	if (!p)
		abort();
	if (len)
		memcpy(p, bytes, len);
	return p;
}

/* Builds the whole message with the new name. */
static void rename_whole(
    const uint8_t *bytes, size_t len, const char *name, struct buf *out)
{
	size_t rest;

	buf_init(out, 0);
	prepared_rename(bytes, len, len, name, out, &rest);
	check(!out->failed && rest <= len);
	buf_put(out, bytes + rest, len - rest);
	check(get_u32(out->bytes + 1) == out->len - 1);
}

static void rename_there_and_back(const uint8_t *bytes, size_t len, const char *name)
{
	struct buf there, back;
	const char *seen;

	rename_whole(bytes, len, ours, &there);
	check(prepared_look(there.bytes, there.len, there.len, &seen, NULL) ==
	      PREPARED_NAMED);
	check(strcmp(seen, ours) == 0);
	rename_whole(there.bytes, there.len, name, &back);
	/* The length field of the input may be wrong, so it is not compared. */
	check(back.len == len && back.bytes[0] == bytes[0]);
	check(memcmp(back.bytes + 5, bytes + 5, len - 5) == 0);
	buf_done(&there);
	buf_done(&back);
}

static void intern(const uint8_t *key, size_t len)
{
	struct prepared_registry *r =
	    prepared_registry_new(prepared_store_new(PREPARED_PREFIX));
	struct prepared_text *t = prepared_intern(r, "", key, len);
	struct buf out;

	check(t && strlen(prepared_sql(t)) <= len);
	for (size_t i = 0; i < prepared_type_count(t); i++)
		prepared_type(t, i);
	buf_init(&out, 0);
	prepared_put_parse(t, &out);
	check(!out.failed && memcmp(out.bytes + out.len - len, key, len) == 0);
	buf_done(&out);
	prepared_unref(t);
	prepared_registry_free(&r);
}

/* With only a part of the message the answer is the same, or that more is needed. */
static void look_at_pieces(const uint8_t *bytes, size_t len, enum prepared_target whole)
{
	for (size_t have = 0; have < len && have < 40; have++) {
		uint8_t *part = copy(bytes, have);
		const char *name;
		size_t rest;
		enum prepared_target t = prepared_look(part, have, len, &name, &rest);
		check(t == PREPARED_PARTIAL || t == whole ||
		      (t == PREPARED_NAMED && whole == PREPARED_BROKEN));
		check(rest <= have);
		free(part);
	}
}

static void look(const uint8_t *data, size_t len)
{
	uint8_t *bytes = copy(data, len);
	const char *name;
	size_t rest;
	enum prepared_target target = prepared_look(bytes, len, len, &name, &rest);

	check(target != PREPARED_PARTIAL && rest <= len);
	if (target == PREPARED_NAMED) {
		check((const uint8_t *)name + strlen(name) + 1 == bytes + rest);
		rename_there_and_back(bytes, len, name);
	} else {
		check(!*name);
	}
	if (rest && bytes[0] == 'P')
		intern(bytes + rest, len - rest);
	look_at_pieces(bytes, len, target);
	free(bytes);
}

/* Renaming an error changes nothing but the statement's name. */
static void rename_error(const uint8_t *data, size_t len)
{
	static const char theirs[] = "a name \x80 of any kind";
	uint8_t *body = copy(data, len);
	struct buf out;

	buf_init(&out, 0);
	prepared_put_error_renamed(body, len, ours, theirs, &out);
	check(!out.failed && out.bytes[0] == 'E');
	check(get_u32(out.bytes + 1) == out.len - 1);
	size_t grown = strlen(theirs) - strlen(ours), got = out.len - 5;
	check(got >= len && (got - len) % grown == 0);
	check(got > len || !len || memcmp(out.bytes + 5, body, len) == 0);
	buf_done(&out);
	free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (!len)
		return 0;
	if (data[0] == 'E') {
		rename_error(data + 1, len - 1);
	} else {
		look(data, len);
	}
	return 0;
}
