#include "wire/effects_look.h"

#include <string.h>

enum { NAME_MAX_LEN = 63 };

uint64_t effects_look_parameter(
    const struct effects_look *l, const char *name, size_t len)
{
	char text[NAME_MAX_LEN + 1];
	int i;

	if (!l->ask->schema || len > NAME_MAX_LEN)
		return 0;
	memcpy(text, name, len);
	text[len] = '\0';
	i = vars_schema_find(l->ask->schema, text);
	return i >= 0 && i < EFFECTS_PARAMETERS ? UINT64_C(1) << i : 0;
}

bool effects_look_is_end(const struct effects_look *l)
{
	return l->token.kind == SQL_END || sql_token_is_mark(&l->token, ';');
}
