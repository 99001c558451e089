/*
 * PostgreSQL servers, as far as clients and the pooler use them here.  The text of a
 * query names its client and number, which the answer repeats together with the
 * session's parameters; so a client notices any answer that is not its own, and the
 * server any transaction into which somebody else gets.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "sim_notify.h"
#include "sim_tls.h"
#include "wire/codec.h"

enum {
	HOSTS = 2,
	TAG = 40,
	NAME = 64,
	SSL_CODE = 80877103,
	CANCEL_CODE = 80877102,
	FLUSH_AT = 8192,
	SESSIONS_MOST = 100
};

struct statement {
	struct node node;
	char *name, *text;
};

struct portal {
	struct node node;
	char *name, *text; /* with the parameter put in */
};

enum copy { COPY_NONE, COPY_IN };

struct session {
	struct actor actor; /* first */
	struct node node;   /* in host->sessions */
	struct host *host;
	struct event work; /* ends what it executes */
	struct event over; /* frees it */
	uint32_t pid, secret;
	struct gucs gucs;
	char reported[GUCS][GUC_LEN];
	struct list statements, prepared, portals;
	struct buf reply;
	char *query, *at; /* owned: the Query that runs; what is left of it */
	char *running;    /* owned: the statement that takes time */
	enum copy copy;
	char copy_tag[TAG];
	size_t copied;
	unsigned owner; /* 1 + the client whose transaction it is; 0: none */
	char status;    /* I, T, E */
	struct belongings belongings;
	bool is_started, is_skipping, is_busy, is_failed, is_simple;
	bool is_cancelled; /* while it executes */
};

struct host {
	struct place place; /* first */
	struct list sessions;
	struct event fault;
	uint64_t rng;
	uint32_t last_pid;
	uint64_t refuses_until_us, starts_until_us, hangs_until_us;
};

static struct host hosts[HOSTS];

static void session_work(struct session *s);

/* ---- the end of a session ---- */

static void free_all(struct list *l, bool is_portal)
{
	struct node *n;

	while ((n = list_pop_front(l))) {
		struct portal *p = container_of(n, struct portal, node);
		struct statement *st = container_of(n, struct statement, node);
		mem_free(is_portal ? p->name : st->name);
		mem_free(is_portal ? p->text : st->text);
		mem_free(is_portal ? (void *)p : (void *)st);
	}
}

static void session_free(struct event *e)
{
	struct session *s = container_of(e, struct session, over);

	free_all(&s->statements, false);
	free_all(&s->prepared, false);
	free_all(&s->portals, true);
	buf_done(&s->reply);
	mem_free(s->query);
	mem_free(s->running);
	mem_free(s);
}

static void session_end(struct session *s, bool is_reset)
{
	if (!node_is_linked(&s->node))
		return;
	note("session ends", s->pid, is_reset);
	list_remove(&s->host->sessions, &s->node);
	event_cancel(&s->work);
	belongings_done(&s->belongings);
	actor_close(&s->actor, is_reset);
	s->over.run = session_free;
	event_in(&s->over, 0);
}

/* ---- answers ---- */

static void flush(struct session *s)
{
	actor_send(&s->actor, s->reply.bytes, s->reply.len);
	buf_clear(&s->reply);
}

static void maybe_flush(struct session *s)
{
	if (s->reply.len >= FLUSH_AT)
		flush(s);
}

static void say_fatal(struct session *s, const char *sqlstate, const char *text)
{
	codec_put_error(&s->reply, "FATAL", sqlstate, text, NULL, NULL);
	flush(s);
	session_end(s, false);
}

static void report(struct session *s)
{
	for (int i = 0; i < REPORTED; i++) {
		if (strcmp(s->reported[i], s->gucs.of[i].now.text) == 0)
			continue;
		memcpy(s->reported[i], s->gucs.of[i].now.text, GUC_LEN);
		codec_put_parameter_status(&s->reply, guc_names[i], s->reported[i]);
	}
}

/* Notifications have come: they leave at once if nothing is under way. */
static void has_notes(struct event *e)
{
	struct session *s = container_of(e, struct session, belongings.signal);

	if (s->is_busy || s->query || s->copy || s->is_skipping || s->status != 'I' ||
	    s->gucs.in_transaction)
		return;
	belongings_take(&s->belongings, &s->reply);
	flush(s);
}

/* What nobody has asked for may follow in the same segment: a word that is meant for
 * everybody, or that the server ends. */
static void say_ready(struct session *s)
{
	uint64_t *rng = &s->host->rng;

	report(s);
	if (s->status == 'I')
		belongings_take(&s->belongings, &s->reply);
	codec_put_ready(&s->reply, (uint8_t)s->status);
	if (s->status == 'I' && draw_fault(rng, FAULT_SERVERS, 2000))
		codec_put_notice(&s->reply, "by the way", NULL);
	if (s->status == 'I' && draw_fault(rng, FAULT_SERVERS, 500))
		say_fatal(
		    s, "57P01", "terminating connection due to administrator command");
	else
		flush(s);
}

