/*
 * Reads the formats of parameters and results from a Bind.  The server checks the
 * values.
 */
#include "base/buf.h"
#include "wire/prepared.h"

enum { HEADER_LEN = 5 };

/* Reads a list of format codes with its count.  False: one of them is not text. */
static bool is_text(struct cursor *c)
{
	bool all_text = true;

	for (size_t left = cursor_u16(c); left > 0 && !c->overrun; left--)
		if (cursor_u16(c) != 0)
			all_text = false;
	return all_text;
}

static bool is_typed(const struct prepared_text *text, size_t count)
{
	if (prepared_type_count(text) < count)
		return false;
	for (size_t i = 0; i < count; i++)
		if (prepared_type(text, i) == 0)
			return false;
	return true;
}

bool prepared_may_bind_again(const uint8_t *bytes, size_t size,
    const struct prepared_text *text, bool is_described)
{
	struct cursor c;

	if (size < HEADER_LEN)
		return false;
	cursor_init(&c, bytes + HEADER_LEN, size - HEADER_LEN);
	cursor_str(&c);
	cursor_str(&c);
	bool params_are_text = is_text(&c);
	/* skips the parameter values */
	size_t params = cursor_u16(&c);
	for (size_t left = params; left > 0 && !c.overrun; left--) {
		uint32_t len = cursor_u32(&c);
		if (len <= INT32_MAX)
			cursor_bytes(&c, len);
	}
	bool results_are_text = is_text(&c);
	return !c.overrun && (params_are_text || is_typed(text, params)) &&
	       (results_are_text || is_described);
}
