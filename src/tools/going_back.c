/*
 * Reads the configuration as text, so that each place is told where it is written. What
 * is wrong with the files otherwise is told by the rest of --check-config.
 */
#include "tools/going_back.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "conf/connstr.h"
#include "conf/entry.h"
#include "conf/ini.h"
#include "conf/setting_row.h"

enum section {
	SECTION_NONE,
	SECTION_SETTINGS,
	SECTION_DATABASES,
	SECTION_USERS,
};

struct looker {
	enum section section;
	unsigned found;
	bool has_missed; /* a file could not be read, which --check-config tells */
	FILE *out;       /* borrowed */
};

/* Where something is written; name is that of the entry. */
struct place {
	const char *file, *name;
	unsigned line;
};

static void tell(
    struct looker *l, const struct place *at, const char *key, const char *why)
{
	l->found++;
	fprintf(l->out, "%s:%u: ", at->file, at->line);
	if (l->section != SECTION_SETTINGS)
		fprintf(l->out, "%s: ", at->name);
	fprintf(l->out, "take out %s: %s\n", key, why);
}

static const struct setting *find_key(const char *key)
{
	const struct setting *row;

	for (size_t i = 0; (row = setting_at(i)); i++) {
		const char *other = entry_other_key_of(row);

		if (row->level != LEVEL_GLOBAL &&
		    (strcmp(entry_key_of(row), key) == 0 ||
			(other && strcmp(other, key) == 0)))
			return row;
	}
	return NULL;
}

static bool is_known_key(const struct looker *l, const char *key)
{
	const struct entry_key *own = entry_find_key(entry_database_key, key);
	const struct setting *row = find_key(key);

	if (l->section == SECTION_USERS)
		return row && row->flags & THEIR_USER_KEY;
	return own ? !(own->flags & KEY_OURS) : row && row->flags & THEIR_DATABASE_KEY;
}

static void look_at_pair(
    struct looker *l, const struct place *at, const char *key, const char *value)
{
	if (!is_known_key(l, key))
		tell(l, at, key,
		    l->section == SECTION_USERS
			? "PgBouncer 1.25 has no such key in [users]"
			: "PgBouncer 1.25 has no such key in [databases]");
	else if (strcmp(key, "port") == 0 && strchr(value, ','))
		tell(l, at, key, "PgBouncer 1.25 has one port for all hosts");
	else if (strcmp(key, "load_balance_hosts") == 0 &&
		 strcmp(value, "round-robin") != 0 && strcmp(value, "disable") != 0)
		tell(l, at, key,
		    "PgBouncer 1.25 has only round-robin, which is its default, and "
		    "disable");
}

static enum section section_of(const char *name)
{
	static const struct {
		const char *name;
		enum section section;
	} sections[] = {
	    {"pgbouncer", SECTION_SETTINGS},
	    {"databases", SECTION_DATABASES},
	    {"users", SECTION_USERS},
	};

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
		if (strcmp(sections[i].name, name) == 0)
			return sections[i].section;
	return SECTION_NONE;
}

static void look_at_value(
    struct looker *l, const char *file, const struct ini_item *item)
{
	struct place at = {file, item->name, item->line};
	const char *key, *value;

	if (l->section == SECTION_SETTINGS) {
		const struct setting *row = setting_find(at.name);

		if (row && row->flags & OURS)
			tell(l, &at, at.name, "PgBouncer 1.25 has no such setting");
	} else if (l->section != SECTION_NONE) {
		char *text = mem_strdup(item->value), *rest = text;

		while (connstr_next(&rest, &key, &value) > 0)
			look_at_pair(l, &at, key, value);
		/* it was cut at its keys and values */
		mem_wipe(text, strlen(item->value));
		mem_free(text);
	}
}

static void look_at_file(struct looker *l, const char *path, unsigned depth)
{
	struct ini_item item;
	struct err err;
	struct ini ini;
	size_t len;
	char *text =
	    depth <= INCLUDE_DEPTH_MAX ? text_read_file(path, &len, &err) : NULL;

	if (!text) {
		l->has_missed = true;
		return;
	}
	ini_init(&ini, text, len);
	while (ini_next(&ini, &item) != INI_END) {
		if (item.kind == INI_SECTION)
			l->section = section_of(item.name);
		else if (item.kind == INI_INCLUDE)
			look_at_file(l, item.value, depth + 1);
		else if (item.kind == INI_VALUE)
			look_at_value(l, path, &item);
	}
	mem_wipe(text, len);
	mem_free(text);
}

unsigned going_back_look(FILE *out, const char *file)
{
	struct looker l = {.section = SECTION_NONE, .out = out};

	look_at_file(&l, file, 0);
	if (l.found == 0 && !l.has_missed)
		fprintf(out, "%s: nothing that PgBouncer 1.25 does not know\n", file);
	return l.found;
}