static int say_error(struct session *s, const char *sqlstate, const char *text)
{
	codec_put_error(&s->reply, "ERROR", sqlstate, text, NULL, NULL);
	s->is_failed = true;
	/* values are those of before at once */
	if (s->status == 'T') {
		s->status = 'E';
		gucs_end(&s->gucs, false);
	}
	if (!s->is_simple)
		s->is_skipping = true;
	/* an error does not wait for a Sync */
	flush(s);
	return -1;
}

static int done(struct session *s, const char *tag)
{
	codec_put_command_complete(&s->reply, tag);
	return 0;
}

/* ---- statements ---- */

static struct statement *find_statement(struct list *l, const char *name)
{
	struct statement *st;

	list_for (st, l, node)
		if (strcmp(st->name, name) == 0)
			return st;
	return NULL;
}

static void drop_statement(struct list *l, struct statement *st)
{
	list_remove(l, &st->node);
	mem_free(st->name);
	mem_free(st->text);
	mem_free(st);
}

static void keep_statement(struct list *l, const char *name, const char *text)
{
	struct statement *st = mem_zero(sizeof(*st));

	st->name = mem_strdup(name);
	st->text = mem_strdup(text);
	list_push_back(l, &st->node);
}

static bool begins(const char *text, const char *word)
{
	size_t len = strlen(word);

	return strncasecmp(text, word, len) == 0 &&
	       !isalnum((unsigned char)text[len]) && text[len] != '_';
}

/* The next word, or what stands in quotes. */
static const char *next_word(const char *at, char *out, size_t size)
{
	size_t len = 0;

	at += strspn(at, " \t\n(");
	if (*at == '\'' || *at == '"') {
		char quote = *at++;
		while (*at && (*at != quote || at[1] == quote)) {
			at += *at == quote;
			if (len + 1 < size)
				out[len++] = *at;
			at++;
		}
		at += *at != '\0';
	} else {
		while (*at && !strchr(" =;,()", *at)) {
			if (len + 1 < size)
				out[len++] = *at;
			at++;
		}
	}
	out[len] = '\0';
	return at;
}

static long number_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtol(at + strlen(key), NULL, 10) : 0;
}

static void put_columns(struct session *s)
{
	static const struct codec_column columns[] = {
	    {"tag", 25, -1}, {"parameters", 25, -1}, {"filler", 25, -1}};

	codec_put_row_description(&s->reply, columns, 3);
}

static void put_row(struct session *s, const char *a, const char *b, const char *c)
{
	size_t at = codec_begin_row(&s->reply, 3);

	codec_put_field(&s->reply, a);
	codec_put_field(&s->reply, b);
	codec_put_field(&s->reply, c);
	codec_end_row(&s->reply, at);
	maybe_flush(s);
}

static void put_one(
    struct session *s, bool is_described, const char *const *fields, size_t count)
{
	struct codec_column columns[8];
	char tag[32];

	for (size_t i = 0; i < count; i++)
		columns[i] = (struct codec_column){"c", 25, -1};
	if (is_described)
		codec_put_row_description(&s->reply, columns, count);
	if (!fields) {
		done(s, "SELECT 0");
		return;
	}
	size_t at = codec_begin_row(&s->reply, count);
	for (size_t i = 0; i < count; i++)
		codec_put_field(&s->reply, fields[i]);
	codec_end_row(&s->reply, at);
	snprintf(tag, sizeof(tag), "SELECT 1");
	done(s, tag);
}

/* Whose query it is: each one in a transaction is its owner's. */
static void check_owner(struct session *s, const char *tag)
{
	unsigned client = (unsigned)strtoul(tag + 1, NULL, 10) + 1;

	MUST(tag[0] == 'c', "a server got \"%s\"", tag);
	MUST(!s->owner || s->owner == client,
	    "client %u got into the transaction of client %u on session %u", client - 1,
	    s->owner - 1, s->pid);
	s->owner = client;
}

static int run_tagged(struct session *s, const char *literal)
{
	long rows = number_of(literal, "rows="), size = number_of(literal, "size=");
	char tag[TAG], parameters[GUCS * GUC_LEN], *filler;
	char complete[32];
	long first = 0, most = rows;

	next_word(literal, tag, sizeof(tag));
	check_owner(s, tag);
	if (strstr(literal, "fatal=1")) {
		say_fatal(s, "XX000", "the server ends");
		return -2;
	}
	MUST(s->belongings.temp == number_of(literal, "temp="),
	    "the session of %s has temporary table %ld", literal, s->belongings.temp);
	gucs_text(&s->gucs, parameters, sizeof(parameters));
	filler = mem_alloc((size_t)size + 1);
	memset(filler, 'a' + tag[strlen(tag) - 1] % 26, (size_t)size);
	filler[size] = '\0';
	if (strstr(literal, "notice=1"))
		codec_put_notice(&s->reply, tag, NULL);
	if (s->is_simple)
		put_columns(s);
	if (strstr(literal, "err=1"))
		most = rows / 2;
	for (long i = first; i < most; i++)
		put_row(s, tag, parameters, filler);
	mem_free(filler);
	if (strstr(literal, "err=1"))
		return say_error(s, "22012", tag);
	snprintf(complete, sizeof(complete), "SELECT %ld", rows);
	return done(s, complete);
}

