/*
 * Compares two snapshots.  Entries are sorted by name, so that one walk over both lists
 * finds the added, removed and changed ones.
 */
#include "daemon/config_diff.h"

#include <string.h>

#include "conf/setting_row.h"

/* More names would make the line of the log too long. */
enum { NAMES_MOST = 20 };

struct counts {
	size_t added, changed, removed;
};

/* Separates a part of the line from the one before. */
static void begin_part(struct buf *out, size_t start)
{
	if (out->len > start)
		buf_put_text(out, "; ");
}

static void put_settings(struct buf *out, size_t start, const struct settings *old,
    const struct settings *new)
{
	const struct setting *row;
	size_t count = 0;

	for (size_t i = 0; (row = setting_at(i)); i++) {
		if (setting_is_equal(row, old, new))
			continue;
		if (count == 0) {
			begin_part(out, start);
			buf_put_text(out, "settings ");
		}
		if (count < NAMES_MOST)
			buf_printf(out, "%s%s", count ? ", " : "", row->name);
		count++;
	}
	if (count > NAMES_MOST)
		buf_printf(out, " and %zu more", count - NAMES_MOST);
}

static void put_counts(
    struct buf *out, size_t start, const char *what, const struct counts *counts)
{
	const struct {
		size_t count;
		const char *word;
	} parts[] = {{counts->added, "added"}, {counts->changed, "changed"},
	    {counts->removed, "removed"}};
	const char *between = " ";

	if (counts->added + counts->changed + counts->removed == 0)
		return;
	begin_part(out, start);
	buf_put_text(out, what);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (parts[i].count == 0)
			continue;
		buf_printf(out, "%s%zu %s", between, parts[i].count, parts[i].word);
		between = ", ";
	}
}

/* Counts one step of a walk over two sorted lists and moves on.  order is below 0 when
 * the old entry comes first. */
static void count_step(
    struct counts *counts, int order, bool is_same, size_t *old_at, size_t *new_at)
{
	counts->removed += order < 0;
	counts->added += order > 0;
	counts->changed += order == 0 && !is_same;
	*old_at += order <= 0;
	*new_at += order >= 0;
}

static struct counts count_databases(const struct config *old, const struct config *new)
{
	struct counts counts = {0, 0, 0};

	for (size_t i = 0; i < new->database_count; i++) {
		const struct database_config *entry = &new->databases[i], *before;
		if (old == new || config_is_unchanged(new, entry, old))
			continue;
		before = config_database(old, entry->name);
		counts.added += !before;
		counts.changed +=
		    before && strcmp(before->connstr, entry->connstr) != 0;
	}
	counts.removed = old->database_count + counts.added - new->database_count;
	return counts;
}

static bool is_same_level(const struct level *a, const struct level *b)
{
	const struct setting *row;

	for (size_t i = 0; (row = setting_at(i)); i++)
		if (row->level != LEVEL_GLOBAL && !setting_is_equal_at(row, a, b))
			return false;
	return true;
}

static struct counts count_users(const struct config *old, const struct config *new)
{
	struct counts counts = {0, 0, 0};
	size_t i = 0, k = 0;

	while (i < old->user_count || k < new->user_count) {
		const struct user_config *a = &old->users[i];
		const struct user_config *b = &new->users[k];
		int order = i == old->user_count   ? 1
			    : k == new->user_count ? -1
						   : strcmp(a->name, b->name);

		count_step(&counts, order,
		    order == 0 && is_same_level(&a->own, &b->own), &i, &k);
	}
	return counts;
}

static struct counts count_peers(const struct config *old, const struct config *new)
{
	struct counts counts = {0, 0, 0};
	size_t i = 0, k = 0;

	while (i < old->peer_count || k < new->peer_count) {
		const struct peer_config *a = &old->peers[i];
		const struct peer_config *b = &new->peers[k];
		int order = i == old->peer_count   ? 1
			    : k == new->peer_count ? -1
						   : a->id - b->id;

		count_step(&counts, order,
		    order == 0 && strcmp(a->host, b->host) == 0 && a->port == b->port &&
			a->pool_size == b->pool_size,
		    &i, &k);
	}
	return counts;
}

void config_diff_put(struct buf *out, const struct loaded_config *running,
    const struct loaded_config *next)
{
	size_t start = out->len;

	if (running->config != next->config) {
		put_settings(
		    out, start, &running->config->settings, &next->config->settings);
		struct counts counts = count_databases(running->config, next->config);
		put_counts(out, start, "databases", &counts);
		const struct database_config *a = running->config->template,
					     *b = next->config->template;
		if (a && b ? strcmp(a->connstr, b->connstr) != 0 : a != b) {
			begin_part(out, start);
			buf_put_text(out, "the entry *");
		}
		counts = count_users(running->config, next->config);
		put_counts(out, start, "users", &counts);
		counts = count_peers(running->config, next->config);
		put_counts(out, start, "peers", &counts);
	}
	if (next->users) {
		begin_part(out, start);
		buf_printf(
		    out, "auth_file read, %zu users", userlist_count(next->users));
	}
	if (next->tls && tls_setup_looks_stale(running->tls)) {
		begin_part(out, start);
		buf_put_text(out, "certificate files");
	}
	if (out->len == start)
		buf_put_text(out, "nothing");
}
