#include "admin/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/explain.h"
#include "admin/reply.h"
#include "admin/wait.h"
#include "base/text.h"
#include "session/workers.h"
#include "views/show.h"
#include "views/views_fds.h"
#include "wire/codec.h"

#define COMMAND(name, arguments, rights, handler, usage, help) \
	static void handler(const struct order *order);
#include "admin/commands.def"
#undef COMMAND

#define ANYONE true
#define ADMIN  false
#define COMMAND(name, arguments, rights, handler, usage, help) \
	{#name, arguments, usage, handler, rights},
static const struct verb verbs[] = {
#include "admin/commands.def"
};
#undef COMMAND

/* The ticket of a SET that waits for a reload. */
#define PUT_OFF UINT64_MAX

enum { VERB_COUNT = sizeof(verbs) / sizeof(verbs[0]) };

/* ---- finding, form, rights ---- */

const struct verb *verb_at(size_t i)
{
	return i < VERB_COUNT ? &verbs[i] : NULL;
}

/* SET, EXPLAIN and SWITCHOVER have forms of their own, which no other command has. */
static bool has_own_form(const struct verb *verb, enum command_form form)
{
	switch (form) {
	case COMMAND_SET:
		return verb->run == verb_set;
	case COMMAND_EXPLAIN:
		return verb->run == verb_explain;
	case COMMAND_SWITCHOVER:
		return verb->run == verb_switchover;
	default:
		return verb->run != verb_set && verb->run != verb_explain;
	}
}

const struct verb *verb_find(const struct command *command)
{
	for (size_t i = 0; i < VERB_COUNT; i++) {
		const struct verb *verb = &verbs[i];
		if (has_own_form(verb, command->form) &&
		    text_equal_nocase(verb->name, command->word))
			return verb;
	}
	return NULL;
}

bool verb_has_form(const struct verb *verb, const struct command *command)
{
	const char *at = verb->arguments;
	size_t len = strlen(command->argument);

	if (!at)
		return true;
	for (;;) {
		size_t item = strcspn(at, "|");
		if (item == len && strncasecmp(at, command->argument, len) == 0)
			return true;
		if (!at[item])
			return false;
		at += item + 1;
	}
}

bool verb_is_allowed(
    const struct verb *verb, const struct command *command, bool is_admin)
{
	if (is_admin)
		return true;
	if (verb->run == verb_set)
		return driver_param_find(command->argument) != NULL;
	if (verb->run == verb_show) {
		const struct view *view = view_find(command->argument);
		return !view || !view->is_admin_only;
	}
	return verb->is_for_anyone;
}

/* ---- shared by several commands ---- */

static struct site *order_site(const struct order *order)
{
	return order->client->conn.site;
}

/* The database that the command names, or NULL for all. */
static const char *order_database(const struct order *order)
{
	return order->command->argument[0] ? order->command->argument : NULL;
}

static void log_issued(const struct order *order, const char *name)
{
	struct log *log = order_site(order)->log;
	const char *database = order_database(order);

	if (database)
		log_put(log, LEVEL_LOG | KIND_CONSOLE, NULL, "%s '%s' command issued",
		    name, database);
	else
		log_put(log, LEVEL_LOG | KIND_CONSOLE, NULL, "%s command issued", name);
}

static struct database *make_database(const struct order *order)
{
	const char *name = order->command->argument;
	bool is_new = false;
	struct database *db =
	    catalog_database(order_site(order)->catalog, name, &is_new);

	if (db && is_new)
		conn_log(&order->client->conn, LEVEL_LOG | KIND_POOLS,
		    "registered new auto-database: %s", name);
	return db;
}

/* Checks that db exists and is not the console; NULL: the error was sent.  `verb` is
 * for the text "cannot VERB admin db". */
static struct database *ordinary_database(
    const struct order *order, struct database *db, const char *verb)
{
	const char *name = order->command->argument;

	if (!db)
		reply_error(order->client, ERROR_UNKNOWN_DATABASE, name);
	else if (db->is_admin)
		reply_error(order->client, ERROR_CONSOLE_DATABASE, verb, name);
	else
		return db;
	return NULL;
}

/* The ordinary database that the command names, made from the `*` entry if necessary;
 * NULL: the client was told why there is none. */
static struct database *target_database(const struct order *order, const char *verb)
{
	return ordinary_database(order, make_database(order), verb);
}

/* What a command does to a database, at every site. */
typedef void database_fn(struct database *db);

struct database_order {
	database_fn *act;
	char name[];
};

static void act_at(struct site *site, const void *what)
{
	const struct database_order *order = what;
	bool is_new;
	struct database *db = catalog_database(site->catalog, order->name, &is_new);

	if (db && !db->is_admin)
		order->act(db);
}

static void act_everywhere(struct site *site, const char *name, database_fn *act)
{
	size_t len = strlen(name), size = sizeof(struct database_order) + len + 1;
	struct database_order *order = mem_alloc(size);

	order->act = act;
	memcpy(order->name, name, len + 1);
	workers_broadcast(site, act_at, order, size);
	mem_free(order);
}

static void each_database(const struct order *order, database_fn *act)
{
	act_everywhere(order_site(order), order->command->argument, act);
}

static bool is_stopped(const struct order *order)
{
	const struct catalog *catalog = order_site(order)->catalog;

	if (!catalog->paused && !catalog->suspended)
		return false;
	reply_error(order->client, ERROR_ALREADY_PAUSED);
	return true;
}

/* ---- SHOW and SET ---- */

static void verb_show(const struct order *order)
{
	const char *item = order->command->argument;
	const struct driver_param *param = driver_param_find(item);
	const struct view *view = view_find(item);
	struct buf out;

	if (!param && !view) {
		reply_invalid(order->client, order->query);
		return;
	}
	if (view && show_stream_are_due(view, order_site(order))) {
		show_stream_start(order->slices, view, order->client);
		return;
	}
	buf_init(&out, 0);
	if (view && view->walk == view_fds && views_may_send_fds(order->client)) {
		show_put_columns(view->columns, view->column_count, &out);
		conn_send(&order->client->conn, &out);
		views_send_fds(order->client, view->column_count);
		buf_done(&out);
		return;
	}
	if (param)
		driver_param_put(param, &out);
	else if (!view->walk)
		reply_put_help(&out);
	else
		view_put(view, order_site(order), &out);
	codec_put_ready(&out, 'I');
	conn_send(&order->client->conn, &out);
	buf_done(&out);
}

static void verb_set(const struct order *order)
{
	struct site *site = order_site(order);
	const struct command *command = order->command;
	char tag[COMMAND_ARGUMENT_MAX + COMMAND_VALUE_MAX + sizeof("SET =")];
	struct err err;
	int rc;

	if (driver_param_find(command->argument)) {
		client_notice(order->client, "SET ignored");
		reply_done(order->client, "SET");
		return;
	}
	*order->ticket = site->verbs->is_set_put_off(site) ? PUT_OFF : 0;
	if (*order->ticket)
		return;
	rc = site->verbs->set(site, command->argument, command->value, &err);
	if (rc < 0) {
		log_put(site->log, LEVEL_ERROR | KIND_CONSOLE, NULL, "%s", err.text);
		reply_error_detail(order->client, ERROR_SET_FAILED, err.text);
		return;
	}
	if (rc > 0)
		client_notice(order->client, err.text);
	snprintf(tag, sizeof(tag), "SET %s=%s", command->argument, command->value);
	reply_done(order->client, tag);
}

static void verb_explain(const struct order *order)
{
	struct buf out;

	buf_init(&out, 0);
	if (explain_put(order->client, order->command, &out) < 0) {
		buf_done(&out);
		reply_error(order->client, ERROR_NOT_AN_ADDRESS, order->command->value);
		return;
	}
	codec_put_ready(&out, 'I');
	conn_send(&order->client->conn, &out);
	buf_done(&out);
}

/* ---- the process ---- */

static void verb_reload(const struct order *order)
{
	struct site *site = order_site(order);
	struct err err;
	int result;

	if (*order->ticket == 0)
		log_issued(order, "RELOAD");
	result = site->verbs->reload(site, order->ticket, &err);
	if (result > 0)
		return;
	if (result < 0) {
		log_put(site->log, LEVEL_ERROR | KIND_RELOAD, NULL,
		    "RELOAD Failed, see logs for more details");
		reply_error_detail(order->client, ERROR_RELOAD_FAILED, err.text);
		return;
	}
	reply_done(order->client, "RELOAD");
}

static bool has_paused_database(const struct catalog *catalog)
{
	size_t count;
	struct database **databases = catalog_sorted_databases(catalog, &count);
	bool has = false;

	for (size_t i = 0; i < count; i++)
		has = has || databases[i]->paused;
	free(databases);
	return has;
}

static void verb_suspend(const struct order *order)
{
	struct site *site = order_site(order);

	log_issued(order, "SUSPEND");
	if (is_stopped(order))
		return;
	if (site->shutdown != SHUTDOWN_NONE) {
		reply_error(order->client, ERROR_GOING_DOWN);
	} else if (has_paused_database(site->catalog)) {
		reply_error(order->client, ERROR_DATABASES_PAUSED);
	} else {
		site->verbs->suspend(site);
		wait_begin(order->client, WAIT_SUSPEND, NULL);
	}
}

static void verb_shutdown(const struct order *order)
{
	struct site *site = order_site(order);
	const char *argument = order->command->argument;
	enum shutdown_mode mode = SHUTDOWN_NOW;

	if (text_equal_nocase(argument, "WAIT_FOR_SERVERS"))
		mode = SHUTDOWN_WAIT_FOR_SERVERS;
	else if (text_equal_nocase(argument, "WAIT_FOR_CLIENTS"))
		mode = SHUTDOWN_WAIT_FOR_CLIENTS;
	log_put(site->log, LEVEL_LOG | KIND_CONSOLE, NULL, "SHUTDOWN%s command issued",
	    mode == SHUTDOWN_NOW                ? ""
	    : mode == SHUTDOWN_WAIT_FOR_SERVERS ? " WAIT_FOR_SERVERS"
						: " WAIT_FOR_CLIENTS");
	if (mode != SHUTDOWN_NOW)
		reply_done(order->client, "SHUTDOWN");
	site->verbs->shutdown(site, mode);
}

/* TAKEOVER: its answer carries a socket, over which the two processes then communicate.
 */
static void verb_takeover(const struct order *order)
{
	struct site *site = order_site(order);
	struct client *client = order->client;
	int format = 0, fd = -1;
	struct err err;

	log_issued(order, "TAKEOVER");
	if (!views_may_send_fds(client))
		reply_error(client, ERROR_ADMIN_NEEDED);
	else if (text_int(order->command->argument, &format) < 0)
		reply_error(client, ERROR_TAKEOVER_NUMBER);
	else if (site->verbs->takeover(site, client, format, &fd, &err) < 0)
		reply_error(client, ERROR_TAKEOVER_REFUSED, err.text);
	else
		views_send_fd(client, "TAKEOVER", fd);
}

/* ---- all databases or one ---- */

static bool is_switching(const struct order *order, const struct database *db)
{
	if (db->is_switching)
		reply_error(order->client, ERROR_DATABASE_SWITCHING, db->name);
	return db->is_switching;
}

static void pause_one(struct database *db)
{
	db->paused = true;
	catalog_schedule_all(db->catalog, db);
}

static void verb_pause(const struct order *order)
{
	struct site *site = order_site(order);
	struct database *db;

	log_issued(order, "PAUSE");
	if (order_database(order)) {
		if (is_stopped(order) || !(db = target_database(order, "pause")) ||
		    is_switching(order, db))
			return;
		each_database(order, pause_one);
		wait_begin(order->client, WAIT_PAUSE, db->name);
	} else if (!is_stopped(order)) {
		site->verbs->pause(site);
		wait_begin(order->client, WAIT_PAUSE, NULL);
	}
}

static void resume_one(struct database *db)
{
	db->paused = db->is_switching = false;
	catalog_schedule_all(db->catalog, db);
}

static void verb_resume(const struct order *order)
{
	log_issued(order, "RESUME");
	if (order_database(order)) {
		struct site *site = order_site(order);
		const char *name = order->command->argument;
		struct database *db = catalog_find_database(site->catalog, name);
		if (!db) {
			reply_error(order->client, ERROR_UNKNOWN_DATABASE, name);
		} else if (!db->paused) {
			reply_error(order->client, ERROR_DATABASE_NOT_PAUSED, name);
		} else {
			each_database(order, resume_one);
			wait_review(site);
			reply_done(order->client, "RESUME");
		}
	} else {
		struct site *site = order_site(order);
		if (site->shutdown != SHUTDOWN_NONE) {
			reply_error(order->client, ERROR_GOING_DOWN);
		} else if (!site->catalog->paused && !site->catalog->suspended) {
			reply_error(order->client, ERROR_NOT_PAUSED);
		} else {
			site->verbs->resume(site);
			reply_done(order->client, "RESUME");
		}
	}
}

static void mark_one_dirty(struct database *db)
{
	catalog_mark_dirty(db->catalog, db);
}

static void mark_all_dirty(struct site *site)
{
	catalog_mark_dirty(site->catalog, NULL);
}

static void verb_reconnect(const struct order *order)
{
	struct database *db = NULL;

	log_issued(order, "RECONNECT");
	if (order_database(order) && !(db = target_database(order, "reconnect")))
		return;
	if (db)
		each_database(order, mark_one_dirty);
	else
		workers_all(order_site(order), mark_all_dirty);
	reply_done(order->client, "RECONNECT");
}

static void kill_one(struct database *db)
{
	catalog_kill(db->catalog, db, error_text(ERROR_DATABASE_REMOVED));
}

/* ctx: names of databases, by name. */
static void add_name(void *ctx, const char *database)
{
	struct map *names = ctx;
	size_t len = strlen(database);

	if (!map_get(names, database, len)) {
		char *name = mem_strdup(database);
		map_put(names, name, len, name);
	}
}

/* Those that have a pool at any site are killed at all of them.  The central pools tell
 * them, so that a worker that does not answer later kills the same ones. */
static void kill_shared(struct site *site, struct central *central)
{
	struct map *names = map_new();
	size_t at = 0;
	char *name;

	central_each_database(central, add_name, names);
	while ((name = map_next(names, &at))) {
		act_everywhere(site, name, kill_one);
		mem_free(name);
	}
	map_free(&names);
}

static void verb_kill(const struct order *order)
{
	struct database *db = NULL;

	log_issued(order, "KILL");
	if (is_stopped(order))
		return;
	if (order_database(order) && !(db = target_database(order, "kill")))
		return;
	if (db) {
		each_database(order, kill_one);
	} else {
		/* KILL of all databases that are used; they stay paused */
		struct site *site = order_site(order);
		if (site->worker)
			kill_shared(site, site->worker->workers->central);
		else
			catalog_kill(
			    site->catalog, NULL, error_text(ERROR_DATABASE_REMOVED));
	}
	reply_done(order->client, "KILL");
}

static void verb_wait_close(const struct order *order)
{
	struct database *db = NULL;

	log_issued(order, "WAIT_CLOSE");
	if (order_database(order) && !(db = target_database(order, "wait in")))
		return;
	wait_begin(order->client, WAIT_CLOSE, db ? db->name : NULL);
}

/* ---- one database ---- */

/* False: the command names no database, and the reply has been sent. */
static bool has_database(const struct order *order)
{
	if (order_database(order))
		return true;
	reply_error(order->client, ERROR_DATABASE_REQUIRED);
	return false;
}

static void disable_one(struct database *db)
{
	db->disabled = true;
}

static void enable_one(struct database *db)
{
	db->disabled = false;
}

static void verb_disable(const struct order *order)
{
	struct database *db;

	if (!has_database(order))
		return;
	log_issued(order, "DISABLE");
	if (!(db = target_database(order, "disable")))
		return;
	each_database(order, disable_one);
	reply_done(order->client, "DISABLE");
}

static void verb_enable(const struct order *order)
{
	struct catalog *catalog = order_site(order)->catalog;
	struct database *db;

	if (!has_database(order))
		return;
	log_issued(order, "ENABLE");
	db = catalog_find_database(catalog, order->command->argument);
	if (!(db = ordinary_database(order, db, "enable")))
		return;
	each_database(order, enable_one);
	reply_done(order->client, "ENABLE");
}

static void verb_switchover(const struct order *order)
{
	struct site *site = order_site(order);
	const char *to = order->command->value;
	struct database *db;
	enum error_id id;

	if (!has_database(order))
		return;
	log_issued(order, "SWITCHOVER");
	if (is_stopped(order))
		return;
	db = catalog_find_database(site->catalog, order->command->argument);
	if (!(db = ordinary_database(order, db, "switch over")))
		return;
	if (switchover_check(site, db, to, &id) < 0)
		reply_error(order->client, id, db->name, to);
	else
		wait_begin_switchover(order->client, switchover_begin(site, db, to));
}

/* ---- one client ---- */

/* Finds a client by its id in SHOW CLIENTS, which does not show clients that are still
 * logging in. */
static struct client *find_client(struct site *site, uint64_t id)
{
	struct client *client;

	list_for (client, &site->clients, site_node)
		if (client->conn.id == id && !client->conn.is_doomed)
			return client;
	list_for (client, &site->cancel_clients, site_node)
		if (client->conn.id == id && !client->conn.is_doomed)
			return client;
	return NULL;
}

struct wanted {
	uint64_t id;
	bool is_found;
};

static void end_client(struct site *site, void *ctx)
{
	struct wanted *wanted = ctx;
	struct client *client = find_client(site, wanted->id);

	if (!client)
		return;
	wanted->is_found = true;
	client_fatal(client, ERROR_ADMIN_DISCONNECT);
}

static void end_client_at(struct site *site, const void *what)
{
	struct wanted wanted = *(const struct wanted *)what;

	end_client(site, &wanted);
}

static void verb_kill_client(const struct order *order)
{
	const char *argument = order->command->argument;

	if (argument[0] < '0' || argument[0] > '9') {
		reply_error(order->client, ERROR_BAD_CLIENT_POINTER);
		return;
	}
	struct wanted wanted = {.id = strtoull(argument, NULL, 10)};
	unsigned missed = workers_each(order_site(order), end_client, &wanted);
	if (!wanted.is_found && missed > 0) {
		/* only a worker that does not answer can have the client: it ends it as
		 * soon as it goes on */
		workers_broadcast(
		    order_site(order), end_client_at, &wanted, sizeof(wanted));
		client_notice(order->client,
		    "a worker does not answer; if it has the client, "
		    "it closes it as soon as it answers again");
	} else if (!wanted.is_found) {
		reply_error(order->client, ERROR_NO_SUCH_CLIENT);
		return;
	}
	reply_done(order->client, "KILL_CLIENT");
}