/* The names of parameters whose value is not that of the session. */
static int run_sources(struct session *s, const char *text)
{
	const struct codec_column column = {"name", 19, 64};

	if (s->is_simple)
		codec_put_row_description(&s->reply, &column, 1);
	for (int i = 0; i < REPORTED; i++) {
		char quoted[NAME] = "'";
		for (int j = 0; guc_names[i][j]; j++) {
			quoted[j + 1] = (char)tolower((unsigned char)guc_names[i][j]);
			quoted[j + 2] = '\'';
		}
		if (!strstr(text, quoted) || s->gucs.of[i].now.is_set)
			continue;
		size_t at = codec_begin_row(&s->reply, 1);
		codec_put_field(&s->reply, guc_names[i]);
		codec_end_row(&s->reply, at);
	}
	return done(s, "SELECT 1");
}

/* With these the pooler makes a statement fail: there is no such column. */
static bool has_no_column(const char *text)
{
	return strstr(text, "refused by the pooler") ||
	       strstr(text, "pgbouncer_failed_block");
}

static int run_select(struct session *s, const char *text)
{
	static const char *const one[] = {"1"};
	static const char *const role[] = {"f", "off", "00000001", "1000"};
	char literal[512];

	if (has_no_column(text))
		return say_error(s, "42703", "column does not exist");
	if (belongings_is_question(text)) {
		snprintf(literal, sizeof(literal), "SELECT %d",
		    belongings_answer(&s->belongings, &s->gucs, text, &s->reply));
		return done(s, literal);
	}
	if (strstr(text, "FROM (VALUES (")) {
		belongings_put(&s->gucs, text);
		put_one(s, s->is_simple, NULL, 0);
		return 0;
	}
	if (strstr(text, "set_config(")) {
		char value[GUC_LEN];
		const char *at =
		    next_word(strchr(text, '(') + 1, literal, sizeof(literal));
		next_word(at + 1, value, sizeof(value));
		if (strstr(text, "source<>'session'") && guc_find(literal) >= 0 &&
		    s->gucs.of[guc_find(literal)].now.is_set) {
			put_one(s, s->is_simple, NULL, 1);
			return 0;
		}
		if (guc_find(literal) >= 0 &&
		    gucs_set(&s->gucs, guc_find(literal), value,
			strstr(text, ",true") != NULL) < 0)
			return say_error(s, "22023", "invalid value");
		put_one(s, s->is_simple, one, 1);
		return 0;
	}
	if (strstr(text, "pg_authid")) {
		static const char *const u3[] = {"u3", "password of u3"};
		put_one(s, s->is_simple, strstr(text, "'u3'") ? u3 : NULL, 2);
		return 0;
	}
	if (strstr(text, "pg_settings"))
		return run_sources(s, text);
	if (strstr(text, "pg_is_in_recovery")) {
		put_one(s, s->is_simple, role,
		    strstr(text, "timeline") || strstr(text, "wal") ? 4 : 2);
		return 0;
	}
	next_word(text + 6, literal, sizeof(literal));
	if (strcmp(literal, "1") == 0) {
		put_one(s, s->is_simple, one, 1);
		return 0;
	}
	return run_tagged(s, literal);
}

static int run_set(struct session *s, const char *text)
{
	char name[NAME], value[GUC_LEN];
	const char *at = next_word(text + 3, name, sizeof(name));
	bool is_local = strcasecmp(name, "local") == 0;
	int i;

	if (is_local || strcasecmp(name, "session") == 0)
		at = next_word(at, name, sizeof(name));
	at += strspn(at, " ");
	at += *at == '=' ? 1 : 2;
	at = next_word(at, value, sizeof(value));
	i = guc_find(name);
	if (i < 0)
		return say_error(s, "42704", "unrecognized configuration parameter");
	/* DateStyle may be a list without quotes */
	if (strcasecmp(value, "default") == 0)
		gucs_reset(&s->gucs, i);
	else if (gucs_set(&s->gucs, i, value, is_local) < 0)
		return say_error(s, "22023", "invalid value for parameter");
	return done(s, "SET");
}

static void forget(struct session *s)
{
	free_all(&s->statements, false);
	free_all(&s->prepared, false);
}

static void end_transaction(struct session *s, bool is_commit)
{
	gucs_end(&s->gucs, is_commit);
	belongings_end(&s->belongings, is_commit);
	s->status = 'I';
	s->owner = 0;
	free_all(&s->portals, true);
}

static int run_end(struct session *s, bool is_commit)
{
	if (s->status == 'E')
		is_commit = false;
	end_transaction(s, is_commit);
	return done(s, is_commit ? "COMMIT" : "ROLLBACK");
}

