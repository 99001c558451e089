/*
 * Puts a new snapshot in force: makes what is new, marks what has changed, drops what
 * is gone.  Nothing here can fail.
 */
#include <string.h>

#include "base/log_levels.h"
#include "base/mem.h"
#include "base/text.h"
#include "conf/entry.h"
#include "pool/catalog_parts.h"
#include "pool/conn_limits.h"
#include "pool/credentials.h"
#include "pool/idle.h"
#include "pool/slots.h"

static bool is_text_equal(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/* ---- databases ---- */

struct catalog_change {
	struct catalog *c;
	struct config *old; /* NULL at the start */
	catalog_note_fn *note;
	void *note_ctx;
};

static void adopt_entry(const struct catalog_change *a, struct database *db,
    const struct database_config *entry)
{
	bool is_losing_user = db->forced_user && !entry->user;

	if (!db->config)
		database_set_config(db, entry);
	else if (!db->is_auto && !is_losing_user &&
		 config_is_unchanged(a->c->config, entry, a->old)) {
		db->config = entry;
	} else {
		bool is_obsolete = entry_is_obsoleting(db->config, entry);
		if (db->forced_user && !entry->user)
			catalog_note(a->note, a->note_ctx, LEVEL_WARNING,
			    "losing forced user not supported, keeping old setting");
		database_set_config(db, entry);
		/* it may have been an auto-database before */
		db->is_auto = false;
		if (db->arena)
			arena_free(&db->arena);
		idle_note_database(db);
		if (is_obsolete)
			database_mark_dirty(db);
	}
}

/* Most entries have not changed, and the walk goes through memory in order; looking up
 * the name would take several times as long. */
static struct database *database_of_entry(const struct catalog_change *a,
    struct database *const *known, const struct database_config *entry)
{
	struct database *db;

	if (config_is_unchanged(a->c->config, entry, a->old))
		return known[entry->twin - 1];
	db = catalog_find_database(a->c, entry->name);
	return db ? db : database_new(a->c, entry->name);
}

static void adopt_databases(const struct catalog_change *a)
{
	const struct config *config = a->c->config;
	struct database **known = a->c->by_entry;

	a->c->config_round++;
	a->c->by_entry = mem_alloc(config->database_count * sizeof(struct database *));
	for (size_t i = 0; i < config->database_count; i++) {
		const struct database_config *entry = &config->databases[i];
		struct database *db = database_of_entry(a, known, entry);
		a->c->by_entry[i] = db;
		db->config_round = a->c->config_round;
		if (!db->is_admin)
			adopt_entry(a, db, entry);
	}
	mem_free(known);
}

/* Drops the databases that have no entry in the new snapshot. */
static void drop_missing(const struct catalog_change *a)
{
	struct database *db;
	size_t at = 0;

	while ((db = map_next(a->c->databases, &at))) {
		if (db->is_admin || db->is_auto ||
		    db->config_round == a->c->config_round)
			continue;
		catalog_note(a->note, a->note_ctx, LEVEL_WARNING,
		    "dropping database '%s' as it does not exist anymore or inactive "
		    "auto-database",
		    db->name);
		database_drop(db, a->old, error_text(ERROR_DATABASE_REMOVED));
	}
}

static void drop_peers(const struct catalog_change *a)
{
	const struct config *old = a->old, *config = a->c->config;
	size_t at = 0;

	for (size_t i = 0; old && i < old->peer_count; i++) {
		int id = old->peers[i].id;
		while (at < config->peer_count && config->peers[at].id < id)
			at++;
		if (at == config->peer_count || config->peers[at].id != id)
			catalog_note(a->note, a->note_ctx, LEVEL_WARNING,
			    "dropping peer %d as it does not exist anymore", id);
	}
}

static void adopt_template(const struct catalog_change *a)
{
	struct catalog *c = a->c;
	const struct database_config *old = c->template, *new = c->config->template;
	struct config *old_config = c->template_config;
	struct database *db;
	size_t at = 0;

	if (!new)
		return;
	c->template = new;
	c->template_config = config_ref(c->config);
	if (old && !is_text_equal(old->connstr, new->connstr)) {
		while ((db = map_next(c->databases, &at))) {
			if (db->is_auto && database_from_template(db) == 0)
				database_mark_dirty(db);
		}
	}
	if (old_config)
		config_unref(&old_config);
}

/* The global target_session_attrs has changed.  The role of servers that were accepted
 * under the old value may be unknown, so they are replaced. */
static void adopt_target(const struct catalog_change *a)
{
	struct database *db;
	size_t at = 0;

	if (!a->old || a->old->settings.global.target_session_attrs ==
			   a->c->config->settings.global.target_session_attrs)
		return;
	while ((db = map_next(a->c->databases, &at))) {
		if (!db->is_admin &&
		    !level_has(&db->config->own, SETTING_INDEX_target_session_attrs)) {
			database_set_config(db, db->config);
			database_mark_dirty(db);
		}
	}
}

/* ---- users ---- */

static void adopt_user_entries(const struct catalog_change *a)
{
	struct catalog *c = a->c;
	struct user *user;
	size_t at = 0;

	if (a->old && !a->old->user_count && !c->config->user_count)
		return;
	for (size_t i = 0; i < c->config->user_count; i++)
		catalog_user(c, c->config->users[i].name);
	while ((user = map_next(c->users, &at)))
		user->config = config_user(c->config, user->name);
}

static void adopt_stand_in(struct catalog *c)
{
	const struct config *config = c->config;

	c->stand_in = NULL;
	if (!text_or_null(config->settings.global.auth_user))
		return;
	/* one whose auth_query depends on global settings only, as that of a database
	 * that does not exist would */
	for (size_t i = 0; i < config->database_count && !c->stand_in; i++) {
		const struct level *own = &config->databases[i].own;
		if (!own->auth_user && !own->auth_query && !own->auth_dbname)
			c->stand_in = c->by_entry[i];
	}
}

void catalog_adopt(struct catalog *c, struct config *config, struct userlist *users,
    catalog_note_fn *note, void *note_ctx)
{
	struct catalog_change a = {c, c->config, note, note_ctx};
	const char *auth_user = text_or_null(config->settings.global.auth_user);
	struct pool *pool;

	c->config = config_ref(config);
	credentials_forget_all(c);
	/* SET makes a snapshot with the same entries */
	if (!a.old || a.old->databases != config->databases ||
	    a.old->users != config->users || a.old->template != config->template) {
		adopt_databases(&a);
		drop_missing(&a);
		drop_peers(&a);
		adopt_template(&a);
		adopt_user_entries(&a);
	}
	if (auth_user)
		catalog_user(c, auth_user);
	adopt_stand_in(c);
	if (users) {
		catalog_begin_users(c, users);
		catalog_adopt_users(c, SIZE_MAX);
	}
	adopt_target(&a);
	list_for (pool, &c->pool_list, node)
		pool_review_mode(pool);
	if (a.old)
		config_unref(&a.old);
	conn_limits_note_all(c);
	catalog_schedule_all(c, NULL);
}
