/* links: base conf */
/*
 * Any bytes as an ini file: the scanner reads them, and the parsers of all sections
 * read every value.  Includes are not followed: they would read the machine's files.
 */
#include <stdlib.h>
#include <string.h>

#include "conf/entry.h"
#include "conf/ini.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse_setting(const struct ini_item *item, struct arena *arena)
{
	const struct setting *row = setting_find(item->name);
	struct settings s, again;
	char out[64];
	const char *text;

	settings_defaults(&s);
	if (!row || setting_parse(row, &s, item->value, arena, NULL) < 0)
		return;
	text = setting_print(row, &s, out, sizeof(out));
	if (!text)
		abort();
	settings_defaults(&again);
	/* a time may be printed with an exponent, which the parser does not accept */
	if (!strstr(text, "e+") && !strstr(text, "e-") &&
	    setting_parse(row, &again, text, arena, NULL) < 0)
		abort();
	settings_check(&s, NULL);
}

static void parse_entries(const struct ini_item *item, struct arena *arena)
{
	struct database_config db;
	struct user_config user;
	struct peer_config peer;
	struct err err;

	entry_parse_database(&db, item->name, item->value, arena, NULL, &err);
	entry_parse_user(&user, item->name, item->value, arena, NULL, &err);
	entry_parse_peer(&peer, item->name, item->value, arena, NULL, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *arena = arena_new();
	struct ini_item item;
	struct ini ini;
	char *text = mem_alloc(size + 1);
	unsigned line = 1;

	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	ini_init(&ini, text, strlen(text));
	while (ini_next(&ini, &item) != INI_END) {
		if (item.line < line)
			abort();
		line = item.line;
		if (item.kind == INI_VALUE) {
			parse_setting(&item, arena);
			parse_entries(&item, arena);
		}
	}
	arena_free(&arena);
	mem_free(text);
	return 0;
}