static int run_copy(struct session *s, const char *text)
{
	const char *comment = strstr(text, "/*");
	bool is_in = strstr(text, "STDIN") != NULL;
	char complete[32], line[128];
	long rows;

	next_word(comment + 2, s->copy_tag, sizeof(s->copy_tag));
	check_owner(s, s->copy_tag);
	if (is_in) {
		static const uint8_t response[] = {'G', 0, 0, 0, 7, 0, 0, 0};
		buf_put(&s->reply, response, sizeof(response));
		flush(s);
		s->copy = COPY_IN;
		s->copied = 0;
		return 1;
	}
	static const uint8_t response[] = {'H', 0, 0, 0, 7, 0, 0, 0};
	buf_put(&s->reply, response, sizeof(response));
	rows = number_of(comment, "rows=");
	for (long i = 0; i < rows; i++) {
		size_t at = codec_begin(&s->reply, 'd');
		snprintf(line, sizeof(line), "%s %ld\n", s->copy_tag, i);
		buf_put_text(&s->reply, line);
		codec_end(&s->reply, at);
		maybe_flush(s);
	}
	if (strstr(comment, "err=1"))
		return say_error(s, "22012", s->copy_tag);
	codec_end(&s->reply, codec_begin(&s->reply, 'c'));
	snprintf(complete, sizeof(complete), "COPY %ld", rows);
	return done(s, complete);
}

static int run_execute_sql(struct session *s, const char *text)
{
	char name[NAME], literal[512];
	const char *at = next_word(text + 7, name, sizeof(name));

	next_word(at, literal, sizeof(literal));
	if (!find_statement(&s->prepared, name))
		return say_error(s, "26000", "prepared statement does not exist");
	return run_tagged(s, literal);
}

static int run_prepare_sql(struct session *s, const char *text)
{
	char name[NAME];

	next_word(text + 7, name, sizeof(name));
	if (find_statement(&s->prepared, name))
		return say_error(s, "42P05", "prepared statement already exists");
	keep_statement(&s->prepared, name, text);
	return done(s, "PREPARE");
}

static int run_deallocate(struct session *s, const char *text)
{
	char name[NAME];
	struct statement *st;

	next_word(text + 10, name, sizeof(name));
	if (strcasecmp(name, "all") == 0) {
		forget(s);
		return done(s, "DEALLOCATE ALL");
	}
	if (!(st = find_statement(&s->prepared, name)))
		return say_error(s, "26000", "prepared statement does not exist");
	drop_statement(&s->prepared, st);
	return done(s, "DEALLOCATE");
}

