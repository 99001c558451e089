#include "base/errors.h"

#include <assert.h>
#include <string.h>

static const struct {
	const char *name, *sqlstate, *setting, *text, *remedy;
} error_rows[ERROR_COUNT] = {
#define ERROR_ROW(id, severity, sqlstate, setting, text, cause, remedy) \
	[ERROR_##id] = {#id, sqlstate, setting, text, remedy},
#include "base/errors.def"
#undef ERROR_ROW
};

const char *error_name(enum error_id id)
{
	return id < ERROR_COUNT ? error_rows[id].name : "OTHER";
}

const char *error_setting(enum error_id id)
{
	return error_rows[id].setting;
}

const char *error_remedy(enum error_id id)
{
	return error_rows[id].remedy;
}

const char *error_sqlstate(enum error_id id)
{
	return id < ERROR_COUNT ? error_rows[id].sqlstate : NULL;
}

const char *error_text(enum error_id id)
{
	return id < ERROR_COUNT ? error_rows[id].text : NULL;
}

char *error_vprint(char *out, size_t size, enum error_id id, va_list ap)
{
	assert(id < ERROR_COUNT);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	vsnprintf(out, size, error_rows[id].text, ap);
#pragma GCC diagnostic pop
	return out;
}

char *error_print(char *out, size_t size, enum error_id id, ...)
{
	va_list ap;

	va_start(ap, id);
	error_vprint(out, size, id, ap);
	va_end(ap);
	return out;
}

enum error_id error_of_reason(const char *reason)
{
	for (size_t i = 0; i < ERROR_COUNT; i++)
		if (strcmp(error_rows[i].text, reason) == 0)
			return (enum error_id)i;
	return ERROR_CONNECTION_LOST;
}

enum error_id error_of_text(const char *text)
{
	enum error_id found = ERROR_COUNT;
	size_t longest = 0;

	for (int i = 0; i < ERROR_COUNT; i++) {
		const char *format = error_rows[i].text;
		size_t len = strcspn(format, "%");
		if (len <= longest || strncmp(format, text, len) != 0)
			continue;
		if ((format[len] == '\0') != (text[len] == '\0'))
			continue;
		longest = len;
		found = (enum error_id)i;
	}
	return found;
}
