/*
 * Reads SHOW STATS and judges what a setting would save.
 */
#include "tools/advice_live.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/text.h"
#include "base/wrapped.h"
#include "tools/pg_client.h"

/* From so many repeated Parses on, if these are one of so many queries, it is worth a
 * sentence. */
enum { REPEATED_LEAST = 100, QUERIES_FOR_ONE = 5 };

enum { CONNECT_SECONDS = 2, NAME_MOST = 64 };

enum column { DATABASE, QUERIES, REPEATED, SAVED, COLUMNS };

struct live {
	struct pg_client *pg_client;
	bool is_asked;
	size_t at[COLUMNS]; /* their places in a row */
	/* borrowed */
	struct advice *a;
};

static int take_columns(void *ctx, const struct pg_client_row *names)
{
	static const char *const wanted[] = {
	    [DATABASE] = "database",
	    [QUERIES] = "total_query_count",
	    [REPEATED] = "total_repeated_parse_count",
	    [SAVED] = "total_saved_parse_count",
	};
	struct live *l = ctx;

	for (size_t i = 0; i < COLUMNS; i++) {
		l->at[i] = names->count;
		for (size_t j = 0; j < names->count; j++)
			if (strcmp((const char *)names->values[j], wanted[i]) == 0)
				l->at[i] = j;
	}
	return 0;
}

/* Copies a value.  An empty text: there is none, or none that can be printed. */
static void copy_value(const struct live *l, const struct pg_client_row *row,
    enum column column, char text[NAME_MOST])
{
	size_t at = l->at[column];

	text[0] = '\0';
	if (at >= row->count || !row->values[at] || row->lens[at] >= NAME_MOST)
		return;
	for (size_t i = 0; i < row->lens[at]; i++)
		if (!text_is_printable(row->values[at][i]))
			return;
	memcpy(text, row->values[at], row->lens[at]);
	text[row->lens[at]] = '\0';
}

static uint64_t number_of(
    const struct live *l, const struct pg_client_row *row, enum column column)
{
	char text[NAME_MOST];

	copy_value(l, row, column, text);
	return strtoull(text, NULL, 10);
}

static int take_row(void *ctx, const struct pg_client_row *row)
{
	struct live *l = ctx;
	const struct sizing_input *input = l->a->o->input;
	uint64_t queries = number_of(l, row, QUERIES);
	uint64_t again = number_of(l, row, REPEATED), saved = number_of(l, row, SAVED);
	const struct database_config *db = input->template;
	char name[NAME_MOST];
	struct scope scope;

	copy_value(l, row, DATABASE, name);
	for (size_t i = 0; i < input->config->database_count; i++)
		if (strcmp(input->config->databases[i].name, name) == 0)
			db = &input->config->databases[i];
	if (!db || !name[0] || strcmp(name, "pgbouncer") == 0 || saved ||
	    again < REPEATED_LEAST || again < queries / QUERIES_FOR_ONE)
		return 0;
	scope =
	    (struct scope){.settings = &input->config->settings, .database = &db->own};
	if (scope_prepare_unnamed(scope) > 0 ||
	    scope_max_prepared_statements(scope) == 0 ||
	    scope_pool_mode(scope) == POOL_MODE_SESSION)
		return 0;
	advice_give_at(l->a,
	    db == input->template ? input->config->template->file : db->file,
	    db == input->template ? input->config->template->line : db->line,
	    "database %s: %" PRIu64 " of %" PRIu64
	    " queries parsed an unnamed statement whose text the same client had sent "
	    "just before; with prepare_unnamed = 5 PostgreSQL parses such a text once",
	    name, again, queries);
	return 0;
}

static int take_error(
    void *ctx, const char *user, const struct error_fields *fields, struct err *err)
{
	(void)ctx;
	(void)user;
	return err_set(err, "%s", fields->message);
}

static void ready(void *ctx)
{
	struct live *l = ctx;

	if (l->is_asked) {
		pg_client_end(l->pg_client);
		return;
	}
	l->is_asked = true;
	pg_client_ask(l->pg_client, "SHOW STATS");
}

static const struct pg_client_ops live_ops = {
    .row = take_row, .columns = take_columns, .error = take_error, .ready = ready};

void advice_live_look(struct advice *a)
{
	const struct settings *s = &a->o->input->config->settings;
	struct live l = {.a = a};
	enum pg_client_answer answer = PG_CLIENT_DONE;
	struct buf path, entry;
	struct err err = {.text = ""};

	buf_init(&path, 0);
	buf_init(&entry, 0);
	buf_printf(&path, "%s/.s.PGSQL.%d", s->unix_socket_dir, s->listen_port);
	buf_printf(&entry,
	    "host='%s' port=%d dbname=pgbouncer user=pgbouncer "
	    "server_connect_timeout=%d",
	    s->unix_socket_dir, s->listen_port, CONNECT_SECONDS);
	/* a folder with a quote is not worth more */
	if (s->unix_socket_dir[0] == '/' && !strchr(s->unix_socket_dir, '\'') &&
	    access(buf_text(&path), F_OK) == 0) {
		answer = PG_CLIENT_FAILED;
		l.pg_client = pg_client_new(buf_text(&entry), 0, &live_ops, &l, &err);
	}
	if (l.pg_client)
		answer = pg_client_run(l.pg_client);
	pg_client_free(&l.pg_client);
	if (answer == PG_CLIENT_PASSWORD_WANTED)
		err_set(&err, "only the pooler's own account needs no password");
	if (answer != PG_CLIENT_DONE)
		wrapped_put(a->out, "",
		    "The pooler at %s could not be asked for what it counts: %s",
		    buf_text(&path), err.text);
	buf_done(&entry);
	buf_done(&path);
}