/* LISTEN, UNLISTEN, NOTIFY. */
static int run_channel(struct session *s, const char *text)
{
	char verb[NAME], name[NAME], payload[NAME] = "";
	const char *at =
	    next_word(next_word(text, verb, sizeof(verb)), name, sizeof(name));
	int channel = strcmp(name, "*") == 0 ? -1 : channel_find(name);

	next_word(at + strspn(at, ", "), payload, sizeof(payload));
	for (char *c = verb; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	belongings_plan(&s->belongings,
	    verb[0] == 'L'   ? PLAN_LISTEN
	    : verb[0] == 'U' ? PLAN_UNLISTEN
			     : PLAN_NOTIFY,
	    channel, payload);
	return done(s, verb);
}

/* CREATE TEMP TABLE t5, DROP TABLE t5: outside of transactions. */
static int run_temp(struct session *s, const char *text)
{
	bool is_made = begins(text, "create");
	long number = strtol(strstr(text, " t") + 2, NULL, 10);

	MUST(s->status == 'I', "a temporary table within a transaction");
	if (s->belongings.temp != (is_made ? 0 : number))
		return say_error(s, "42P01", "the table is not there");
	s->belongings.temp = is_made ? number : 0;
	return done(s, is_made ? "CREATE TABLE" : "DROP TABLE");
}

/* Returns 0: done; 1: it goes on later; -1: error; -2: the session has ended. */
static int run_now(struct session *s, const char *text)
{
	if (s->status == 'E' && !begins(text, "commit") && !begins(text, "rollback"))
		return say_error(s, "25P02", "current transaction is aborted");
	if (!s->gucs.in_transaction)
		gucs_begin(&s->gucs);
	if (begins(text, "select"))
		return run_select(s, text);
	if (begins(text, "begin")) {
		char tag[TAG];
		const char *comment = strstr(text, "/*");
		s->status = 'T';
		if (comment) {
			next_word(comment + 2, tag, sizeof(tag));
			check_owner(s, tag);
		}
		return done(s, "BEGIN");
	}
	if (begins(text, "commit"))
		return run_end(s, true);
	if (begins(text, "rollback"))
		return run_end(s, false);
	if (begins(text, "set"))
		return run_set(s, text);
	if (begins(text, "copy"))
		return run_copy(s, text);
	if (begins(text, "listen") || begins(text, "unlisten") ||
	    begins(text, "notify"))
		return run_channel(s, text);
	if (begins(text, "create") || begins(text, "drop"))
		return run_temp(s, text);
	if (begins(text, "prepare"))
		return run_prepare_sql(s, text);
	if (begins(text, "execute"))
		return run_execute_sql(s, text);
	if (begins(text, "deallocate"))
		return run_deallocate(s, text);
	if (begins(text, "reset")) {
		char name[NAME];
		next_word(text + 5, name, sizeof(name));
		gucs_reset(
		    &s->gucs, strcasecmp(name, "all") == 0 ? -1 : guc_find(name));
		return done(s, "RESET");
	}
	if (begins(text, "discard")) {
		MUST(s->status == 'I', "DISCARD ALL within a transaction");
		gucs_end(&s->gucs, true);
		gucs_reset(&s->gucs, -1);
		forget(s);
		belongings_discard(&s->belongings);
		free_all(&s->portals, true);
		return done(s, "DISCARD ALL");
	}
	failed("a server got: %s", text);
}

static void worked(struct event *e);

static int run(struct session *s, const char *text)
{
	long us = number_of(text, "us=");

	/* other commands take time as well, and so do those of the pooler */
	if (!strstr(text, "us=") && !begins(text, "commit") &&
	    !begins(text, "rollback") && draw_chance(&s->host->rng, world.habits.work))
		us = (long)draw_between(&s->host->rng, 1, world.habits.work_us);
	if (us <= 0 || s->status == 'E')
		return run_now(s, text);
	s->running = mem_strdup(text);
	s->is_busy = s->actor.is_unresponsive = true;
	s->is_cancelled = false;
	s->work.run = worked;
	event_in(&s->work, (uint64_t)us);
	return 1;
}

/* ---- simple queries ---- */

static void end_query(struct session *s)
{
	mem_free(s->query);
	s->query = s->at = NULL;
	if (s->status == 'I')
		end_transaction(s, !s->is_failed);
	s->is_failed = s->is_simple = false;
	say_ready(s);
}

/* The next statement of a Query, in place; NULL: there is none. */
static char *next_statement(struct session *s)
{
	char *from = s->at + strspn(s->at, " ;\n"), *at = from;
	bool is_quoted = false;

	if (!*from)
		return NULL;
	for (; *at && (is_quoted || *at != ';'); at++)
		is_quoted ^= *at == '\'';
	s->at = *at ? at + 1 : at;
	*at = '\0';
	return from;
}

static void go_on(struct session *s)
{
	char *text;
	int result = 0;

	while (!s->is_failed && (text = next_statement(s))) {
		result = run(s, text);
		if (result > 0 || result == -2)
			return;
	}
	end_query(s);
}

static void handle_query(struct session *s, const uint8_t *body)
{
	const char *sql = (const char *)body;

	note_bytes("query", s->pid, sql, strlen(sql));
	SEEN("server %u: %s", s->pid, sql);
	s->is_simple = true;
	s->is_failed = false;
	struct statement *unnamed = find_statement(&s->statements, "");
	if (unnamed)
		drop_statement(&s->statements, unnamed);
	s->query = mem_strdup(sql);
	s->at = s->query;
	if (strspn(sql, " ;\n") == strlen(sql))
		codec_put_empty(&s->reply, 'I');
	go_on(s);
}

/* ---- extended queries ---- */

static bool returns_rows(const char *text)
{
	return begins(text, "select") || begins(text, "execute");
}

static void describe(struct session *s, const char *text)
{
	static const struct codec_column name = {"name", 19, 64};
	static const struct codec_column secret[] = {
	    {"rolname", 19, 64}, {"rolpassword", 25, -1}};

	if (!returns_rows(text))
		codec_put_empty(&s->reply, 'n');
	else if (strstr(text, "pg_authid"))
		codec_put_row_description(&s->reply, secret, 2);
	else if (strstr(text, "pg_settings"))
		codec_put_row_description(&s->reply, &name, 1);
	else
		put_columns(s);
}

static struct portal *find_portal(struct session *s, const char *name)
{
	struct portal *p;

	list_for (p, &s->portals, node)
		if (strcmp(p->name, name) == 0)
			return p;
	return NULL;
}

static void drop_portal(struct session *s, struct portal *p)
{
	list_remove(&s->portals, &p->node);
	mem_free(p->name);
	mem_free(p->text);
	mem_free(p);
}

static void handle_parse(struct session *s, struct cursor *c)
{
	const char *name = cursor_str(c), *text = cursor_str(c);
	struct statement *st = find_statement(&s->statements, name);

	SEEN("server %u: Parse %s: %s", s->pid, name, text);
	if (s->status == 'E' && !begins(text, "commit") && !begins(text, "rollback")) {
		say_error(s, "25P02", "current transaction is aborted");
		return;
	}
	if (st && *name) {
		say_error(s, "42P05", "prepared statement already exists");
		return;
	}
	if (st)
		drop_statement(&s->statements, st);
	if (!s->gucs.in_transaction)
		gucs_begin(&s->gucs);
	if (strstr(text, "parse_error=1")) {
		say_error(s, "42601", "syntax error");
		return;
	}
	if (has_no_column(text)) {
		say_error(s, "42703", "column does not exist");
		return;
	}
	keep_statement(&s->statements, name, text);
	codec_put_empty(&s->reply, '1');
}

/* The text with its parameter, if it has one, as a literal. */
static char *put_in(const char *text, const uint8_t *value, size_t len)
{
	const char *at = strstr(text, "$1");
	struct buf b;
	char *result;

	buf_init(&b, 0);
	if (at && value) {
		buf_put(&b, text, (size_t)(at - text));
		buf_printf(&b, "'%.*s'", (int)len, (const char *)value);
		text = at + 2;
	}
	buf_put_text(&b, text);
	result = mem_strdup(buf_text(&b));
	buf_done(&b);
	return result;
}

static void handle_bind(struct session *s, struct cursor *c)
{
	const char *portal = cursor_str(c), *name = cursor_str(c);
	struct statement *st = find_statement(&s->statements, name);
	struct portal *p = find_portal(s, portal);
	const uint8_t *value = NULL;
	uint32_t len = 0;
	uint16_t count = cursor_u16(c);

	SEEN("server %u: Bind %s", s->pid, name);
	while (count--)
		(void)cursor_u16(c);
	count = cursor_u16(c);
	if (count) {
		len = cursor_u32(c);
		value = cursor_bytes(c, len);
	}
	if (!st) {
		say_error(s, "26000", "prepared statement does not exist");
		return;
	}
	if (s->status == 'E' && !begins(st->text, "commit") &&
	    !begins(st->text, "rollback")) {
		say_error(s, "25P02", "current transaction is aborted");
		return;
	}
	const char *own = strstr(st->text, "/* own c");
	MUST(!own || !value ||
		 strtoul(own + 8, NULL, 10) ==
		     strtoul((const char *)value + 1, NULL, 10),
	    "the unnamed statement of somebody else (%s) is executed: %.*s", own,
	    (int)len, (const char *)value);
	if (p && *portal) {
		say_error(s, "42P03", "cursor already exists");
		return;
	}
	if (p)
		drop_portal(s, p);
	if (!s->gucs.in_transaction)
		gucs_begin(&s->gucs);
	p = mem_zero(sizeof(*p));
	p->name = mem_strdup(portal);
	p->text = put_in(st->text, value, len);
	list_push_back(&s->portals, &p->node);
	codec_put_empty(&s->reply, '2');
}

static void handle_describe(struct session *s, struct cursor *c)
{
	uint8_t what = cursor_u8(c);
	const char *name = cursor_str(c);

	SEEN("server %u: Describe %c %s", s->pid, what, name);
	if (what == 'S') {
		struct statement *st = find_statement(&s->statements, name);
		if (!st) {
			say_error(s, "26000", "prepared statement does not exist");
			return;
		}
		size_t at = codec_begin(&s->reply, 't');
		bool has_one = strstr(st->text, "$1") != NULL;
		buf_put_u16(&s->reply, has_one);
		if (has_one)
			buf_put_u32(&s->reply, 25);
		codec_end(&s->reply, at);
		describe(s, st->text);
		return;
	}
	struct portal *p = find_portal(s, name);
	if (p)
		describe(s, p->text);
	else
		say_error(s, "34000", "portal does not exist");
}

static void handle_execute(struct session *s, struct cursor *c)
{
	struct portal *p = find_portal(s, cursor_str(c));
	char *text;

	if (!p) {
		say_error(s, "34000", "portal does not exist");
		return;
	}
	note_bytes("execute", s->pid, p->text, strlen(p->text));
	SEEN("server %u: Execute %s", s->pid, p->text);
	s->is_failed = false;
	text = mem_strdup(p->text);
	if (strspn(text, " ;\n") == strlen(text))
		codec_put_empty(&s->reply, 'I');
	else
		(void)run(s, text);
	mem_free(text);
}

static void handle_close(struct session *s, struct cursor *c)
{
	uint8_t what = cursor_u8(c);
	const char *name = cursor_str(c);
	struct statement *st = find_statement(&s->statements, name);
	struct portal *p = find_portal(s, name);

	if (what == 'S' && st)
		drop_statement(&s->statements, st);
	if (what == 'P' && p)
		drop_portal(s, p);
	codec_put_empty(&s->reply, '3');
}

static void handle_sync(struct session *s)
{
	if (s->status == 'I' && (s->gucs.in_transaction || s->portals.count))
		end_transaction(s, !s->is_skipping);
	s->is_skipping = s->is_failed = false;
	say_ready(s);
}

/* ---- COPY ---- */

static void end_copy(struct session *s)
{
	s->copy = COPY_NONE;
	if (s->is_simple)
		go_on(s);
}

static void handle_copy(
    struct session *s, uint8_t type, const uint8_t *body, size_t len)
{
	char complete[32];

	switch (type) {
	case 'd':
		MUST(len >= strlen(s->copy_tag) &&
			 memcmp(body, s->copy_tag, strlen(s->copy_tag)) == 0,
		    "COPY %s got the data of somebody else: %.*s", s->copy_tag,
		    (int)len, (const char *)body);
		s->copied++;
		return;
	case 'c':
		snprintf(complete, sizeof(complete), "COPY %zu", s->copied);
		done(s, complete);
		end_copy(s);
		return;
	case 'f':
		say_error(s, "57014", "COPY from stdin failed");
		end_copy(s);
		return;
	case 'H':
	case 'S':
		return;
	case 'X':
		session_end(s, false);
		return;
	default:
		failed("a server got '%c' during COPY %s", type, s->copy_tag);
	}
}

/* What took time is over. */
static void worked(struct event *e)
{
	struct session *s = container_of(e, struct session, work);
	char *text = s->running;
	int result;

	s->running = NULL;
	s->is_busy = s->actor.is_unresponsive = false;
	if (s->is_cancelled)
		result =
		    say_error(s, "57014", "canceling statement due to user request");
	else
		result = run_now(s, text);
	mem_free(text);
	if (result == -2)
		return;
	if (s->query && !s->copy)
		go_on(s);
	session_work(s);
	actor_listen_again(&s->actor);
}

/* ---- the start ---- */

/* The key was read earlier: PostgreSQL starts a process for each request. */
static void cancel(struct event *e)
{
	struct session *carrier = container_of(e, struct session, work), *s;
	size_t len;
	const uint8_t *p = actor_bytes(&carrier->actor, &len);

	note("server gets cancel", get_u32(p + 8), 0);
	world.counts.cancels++;
	list_for (s, &carrier->host->sessions, node) {
		if (s->pid != get_u32(p + 8) || s->secret != get_u32(p + 12) ||
		    !s->is_started)
			continue;
		if (s->is_busy) {
			s->is_cancelled = true;
			event_in(&s->work, 0);
		}
		break;
	}
	session_end(carrier, false);
}

static void greet(struct session *s)
{
	static const char *const fixed[][2] = {{"server_version", "16.4"},
	    {"server_encoding", "UTF8"}, {"is_superuser", "off"},
	    {"integer_datetimes", "on"}, {"in_hot_standby", "off"},
	    {"default_transaction_read_only", "off"}};
	uint8_t key[8];

	codec_put_auth(&s->reply, AUTH_REQ_OK, NULL, 0);
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		codec_put_parameter_status(&s->reply, fixed[i][0], fixed[i][1]);
	for (int i = 0; i < REPORTED; i++) {
		memcpy(s->reported[i], s->gucs.of[i].now.text, GUC_LEN);
		codec_put_parameter_status(&s->reply, guc_names[i], s->reported[i]);
	}
	put_u32(key, s->pid);
	put_u32(key + 4, s->secret);
	codec_put_backend_key(&s->reply, key, 8);
	s->is_started = true;
	s->status = 'I';
	say_ready(s);
}

/* Returns the length of what was handled; 0: it is incomplete, or the session is
 * over. */
static size_t start(struct session *s, const uint8_t *p, size_t len)
{
	struct startup_param param;
	struct cursor c;
	uint32_t size, code;

	if (sim_tls_accept_direct(&s->actor, p, len) || len < 8 ||
	    len < (size = get_u32(p)))
		return 0;
	code = get_u32(p + 4);
	if (code == SSL_CODE) {
		actor_take(&s->actor, size);
		if (sim_tls_accept(&s->actor, &s->host->rng) &&
		    draw_fault(&s->host->rng, FAULT_SERVERS, 3000))
			session_end(s, true);
		return 0;
	}
	if (code == CANCEL_CODE) {
		s->is_busy = s->actor.is_unresponsive = true;
		s->work.run = cancel;
		if (world.habits.cancel_us)
			event_in(&s->work,
			    draw_below(&s->host->rng, world.habits.cancel_us));
		else
			cancel(&s->work);
		return 0;
	}
	if (world.now_us < s->host->starts_until_us) {
		say_fatal(s, "57P03", "the database system is starting up");
		return 0;
	}
	if (s->host->sessions.count > SESSIONS_MOST) {
		say_fatal(s, "53300", "sorry, too many clients already");
		return 0;
	}
	cursor_init(&c, p + 8, size - 8);
	while (codec_next_param(&c, &param) == 1) {
		int i = guc_find(param.name);
		if (i >= 0)
			gucs_start(&s->gucs, i, param.value);
	}
	if (code > 0x30000) {
		/* it speaks 3.0 only */
		codec_put_negotiate(&s->reply, 0x30000, NULL, 0);
	}
	greet(s);
	return size;
}

static void handle(struct session *s, uint8_t type, const uint8_t *body, size_t len)
{
	struct cursor c;

	cursor_init(&c, body, len);
	if (s->copy) {
		handle_copy(s, type, body, len);
		return;
	}
	if (s->is_skipping && type != 'S' && type != 'X')
		return;
	switch (type) {
	case 'Q':
		handle_query(s, body);
		return;
	case 'P':
		handle_parse(s, &c);
		break;
	case 'B':
		handle_bind(s, &c);
		break;
	case 'D':
		handle_describe(s, &c);
		break;
	case 'E':
		handle_execute(s, &c);
		break;
	case 'C':
		handle_close(s, &c);
		break;
	case 'S':
		handle_sync(s);
		return;
	case 'H':
		flush(s);
		return;
	case 'd':
	case 'c':
	case 'f':
		return; /* late: ignored, as PostgreSQL does */
	case 'X':
		session_end(s, false);
		return;
	default:
		failed("a server got a message of type '%c'", type);
	}
	maybe_flush(s);
}

static void session_work(struct session *s)
{
	const uint8_t *p;
	size_t len, size;

	while (actor_is_open(&s->actor) && !s->is_busy) {
		p = actor_bytes(&s->actor, &len);
		if (!s->is_started) {
			size = start(s, p, len);
			if (!size || !actor_is_open(&s->actor))
				return;
			actor_take(&s->actor, size);
			continue;
		}
		if (len < 5 || len < (size = 1 + get_u32(p + 1)))
			return;
		uint8_t *copy = mem_dup(p, size);
		actor_take(&s->actor, size);
		handle(s, copy[0], copy + 5, size - 5);
		mem_free(copy);
	}
}

static void received(struct actor *a)
{
	session_work((struct session *)a);
}

static void connected(struct actor *a)
{
	(void)a;
}

static void ended(struct actor *a, int errnum)
{
	(void)errnum;
	session_end((struct session *)a, false);
}

static struct actor *accept_session(struct place *place)
{
	static const struct actor_ops ops = {connected, received, ended};
	struct host *h = (struct host *)place;
	struct session *s;

	if (world.now_us < h->refuses_until_us)
		return NULL;
	s = mem_zero(sizeof(*s));
	actor_init(&s->actor, &ops);
	s->host = h;
	s->pid = ++h->last_pid;
	s->secret = (uint32_t)draw(&h->rng);
	buf_init(&s->reply, 0);
	gucs_init(&s->gucs);
	belongings_init(&s->belongings, s->pid, has_notes);
	list_init(&s->statements);
	list_init(&s->prepared);
	list_init(&s->portals);
	list_push_back(&h->sessions, &s->node);
	note("session", s->pid, h->sessions.count);
	return &s->actor;
}

/* ---- faults ---- */

static void end_some(struct host *h, bool all, unsigned how)
{
	struct node *n, *next;
	size_t at = 0, chosen = draw_below(&h->rng, h->sessions.count);

	for (n = list_first(&h->sessions); n; n = next, at++) {
		struct session *s = container_of(n, struct session, node);
		next = list_next(&h->sessions, n);
		if (!all && at != chosen)
			continue;
		if (how == 0 && s->is_started)
			say_fatal(s, "57P01",
			    "terminating connection due to administrator command");
		else
			session_end(s, how == 1);
	}
}

static void fault(struct event *e)
{
	struct host *h = container_of(e, struct host, fault);
	uint64_t kind = draw_below(&h->rng, 100);

	event_in(e, draw_between(&h->rng, 5000000, 120000000));
	if (!draw_fault(&h->rng, FAULT_SERVERS, 1000000))
		return;
	sim_disturb();
	note("server fault", (uint64_t)(h - hosts), kind);
	if (kind < 60) {
		end_some(h, false, (unsigned)draw_below(&h->rng, 3));
	} else if (kind < 80) {
		end_some(h, true, (unsigned)draw_below(&h->rng, 3));
		h->refuses_until_us = world.now_us + draw_between(&h->rng, 0, 3000000);
		h->starts_until_us =
		    h->refuses_until_us + draw_between(&h->rng, 0, 3000000);
	} else if (kind < 90) {
		h->refuses_until_us =
		    world.now_us + draw_between(&h->rng, 100000, 20000000);
	} else {
		h->place.hangs = true;
		h->hangs_until_us =
		    world.now_us + draw_between(&h->rng, 100000, 30000000);
	}
}

static void unhang(struct event *e);
static struct event unhang_event = {.run = unhang};

static void unhang(struct event *e)
{
	event_in(e, 100000);
	for (int i = 0; i < HOSTS; i++)
		if (hosts[i].place.hangs &&
		    (world.is_healing || world.now_us >= hosts[i].hangs_until_us))
			hosts[i].place.hangs = false;
}

void servers_heal(void)
{
	for (int i = 0; i < HOSTS; i++) {
		hosts[i].place.hangs = false;
		hosts[i].refuses_until_us = hosts[i].starts_until_us = 0;
	}
}

void servers_init(void)
{
	static const char *const ips[HOSTS] = {"10.1.0.1", "10.1.0.2"};

	for (int i = 0; i < HOSTS; i++) {
		struct host *h = &hosts[i];
		snprintf(h->place.ip, sizeof(h->place.ip), "%s", ips[i]);
		h->place.port = 5432;
		h->place.accept = accept_session;
		h->rng = rng_for("host", (uint64_t)i);
		h->last_pid = (uint32_t)i * 1000000;
		h->fault.run = fault;
		list_init(&h->sessions);
		place_open(&h->place);
		event_in(&h->fault, draw_between(&h->rng, 1000000, 60000000));
	}
	event_in(&unhang_event, 100000);
}

size_t servers_sessions(void)
{
	size_t count = 0;

	for (int i = 0; i < HOSTS; i++)
		count += hosts[i].sessions.count;
	return count;
}
