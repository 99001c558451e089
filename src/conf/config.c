#include "conf/config.h"

#include <assert.h>
#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "conf/setting_row.h"

struct config *config_ref(struct config *c)
{
	atomic_fetch_add(&c->refs, 1);
	return c;
}

void config_unref(struct config **config)
{
	struct config *c = *config;

	*config = NULL;
	if (!c)
		return;
	assert(c->refs > 0);
	if (atomic_fetch_sub(&c->refs, 1) > 1)
		return;
	if (!c->base) {
		for (size_t i = 0; i < c->database_count; i++) {
			mem_wipe_text(c->databases[i].connstr);
			mem_wipe_text(c->databases[i].password);
		}
		if (c->template)
			mem_wipe_text(c->template->connstr);
	}
	config_unref(&c->base);
	struct arena *arena = c->arena;
	arena_free(&arena); /* frees c too, which is in the arena */
}

struct config *config_with(
    const struct config *old, const char *name, const char *value, struct err *err)
{
	const struct setting *row = setting_find(name);
	struct err remark = {.text = ""};
	struct arena *arena;
	struct config *c;

	if (!row) {
		err_set(err, "unknown parameter: pgbouncer/%.100s", name);
		return NULL;
	}
	arena = arena_new();
	c = arena_alloc(arena, sizeof(*c));
	/* everything except the reference count, which other threads may change
	 * meanwhile */
	memcpy(c, old, offsetof(struct config, refs));
	c->arena = arena;
	c->refs = 1;
	settings_dup(&c->settings, &old->settings, arena);
	c->file = arena_strdup(arena, old->file);
	/* the first snapshot of the chain owns the entries; copies in between may be
	 * freed */
	c->base = config_ref(old->base ? old->base : (struct config *)(uintptr_t)old);
	if (setting_is_live(row) &&
	    (setting_parse(row, &c->settings, value, arena, &remark) < 0 ||
		settings_check(&c->settings, &remark) < 0)) {
		err_set(err, "invalid value \"%.100s\" for parameter %s: %s", value,
		    name, remark.text);
		config_unref(&c);
		return NULL;
	}
	if (!setting_is_live(row))
		err_set(&remark,
		    "%s keeps its value until the next start, which reads "
		    "it from the file",
		    name);
	if (err)
		*err = remark;
	return c;
}

bool config_is_current(const struct config *c)
{
	struct file_id now;

	if (c->base)
		return false;
	for (const struct config_file *file = c->files; file; file = file->next) {
		file_id_take(&now, file->path);
		if (!file_id_is_same(&file->id, &now))
			return false;
	}
	return true;
}

const struct config_place *config_place(
    const struct config *c, const struct setting *row)
{
	return &c->places[setting_index(row)];
}

static bool is_word_char(char c)
{
	return c == '_' || isalnum((unsigned char)c);
}

/* Is it in the text as a word? */
static bool is_named(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = text; (at = strstr(at, name)); at += len)
		if ((at == text || !is_word_char(at[-1])) && !is_word_char(at[len]))
			return true;
	return false;
}

/* Files of TLS are named by their paths. */
static bool is_quoted(
    const char *text, const struct setting *row, const struct settings *s)
{
	const char *value;

	if (row->type != SETTING_STR || !setting_is_flagged(row, READS_TLS))
		return false;
	value = setting_print(row, s, NULL, 0);
	return value && *value == '/' && strstr(text, value);
}

const struct config_place *config_place_blamed(const struct config *c, const char *text)
{
	const struct setting *row;

	for (size_t i = 0; (row = setting_at(i)); i++)
		/* other names are usual words */
		if (c->places[i].file && strchr(row->name, '_') &&
		    is_named(text, row->name))
			return &c->places[i];
	for (size_t i = 0; (row = setting_at(i)); i++)
		if (c->places[i].file && is_quoted(text, row, &c->settings))
			return &c->places[i];
	return NULL;
}

bool config_has_own(const struct config *c, enum setting_index i)
{
	return c->own_given[i / 64] >> (i % 64) & 1;
}

static int compare_database(const void *name, const void *entry)
{
	return strcmp(name, ((const struct database_config *)entry)->name);
}

static int compare_user(const void *name, const void *entry)
{
	return strcmp(name, ((const struct user_config *)entry)->name);
}

const struct database_config *config_database(const struct config *c, const char *name)
{
	if (c->database_count == 0)
		return NULL;
	return bsearch(name, c->databases, c->database_count, sizeof(*c->databases),
	    compare_database);
}

const struct user_config *config_user(const struct config *c, const char *name)
{
	if (c->user_count == 0)
		return NULL;
	return bsearch(name, c->users, c->user_count, sizeof(*c->users), compare_user);
}
