/* links: auth base */
/*
 * Any bytes as an ident file.  A fault refuses the whole file; otherwise its maps can
 * be asked for any pair of names.  Files named in it do not exist; inputs that name one
 * outside, or cost the C library's regcomp much memory, are skipped.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "auth/ident.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_note(
    void *ctx, enum diagnostic kind, const char *where, const char *text)
{
	*(int *)ctx += kind == DIAGNOSTIC_ERROR;
	if (strncmp(where, "/nowhere/f:", 11) != 0 || !text[0])
		abort();
}

static int is_too_costly(const char *text)
{
	size_t parentheses = 0;

	for (const char *at = text; *at; at++)
		parentheses += *at == '(';
	return parentheses > 8 || strchr(text, '{') || strlen(text) > 4096;
}

static void ask(const struct ident *ident, const char *text)
{
	static const char *const names[] = {"", "a", "joe", "joe@example.com", "all"};
	enum { COUNT = sizeof(names) / sizeof(*names) };

	for (size_t i = 0; i < COUNT * COUNT; i++) {
		const char *system_user = names[i / COUNT], *db_user = names[i % COUNT];
		(void)ident_may(ident, "m", system_user, db_user);
		if (ident_may(ident, NULL, system_user, db_user) !=
		    (i / COUNT == i % COUNT))
			abort();
		if (!ident_has_map(ident, text) &&
		    ident_may(ident, text, system_user, db_user))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = mem_alloc(len + 1);
	struct err err;
	int faults = 0;

	memcpy(text, data, len);
	text[len] = '\0';
	if (!strstr(text, "include") && !is_too_costly(text)) {
		struct ident *ident =
		    ident_parse("/nowhere/f", text, len, check_note, &faults, &err);
		if (!ident != (faults > 0))
			abort();
		if (ident)
			ask(ident, text);
		ident_free(&ident);
	}
	mem_free(text);
	return 0;
}
