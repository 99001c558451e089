/* From ini files to snapshots: entries, defaults, includes, reload, every error text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "conf/config.h"
#include "conf/entry.h"
#include "config.h"

struct fixture {
	char dir[40];
	char main[80];       /* dir/main.ini */
	struct buf warnings; /* "where text\n"... */
	struct buf problems;
	struct err err;
};

static void path_of(const struct fixture *f, const char *name, char *out, size_t size)
{
	snprintf(out, size, "%s/%s", f->dir, name);
}

static void write_file(const struct fixture *f, const char *name, const char *text)
{
	char path[100];
	FILE *out;

	path_of(f, name, path, sizeof(path));
	out = fopen(path, "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
}

/* The value of a setting in an entry, or -1. */
#define OWN(entry, name)                                                               \
	(level_has(&(entry)->own, SETTING_INDEX_##name) ? (long long)(entry)->own.name \
							: -1)

static int set_up(void **state)
{
	struct fixture *f = mem_zero(sizeof(*f));

	strcpy(f->dir, "/tmp/test_config.XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	path_of(f, "main.ini", f->main, sizeof(f->main));
	buf_init(&f->warnings, 0);
	buf_init(&f->problems, 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	char path[100];

	for (int i = 0; i <= 12; i++) {
		char name[20];

		snprintf(name, sizeof(name), "f%d", i);
		path_of(f, name, path, sizeof(path));
		unlink(path);
	}
	unlink(f->main);
	rmdir(f->dir);
	buf_done(&f->warnings);
	buf_done(&f->problems);
	mem_free(f);
	return 0;
}

static void keep(struct buf *b, const char *where, const char *text)
{
	buf_printf(b, "%s %s\n", where, text);
}

static void keep_warning(void *ctx, const char *where, const char *text)
{
	keep(&((struct fixture *)ctx)->warnings, where, text);
}

static void keep_problem(void *ctx, const char *where, const char *text)
{
	keep(&((struct fixture *)ctx)->problems, where, text);
}

static struct config *load_over(
    struct fixture *f, const struct config *running, const char *text)
{
	write_file(f, "main.ini", text);
	buf_clear(&f->warnings);
	f->err.text[0] = '\0';
	return config_load(f->main, running, NULL, keep_warning, f, &f->err);
}

static struct config *load(struct fixture *f, const char *text)
{
	struct config *c = load_over(f, NULL, text);

	if (!c)
		fail_msg("not loaded: %s", f->err.text);
	return c;
}

/* expected has %s for the file's path, any number of times. */
static void expand(const struct fixture *f, const char *expected, struct buf *out)
{
	const char *at;

	buf_init(out, 0);
	while ((at = strstr(expected, "%s"))) {
		buf_put(out, expected, (size_t)(at - expected));
		buf_put_text(out, f->main);
		expected = at + 2;
	}
	buf_put_text(out, expected);
}

/* The error begins with the expected text; the advice stands on its next line (": " at
 * the end of expected stands for that). */
static void fails(struct fixture *f, const char *text, const char *expected)
{
	struct config *c = load_over(f, NULL, text);
	struct buf whole;

	assert_null(c);
	expand(f, expected, &whole);
	if (whole.len > 2 && memcmp(whole.bytes + whole.len - 2, ": ", 2) == 0)
		memcpy(whole.bytes + whole.len - 2, "\n\t", 2);
	if (strncmp(f->err.text, buf_text(&whole), whole.len) != 0)
		assert_string_equal(f->err.text, buf_text(&whole));
	assert_true(strlen(f->err.text) > whole.len + 2);
	buf_done(&whole);
}

static void warns(struct fixture *f, const char *text, const char *expected)
{
	struct config *c = load(f, text);
	struct buf whole;

	expand(f, expected, &whole);
	assert_string_equal(buf_text(&f->warnings), buf_text(&whole));
	buf_done(&whole);
	config_unref(&c);
}

static void smallest_file(void **state)
{
	struct fixture *f = *state;
	struct config *c = load(f, "[pgbouncer]\n");

	assert_string_equal(c->file, f->main);
	assert_string_equal(c->settings.conffile, f->main);
	assert_int_equal(c->settings.listen_port, 6432);
	assert_int_equal(c->database_count + c->user_count + c->peer_count, 0);
	assert_null(c->template);
	assert_null(config_database(c, "x"));
	assert_null(config_user(c, "x"));
	assert_string_equal(buf_text(&f->warnings), "");
	config_unref(&c);
	assert_null(c);
}

static void all_sections(void **state)
{
	struct fixture *f = *state;
	struct config *c = load(f, "[databases]\nb = host=h\n* = host=t\n'a b' =\n"
				   "[peers]\n9=host=x\n2=host=y port=1 pool_size=3\n"
				   "[users]\nu = pool_size=4\n[pgbouncer]\nverbose=1\n"
				   "[databases]\nc=\n");

	assert_int_equal(c->database_count, 3);
	assert_string_equal(c->databases[0].name, "a b");
	assert_string_equal(c->databases[1].name, "b");
	assert_int_equal(c->databases[1].line, 2);
	assert_string_equal(c->template->connstr, "host=t");
	assert_null(config_database(c, "*"));
	assert_ptr_equal(config_database(c, "c"), &c->databases[2]);
	assert_int_equal(OWN(config_user(c, "u"), default_pool_size), 4);
	assert_int_equal(OWN(config_user(c, "u"), pool_mode), -1);
	assert_int_equal(c->peer_count, 2);
	assert_int_equal(c->peers[0].id, 2);
	assert_int_equal(c->peers[0].port, 1);
	assert_int_equal(c->peers[1].port, 6432);
	assert_int_equal(c->settings.verbose, 1);
	config_unref(&c);
}

static void later_entries_replace_earlier_ones(void **state)
{
	struct fixture *f = *state;
	struct config *c = load(f,
	    "[databases]\nd=host=a pool_size=3 password=p\nd=host=b\n"
	    "*=host=a\n*=host=b\n[users]\nu=pool_size=3\nu=max_user_connections=1\n"
	    "[pgbouncer]\nlisten_port=1\nlisten_port=2\n");

	assert_int_equal(c->database_count, 1);
	assert_string_equal(config_database(c, "d")->host, "b");
	assert_int_equal(OWN(config_database(c, "d"), default_pool_size), -1);
	assert_null(config_database(c, "d")->password);
	assert_string_equal(c->template->connstr, "host=b");
	assert_int_equal(OWN(config_user(c, "u"), default_pool_size), -1);
	assert_int_equal(c->settings.listen_port, 2);
	config_unref(&c);
}

static void each_main_header_resets(void **state)
{
	struct fixture *f = *state;
	struct config *c =
	    load(f, "[pgbouncer]\nlisten_port=1\nmax_client_conn=5\nauth_file=x\n"
		    "[databases]\n[pgbouncer]\nquery_timeout=3\n");

	assert_int_equal(c->settings.listen_port, 6432);
	assert_int_equal(c->settings.max_client_conn, 100);
	assert_string_equal(c->settings.auth_file, "x");
	assert_int_equal(c->settings.global.query_timeout, 3000000);
	config_unref(&c);
}

static void database_defaults(void **state)
{
	struct fixture *f = *state;
	struct config *c = load(f, "[databases]\nd =\n[pgbouncer]\n");
	const struct database_config *d = config_database(c, "d");

	assert_string_equal(d->dbname, "d");
	assert_string_equal(d->connstr, "");
	assert_null(d->host);
	assert_int_equal(d->host_count, 1);
	assert_null(d->hosts[0].host);
	assert_int_equal(d->hosts[0].weight, 1);
	assert_int_equal(d->port, 5432);
	assert_int_equal(OWN(d, default_pool_size), -1);
	assert_int_equal(OWN(d, pool_mode), -1);
	assert_int_equal(OWN(d, session_state), -1);
	assert_int_equal(OWN(d, query_wait_timeout), -1);
	assert_int_equal(OWN(d, server_lifetime), -1);
	assert_null(d->user);
	config_unref(&c);
}

static void database_keys(void **state)
{
	struct fixture *f = *state;
	struct config *c = load(f,
	    "[databases]\n"
	    "d = dbname='real db' host=h1,/run,@x port=99 user=u password='p''w' "
	    "pool_size=0 min_pool_size=2 reserve_pool=3 max_db_connections=4 "
	    "max_db_client_connections=5 server_lifetime=6 query_wait_timeout=-7 "
	    "pool_mode=STATEMENT session_state=Clean load_balance_hosts=disable "
	    "weight=2 "
	    "connect_query='select 1' client_encoding=UTF8 datestyle=ISO timezone=UTC "
	    "application_name=app options='-c x=y'\n[pgbouncer]\n");
	const struct database_config *d = config_database(c, "d");

	assert_string_equal(d->dbname, "real db");
	assert_string_equal(d->host, "h1,/run,@x");
	assert_int_equal(d->host_count, 3);
	assert_string_equal(d->hosts[1].host, "/run");
	assert_int_equal(d->hosts[2].weight, 2);
	assert_string_equal(d->weight, "2");
	assert_int_equal(d->port, 99);
	assert_string_equal(d->password, "p'w");
	assert_int_equal(OWN(d, default_pool_size), 0);
	assert_int_equal(OWN(d, min_pool_size), 2);
	assert_int_equal(OWN(d, reserve_pool_size), 3);
	assert_int_equal(OWN(d, max_db_connections), 4);
	assert_int_equal(OWN(d, max_db_client_connections), 5);
	assert_int_equal(OWN(d, server_lifetime), 6000000);
	assert_int_equal(OWN(d, query_wait_timeout), 0);
	assert_int_equal(OWN(d, pool_mode), POOL_MODE_STATEMENT);
	assert_int_equal(OWN(d, session_state), SESSION_STATE_CLEAN);
	assert_int_equal(d->load_balance_hosts, LOAD_BALANCE_DISABLE);
	assert_string_equal(d->connect_query, "select 1");
	assert_string_equal(d->options, "-c x=y");
	assert_string_equal(d->application_name, "app");
	assert_string_equal(buf_text(&f->warnings), "");
	config_unref(&c);
}

/* Parameters for the startup packet are sorted; a repeated one replaces the first. */
static void startup_parameters(void **state)
{
	static const char *const bad[][2] = {
	    {"param.=x", "param. needs the name"},
	    {"param.user=x", "write user= instead of param.user="},
	    {"param.database=x", "write dbname= instead"},
	    {"param.TIMEZONE=x", "write timezone= instead"},
	    {"param.replication=true", "cannot be set"},
	    {"param._pq_.x=1", "cannot be set"},
	};
	struct database_config a, b;
	struct arena *arena = arena_new();
	struct err err;

	(void)state;
	assert_int_equal(entry_parse_connstr(&a, "d",
			     "param.search_path='a, b' param.geqo=off "
			     "param.SEARCH_PATH=c param.x=''",
			     arena, &err),
	    0);
	assert_int_equal(a.param_count, 3);
	assert_string_equal(a.params[0].name, "geqo");
	assert_string_equal(a.params[1].name, "search_path");
	assert_string_equal(a.params[1].value, "c");
	assert_string_equal(a.params[2].value, "");
	assert_int_equal(
	    entry_parse_connstr(
		&b, "d", "param.x='' param.search_path=c param.geqo=off", arena, &err),
	    0);
	assert_false(entry_is_obsoleting(&a, &b));
	b.params[1].value = "d";
	assert_true(entry_is_obsoleting(&a, &b));
	b.param_count = 0;
	assert_true(entry_is_obsoleting(&a, &b));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(
		    entry_parse_connstr(&b, "d", bad[i][0], arena, &err), -1);
		assert_non_null(strstr(err.text, bad[i][1]));
	}
	arena_free(&arena);
}

/* Only some settings can be switched off by an empty value. */
static void empty_values(void **state)
{
	struct arena *arena = arena_new();
	struct database_config d;
	struct err err;

	(void)state;
	assert_int_equal(entry_parse_connstr(&d, "d",
			     "server_reset_query='' auth_user=''", arena, &err),
	    0);
	assert_true(level_has(&d.own, SETTING_INDEX_server_reset_query));
	assert_string_equal(d.own.server_reset_query, "");
	for (const char *const *text = (const char *const[]){"password=''", "host=''",
		 "pool_size=''", "sslrootcert=''", "auth_query=''", NULL};
	     *text; text++) {
		assert_int_equal(entry_parse_connstr(&d, "d", *text, arena, &err), -1);
		assert_string_equal(err.text, "syntax error in connection string");
	}
	arena_free(&arena);
}

/* Numbers without a meaning are accepted, because existing files have them. */
static void clamped_values(void **state)
{
	struct fixture *f = *state;
	struct config *c = load(f,
	    "[pgbouncer]\nmin_pool_size=-1\nquery_wait_notify=-1\nstats_period=0\n"
	    "query_timeout=1e2\n");

	assert_int_equal(c->settings.global.min_pool_size, 0);
	assert_int_equal(c->settings.global.query_wait_notify, 0);
	assert_int_equal(c->settings.stats_period, 1);
	assert_int_equal(c->settings.global.query_timeout, 100000000);
	assert_non_null(strstr(buf_text(&f->warnings),
	    ":2 min_pool_size: -1 means nothing here, 0 is used"));
	assert_non_null(strstr(buf_text(&f->warnings),
	    ":4 stats_period: 0 means nothing here, 1 is used"));
	struct config *set = config_with(c, "stats_period", "-5", &f->err);
	assert_int_equal(set->settings.stats_period, 1);
	assert_string_equal(f->err.text, "-5 means nothing here, 1 is used");
	config_unref(&set);
	set = config_with(c, "stats_period", "5", &f->err);
	assert_string_equal(f->err.text, "");
	config_unref(&set);
	config_unref(&c);
}

static void user_keys(void **state)
{
	struct fixture *f = *state;
	struct config *c = load(f,
	    "[users]\nu = pool_mode=session session_state=refuse pool_size=-3 "
	    "reserve_pool_size=1 "
	    "max_user_connections=2 max_user_client_connections=0 query_timeout=3 "
	    "idle_transaction_timeout=4 transaction_timeout=5 query_wait_timeout=0 "
	    "client_idle_timeout=6\n* =\n[pgbouncer]\n");
	const struct user_config *u = config_user(c, "u");

	assert_int_equal(OWN(u, pool_mode), POOL_MODE_SESSION);
	assert_int_equal(OWN(u, session_state), SESSION_STATE_REFUSE);
	assert_int_equal(OWN(u, default_pool_size), -1);
	assert_int_equal(OWN(u, reserve_pool_size), 1);
	assert_int_equal(OWN(u, max_user_connections), 2);
	assert_true(OWN(u, max_user_client_connections) <= 0);
	assert_int_equal(OWN(u, query_timeout), 3000000);
	assert_int_equal(OWN(u, idle_transaction_timeout), 4000000);
	assert_int_equal(OWN(u, transaction_timeout), 5000000);
	assert_int_equal(OWN(u, query_wait_timeout), 0);
	assert_int_equal(OWN(u, client_idle_timeout), 6000000);
	assert_non_null(config_user(c, "*"));
	config_unref(&c);
}

static void value_errors(void **state)
{
	struct fixture *f = *state;

	fails(f, "[pgbouncer]\n\nfoo = 3\n",
	    "unknown parameter: pgbouncer/foo\ninvalid value \"3\" for parameter foo "
	    "in "
	    "configuration (%s:3): ");
	fails(f, "[pgbouncer]\npool_mode = x\n",
	    "invalid value \"x\" for parameter pool_mode in configuration "
	    "(%s:2)\n\tmust "
	    "be one of");
	fails(f, "[pgbouncer]\nlog_stats = on\n",
	    "invalid value \"on\" for parameter log_stats in configuration (%s:2): ");
	fails(f, "[pgbouncer]\nlisten_port =\n",
	    "invalid value \"\" for parameter listen_port in configuration (%s:2): ");
	fails(f, "[pgbouncer]\nauth_dbname = pgbouncer\n",
	    "cannot use the reserved \"pgbouncer\" database as an auth_dbname\n"
	    "invalid value \"pgbouncer\" for parameter auth_dbname in configuration "
	    "(%s:2): ");
	fails(f, "a = b\n[pgbouncer]\n",
	    "load_init_file: value without section: a\ninvalid value \"...\" for "
	    "parameter a in configuration (%s:1): ");
}

static void file_errors(void **state)
{
	struct fixture *f = *state;

	fails(f, "[pgbouncer]\nlisten_port 3\n",
	    "syntax error in configuration (%s:2), stopping loading: ");
	fails(f, "[pgbouncer\n", "syntax error in configuration (%s:1), stopping");
	fails(f, "[pgbouncer]\n[bogus]\n",
	    "fill_defaults fail\ninvalid section \"bogus\" in configuration (%s:2): ");
	fails(f, "[databases]\n",
	    "load_init_file: main section missing from config file: ");
	fails(f, "", "load_init_file: main section missing from config file: ");
	fails(f, "[pgbouncer]\n%include /nonexistent/x.ini\n",
	    "could not load file \"/nonexistent/x.ini\": No such file or directory: ");
	assert_non_null(strstr(f->err.text, "\nerror processing include file in "
					    "configuration ("));
	assert_null(config_load("/nonexistent", NULL, NULL, NULL, NULL, &f->err));
	assert_non_null(strstr(f->err.text,
	    "could not load file \"/nonexistent\": No such file or directory"));
	assert_null(config_load("/nonexistent", NULL, NULL, NULL, NULL, NULL));
}

static void database_fails(struct fixture *f, const char *entry, const char *what)
{
	char text[300], expected[500];
	const char *value = strchr(entry, '=') + 2;

	snprintf(text, sizeof(text), "[pgbouncer]\n[databases]\n%s\n", entry);
	snprintf(expected, sizeof(expected),
	    "%s\ninvalid value \"%s\" for parameter %.*s in configuration (%%s:3): ",
	    what, strstr(value, "password") ? "..." : value, (int)strcspn(entry, " "),
	    entry);
	fails(f, text, expected);
	assert_null(strstr(f->err.text, "s3cret"));
}

static void database_errors(void **state)
{
	struct fixture *f = *state;

	database_fails(f, "d = host", "syntax error in connection string");
	database_fails(f, "d = host=''", "syntax error in connection string");
	database_fails(f, "d = password=s3cret nosuch=1",
	    "unrecognized connection parameter: nosuch");
	database_fails(f, "d = port=0", "invalid port: 0");
	database_fails(f, "d = port=x", "invalid port: x");
	database_fails(f, "d = port=65536", "invalid port: 65536");
	database_fails(f, "d = port=1,2", "invalid port: 1,2");
	database_fails(f, "d = host=a,b,c port=1,2", "invalid port: 1,2");
	database_fails(f, "d = host=a,b port=1,2,3", "invalid port: 1,2,3");
	database_fails(f, "d = host=a,b port=1,0", "invalid port: 0");
	database_fails(f, "d = port=,", "invalid port: ,");
	database_fails(f, "d = pool_mode=x", "invalid pool mode: x");
	database_fails(f, "d = session_state=x", "invalid session_state: x");
	database_fails(f, "d = load_balance_hosts=x", "invalid load_balance_hosts: x");
	database_fails(f, "d = host=,", "invalid host: ,");
	database_fails(f, "d = weight=0", "invalid weight: 0");
	database_fails(f, "d = weight=1,2", "invalid weight: 1,2");
	database_fails(f, "d = host=a,b,c weight=1,2", "invalid weight: 1,2");
	database_fails(f, "d = weight=99999999999", "invalid weight: 99999999999");
	database_fails(f, "d = weight=-1", "invalid weight: -1");
	database_fails(
	    f, "pgbouncer = host=a", "database name \"pgbouncer\" is reserved");
	database_fails(f,
	    "a234567890123456789012345678901234567890123456789012345678901234 = host=a",
	    "database name "
	    "\"a234567890123456789012345678901234567890123456789012345678901234\" is "
	    "longer than 63 bytes");
}

static void user_and_peer_errors(void **state)
{
	struct fixture *f = *state;

	fails(f, "[users]\nu = x=1\n", "unrecognized user parameter: x\n");
	fails(f, "[users]\nu = x\n", "syntax error in user settings\n");
	fails(f, "[users]\nu = pool_mode=x\n", "invalid pool mode: x\n");
	fails(f, "[peers]\n0 = host=a\n",
	    "ids of peers must be a number larger than 0 and at most 65536\n");
	fails(f, "[peers]\n65536 = host=a\n", "ids of peers must be");
	fails(f, "[peers]\na = host=a\n", "ids of peers must be");
	fails(f, "[peers]\n1 = port=1\n", "host was not provided for peer 1\n");
	fails(f, "[peers]\n1 = host=a dbname=b\n",
	    "unrecognized connection parameter: dbname\n");
	fails(f, "[peers]\n1 = host\n", "syntax error in connection string\n");
}

static void settings_are_checked_as_a_whole(void **state)
{
	struct fixture *f = *state;
	/* TLS is set up later, and what it says is about the line of one of the
	 * settings
	 */
	struct config *c =
	    load(f, "[pgbouncer]\nclient_tls_sslmode=require\nclient_tls_key_file=x\n");
	const struct config_place *at;

	assert_int_equal(settings_check_tls(&c->settings, &f->err), -1);
	assert_string_equal(f->err.text,
	    "To allow TLS connections from clients, client_tls_key_file and "
	    "client_tls_cert_file must be set.");
	at = config_place_blamed(c, f->err.text);
	assert_int_equal(at ? at->line : 0, 3);
	config_unref(&c);
	assert_null(load_over(f, NULL, "[pgbouncer]\n\nmetrics_listen=1\n"));
	assert_non_null(strstr(f->err.text, "metrics_listen: \"1\" has no port"));
	assert_string_equal(f->err.text + strlen(f->err.text) - 2, ":3");
}

static void errors_find_their_setting(void **state)
{
	struct fixture *f = *state;
	struct config *c = load(f, "[pgbouncer]\nclient_tls_ca_file=/a/ca\n"
				   "server_tls_ciphers=x\nuser=u\n");
	const struct config_place *at;

	at = config_place_blamed(c, "failed to load CA: none (/a/ca)");
	assert_int_equal(at ? at->line : 0, 2);
	at = config_place_blamed(c, "invalid server_tls_ciphers: x");
	assert_int_equal(at ? at->line : 0, 3);
	assert_null(config_place_blamed(c, "server_tls_ciphers_more and a user"));
	assert_null(config_place_blamed(c, "client_tls_sslmode is written nowhere"));
	config_unref(&c);
}

static void a_name_with_weights_may_be_repeated(void **state)
{
	struct fixture *f = *state;
	struct config *c = load(f, "[databases]\n"
				   "d = host=a port=1 dbname=x weight=3\n"
				   "e = host=e\n"
				   "d = host=b port=2 dbname=x weight=1\n"
				   "d = host=c,d port=3 dbname=x weight=2,5\n"
				   "[pgbouncer]\n");
	const struct database_config *d = config_database(c, "d");
	struct database_config one_line;
	struct err err;

	assert_string_equal(buf_text(&f->warnings), "");
	assert_int_equal(d->host_count, 4);
	assert_string_equal(d->hosts[0].host, "a");
	assert_int_equal(d->hosts[0].weight, 3);
	assert_string_equal(d->hosts[3].host, "d");
	assert_int_equal(d->hosts[3].port, 3);
	assert_int_equal(d->hosts[3].weight, 5);
	assert_int_equal(d->port, 1);
	/* moving the same text to one line later changes nothing */
	assert_int_equal(
	    entry_parse_connstr(&one_line, "d",
		"host=a,b,c,d port=1,2,3,3 weight=3,1,2,5 dbname=x", c->arena, &err),
	    0);
	assert_false(entry_is_obsoleting(d, &one_line));
	config_unref(&c);
	fails(f,
	    "[databases]\nd = host=a weight=1\nd = host=b weight=1 dbname=y\n"
	    "[pgbouncer]\n",
	    "the lines of database \"d\" differ in more than host, port and weight\n"
	    "invalid value \"host=b weight=1 dbname=y\" for parameter d in "
	    "configuration (%s:3): ");
}

static void a_name_that_is_repeated_is_told(void **state)
{
	static const char warning[] =
	    "%s:3 database \"d\" was given before, at %s:2: this line counts; for "
	    "several hosts write weight= on each line\n";
	struct fixture *f = *state;

	warns(f, "[databases]\nd = host=a\nd = host=b\n[pgbouncer]\n", warning);
	warns(
	    f, "[databases]\nd = host=a\nd = host=b weight=2\n[pgbouncer]\n", warning);
	warns(
	    f, "[databases]\nd = host=a weight=2\nd = host=b\n[pgbouncer]\n", warning);
	struct config *c =
	    load(f, "[databases]\nd = host=a\nd = host=b\n[pgbouncer]\n");
	assert_string_equal(config_database(c, "d")->host, "b");
	assert_int_equal(config_database(c, "d")->host_count, 1);
	config_unref(&c);
}

static void what_has_no_effect_is_told(void **state)
{
	struct fixture *f = *state;

	warns(f, "[pgbouncer]\npeer_id=1\n[databases]\n[pgbouncer]\nlisten_port=1\n",
	    "%s:4 [pgbouncer] sets all settings back to their defaults: those above "
	    "it, "
	    "such as at %s:2, do not count\n");
	warns(f, "[pgbouncer]\n[databases]\n[pgbouncer]\nlisten_port=1\n", "");
	warns(f, "[pgbouncer]\n[databases]\na = auth_user=x weight=1\n", "");
	warns(f, "[pgbouncer]\n[databases]\na = host=x,y weight=1,2\n", "");
	warns(f, "[pgbouncer]\n[databases]\na = host=x,y weight=2,2\n", "");
	warns(f, "[pgbouncer]\n[peers]\n1 = host=x\n",
	    "%s section [peers] has no effect without the setting peer_id\n");
	warns(f, "[pgbouncer]\npeer_id=2\n[peers]\n1 = host=x\n", "");
#ifdef HAVE_LDAP
	warns(f, "[pgbouncer]\nauth_type=ldap\n[databases]\na = auth_user=x\nb =\n",
	    "%s database \"a\" has auth_user, which does not go together with "
	    "auth_type=ldap: logins will be refused\n");
#endif
	/* setting back the old value is no change to report */
	warns(f, "[pgbouncer]\nsuspend_timeout=3\nsuspend_timeout=10\n", "");
}

/* Most times of an entry are whole seconds, as in PgBouncer. */
static void some_times_have_fractions(void **state)
{
	struct fixture *f = *state;
	struct config *c = load(f, "[pgbouncer]\nlog_min_duration=0.5\n"
				   "[databases]\na = log_min_duration=0.25 "
				   "role_check_period=0.5\nb = log_min_duration=0\n"
				   "c = log_min_duration=-1\nd = log_min_duration=2\n");
	const struct database_config *a = config_database(c, "a");

	assert_int_equal(c->settings.global.log_min_duration, 500000);
	assert_int_equal(OWN(a, log_min_duration), 250000);
	assert_int_equal(OWN(a, role_check_period), 500000);
	assert_int_equal(OWN(config_database(c, "b"), log_min_duration), 0);
	assert_int_equal(OWN(config_database(c, "d"), log_min_duration), 2000000);
	assert_false(
	    level_has(&config_database(c, "c")->own, SETTING_INDEX_log_min_duration));
	config_unref(&c);
	warns(f, "[pgbouncer]\n[databases]\na = log_min_duration=1.x\n",
	    "%s:3 \"1.x\" is not a whole number, log_min_duration is taken as 1\n");
}

static void odd_things_are_told(void **state)
{
	struct fixture *f = *state;

	warns(f, "[pgbouncer]\n[databases]\na = pool_size=x\n",
	    "%s:3 \"x\" is not a whole number, pool_size is taken as 0\n");
	warns(f, "[pgbouncer]\n[databases]\na = pool_size=99999999999\n",
	    "%s:3 \"99999999999\" is too large, pool_size is taken as 2147483647\n");
	warns(f, "[pgbouncer]\n[databases]\na = port=54s\n",
	    "%s:3 \"54s\" is not a whole number, port is taken as 54\n");
	warns(f, "[pgbouncer]\n[databases]\na = host=x,y port=54,5.5\n",
	    "%s:3 \"5.5\" is not a whole number, port is taken as 5\n");
	warns(f, "[pgbouncer]\n[databases]\na = host=x,,y\n",
	    "%s:3 empty names in the host list are left out\n");
	warns(f, "[pgbouncer]\n[databases]\n* = port=x\n",
	    "%s:3 invalid port: x: no database can be made from the entry \"*\"\n");
}

static void includes_continue_sections(void **state)
{
	struct fixture *f = *state;
	char text[300];
	struct config *c;

	write_file(f, "f1", "listen_port=1\n[databases]\na=host=x\n");
	snprintf(
	    text, sizeof(text), "[pgbouncer]\n%%include %s/f1  \nb=host=y\n", f->dir);
	c = load(f, text);
	assert_int_equal(c->settings.listen_port, 1);
	assert_int_equal(c->database_count, 2);
	config_unref(&c);

	write_file(f, "f1", "\nbad\n");
	assert_null(load_over(f, NULL, text));
	snprintf(
	    text, sizeof(text), "syntax error in configuration (%s/f1:2), ", f->dir);
	assert_memory_equal(f->err.text, text, strlen(text));
	snprintf(text, sizeof(text),
	    "\nerror processing include file in configuration (%s:2), stopping loading",
	    f->main);
	assert_non_null(strstr(f->err.text, text));
}

static void includes_nest_ten_deep(void **state)
{
	struct fixture *f = *state;
	char text[100], name[20], expected[200];
	struct config *c;

	for (int i = 0; i <= 9; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		snprintf(text, sizeof(text), "%%include %s/f%d\n", f->dir, i + 1);
		write_file(f, name, text);
	}
	/* f1 to f10 are ten levels below the main file */
	write_file(f, "f10", "[pgbouncer]\n");
	snprintf(text, sizeof(text), "%%include %s/f1\n", f->dir);
	c = load(f, text);
	config_unref(&c);

	snprintf(text, sizeof(text), "%%include %s/f0\n", f->dir);
	assert_null(load_over(f, NULL, text));
	snprintf(expected, sizeof(expected),
	    "include nesting level too deep (%s/f9:1), stopping loading\n\t", f->dir);
	assert_memory_equal(f->err.text, expected, strlen(expected));
}

/* Each file adds its line, and none of them is cut. */
static void long_include_errors_are_whole(void **state)
{
	static const char detour[] = "/././././././././././././././././././././././././"
				     "./././././././././././././././././././././.";
	struct fixture *f = *state;
	char name[20], text[256];

	for (int i = 1; i <= 5; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		snprintf(
		    text, sizeof(text), "%%include %s%s/f%d\n", f->dir, detour, i + 1);
		write_file(f, name, text);
	}
	write_file(f, "f6", "[pgbouncer]\nmax_client_conn = many\n");
	snprintf(text, sizeof(text), "%%include %s%s/f1\n", f->dir, detour);
	assert_null(load_over(f, NULL, text));
	assert_non_null(strstr(f->err.text, "\"many\""));
	for (int i = 1; i <= 5; i++) {
		snprintf(text, sizeof(text), "%s/f%d:1), stopping loading", detour, i);
		assert_non_null(strstr(f->err.text, text));
	}
}

static void reload_keeps_what_needs_a_restart(void **state)
{
	struct fixture *f = *state;
	struct config *old = load(
	    f, "[pgbouncer]\nlisten_port=1\nmax_client_conn=5\nauth_file=a\nuser=u\n");
	struct config *set = config_with(old, "auth_user", "set", &f->err);
	struct config *new;

	assert_non_null(set);
	new = load_over(f, set, "[pgbouncer]\nlisten_port=2\nauth_file=b\nuser=v\n");
	assert_non_null(new);
	config_unref(&old);
	config_unref(&set);
	assert_int_equal(new->settings.listen_port, 1);
	assert_string_equal(new->settings.user, "u");
	assert_int_equal(new->settings.max_client_conn, 100);
	assert_string_equal(new->settings.auth_file, "b");
	/* a setting without default keeps the value of SET */
	assert_string_equal(new->settings.global.auth_user, "set");

	old = new;
	/* an error that would stop the next start is reported now */
	assert_null(load_over(f, old, "[pgbouncer]\nlisten_port=x\n"));
	assert_null(load_over(f, old, "[pgbouncer]\nmax_client_conn=x\n"));
	assert_string_equal(old->settings.auth_file, "b");
	config_unref(&old);
}

static void set_makes_a_copy(void **state)
{
	struct fixture *f = *state;
	struct config *a = load(f, "[pgbouncer]\n[databases]\nd=host=h password=p\n");
	struct config *b = config_with(a, "query_timeout", "4", &f->err);
	struct config *c = config_with(b, "listen_port", "77", &f->err);

	assert_ptr_equal(c->base, a); /* repeated SETs do not make a growing chain */
	assert_int_equal(a->settings.global.query_timeout, 0);
	assert_int_equal(b->settings.global.query_timeout, 4000000);
	assert_int_equal(c->settings.global.query_timeout, 4000000);
	assert_int_equal(c->settings.listen_port, 6432);
	assert_null(config_with(c, "nosuch", "1", &f->err));
	assert_string_equal(f->err.text, "unknown parameter: pgbouncer/nosuch");
	assert_null(config_with(c, "pool_mode", "x", &f->err));
	assert_non_null(
	    strstr(f->err.text, "invalid value \"x\" for parameter pool_mode"));
	assert_null(config_with(c, "proxy_protocol_from", "10.0.0.0/99", &f->err));
	assert_non_null(strstr(f->err.text, "proxy_protocol_from"));
	assert_null(config_with(c, "metrics_listen", "nowhere", &f->err));
	assert_null(config_with(c, "auth_dbname", "pgbouncer", &f->err));
	config_unref(&a);
	config_unref(&b);
	assert_string_equal(config_database(c, "d")->password, "p");
	assert_string_equal(c->file, f->main);
	config_unref(&c);
}

static void references(void **state)
{
	struct fixture *f = *state;
	struct config *a = load(f, "[pgbouncer]\n"), *b = config_ref(a);

	config_unref(&a);
	assert_null(a);
	assert_int_equal(b->settings.listen_port, 6432);
	config_unref(&b);
	config_unref(&b);
}

static void check_reports_every_problem(void **state)
{
	struct fixture *f = *state;
	struct config *c;
	struct buf whole;

	write_file(f, "main.ini",
	    "[pgbouncer]\nfoo=1\nbar\n[bogus]\nx=1\n[databases]\nd=port=0\n"
	    "%include "
	    "/nonexistent\n[pgbouncer]\nlisten_port=-1\nquery_wait_notify=-1\n"
	    "[databases]\nd=auth_query=select 1\n");
	assert_int_equal(config_check(f->main, keep_problem, keep_warning, f, &c), 7);
	config_unref(&c);
	expand(f,
	    "%s:2 unknown parameter: pgbouncer/foo: remove it or correct its name\n"
	    "%s:3 syntax error: write [section], key = value or %include FILE\n"
	    "%s:4 invalid section \"bogus\": use [pgbouncer], [databases], [users] or "
	    "[peers]\n"
	    "%s:7 invalid port: 0: correct the entry, its keys are listed in "
	    "pgbouncer.ini(5)\n"
	    "%s:8 could not load file \"/nonexistent\": No such file or directory: it "
	    "must exist and be readable by the user the pooler runs as\n"
	    "%s:10 invalid value \"-1\" for parameter listen_port: must be an integer "
	    "from 0 to 65535\n"
	    "%s:13 syntax error in connection string: write key=value pairs with "
	    "blanks "
	    "between them; a value with blanks stands in single quotes, none is "
	    "empty\n",
	    &whole);
	assert_string_equal(buf_text(&f->problems), buf_text(&whole));
	assert_non_null(strstr(buf_text(&f->warnings), "query_wait_notify"));
	buf_done(&whole);

	write_file(f, "main.ini", "[pgbouncer]\n");
	assert_int_equal(config_check(f->main, keep_problem, keep_warning, f, &c), 0);
	config_unref(&c);
}

static void check_finds(struct fixture *f, const char *text, const char *problem)
{
	struct config *c;
	struct buf whole;

	buf_clear(&f->problems);
	write_file(f, "main.ini", text);
	assert_int_equal(config_check(f->main, keep_problem, keep_warning, f, &c), 1);
	config_unref(&c);
	expand(f, problem, &whole);
	assert_string_equal(buf_text(&f->problems), buf_text(&whole));
	buf_done(&whole);
}

static void byte_order_mark_is_told(void **state)
{
	struct fixture *f = *state;
	static const char text[] = "\xef\xbb\xbf[databases]\nd=\n[pgbouncer]\n";

	fails(f, text, "syntax error in configuration (%s:1), stopping loading: ");
	assert_non_null(strstr(f->err.text, "begins with a byte order mark"));
	check_finds(f, text,
	    "%s:1 syntax error: the file begins with a byte order mark: save it as "
	    "UTF-8 without one\n");
}

static void ranges_of_numbers_are_told(void **state)
{
	struct fixture *f = *state;

	check_finds(f, "[pgbouncer]\nlisten_port=65536\n",
	    "%s:2 invalid value \"65536\" for parameter listen_port: must be an "
	    "integer "
	    "from 0 to 65535\n");
	check_finds(f, "[pgbouncer]\nlisten_port=99999999999\n",
	    "%s:2 invalid value \"99999999999\" for parameter listen_port: must be an "
	    "integer from 0 to 65535\n");
	check_finds(f, "[pgbouncer]\nmax_client_conn=many\n",
	    "%s:2 invalid value \"many\" for parameter max_client_conn: must be an "
	    "integer from -2147483648 to 2147483647\n");
	check_finds(f, "[pgbouncer]\nmax_packet_size=x\n",
	    "%s:2 invalid value \"x\" for parameter max_packet_size: must be an "
	    "integer "
	    "from 0 to 4294967295\n");
}

static void which_changes_are_obsoleting(void **state)
{
	static const struct {
		const char *text;
		int obsoleting;
	} cases[] = {
	    {"host=a", 0},
	    {"host=a port=5432", 0},
	    {"host=a dbname=d", 0},
	    {"host=a pool_size=3 password=x auth_user=u timezone=UTC", 0},
	    {"host=b", 1},
	    {"", 1},
	    {"host=a dbname=e", 1},
	    {"host=a port=1", 1},
	    {"host=a user=u", 1},
	    {"host=a connect_query=q", 1},
	    {"host=a auth_dbname=q", 1},
	    {"host=a auth_query=q", 1},
	    {"host=a load_balance_hosts=disable", 1},
	    {"host=a weight=2", 1},
	    {"host=a options=o", 1},
	};
	struct database_config base, other;
	struct arena *arena = arena_new();
	struct err err;

	(void)state;
	assert_int_equal(entry_parse_connstr(&base, "d", "host=a", arena, &err), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(
		    entry_parse_connstr(&other, "d", cases[i].text, arena, &err), 0);
		assert_int_equal(
		    entry_is_obsoleting(&base, &other), cases[i].obsoleting);
		assert_int_equal(
		    entry_is_obsoleting(&other, &base), cases[i].obsoleting);
	}
	assert_int_equal(entry_parse_connstr(&other, "d", "x=1", arena, &err), -1);
	arena_free(&arena);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

static void unchanged_entries(void **state)
{
	struct fixture *f = *state;
	struct config *old = load(f, "[databases]\na=host=x\nb=\nc=\n[pgbouncer]\n");
	struct config *new =
	    load_over(f, old, "[databases]\nc=\nd=\na=host=x\nb=host=y\n[pgbouncer]\n");
	struct config *other = load(f, "[databases]\na=host=x\n[pgbouncer]\n");

	assert_true(config_is_unchanged(new, config_database(new, "a"), old));
	assert_false(config_is_unchanged(new, config_database(new, "b"), old));
	assert_true(config_is_unchanged(new, config_database(new, "c"), old));
	assert_false(config_is_unchanged(new, config_database(new, "d"), old));
	/* it was compared with another snapshot, or with none */
	assert_false(config_is_unchanged(new, config_database(new, "a"), other));
	assert_false(config_is_unchanged(other, config_database(other, "a"), old));
	assert_false(config_is_unchanged(new, config_database(new, "a"), NULL));
	config_unref(&old);
	config_unref(&new);
	config_unref(&other);
}

static void unknown_settings_have_a_likely_name(void **state)
{
	static const struct {
		const char *written, *meant;
	} cases[] = {
	    {"pol_mode", "pool_mode"},
	    {"pool_modes", "pool_mode"},
	    {"poolmode", "pool_mode"},
	    {"ppol_mode", "pool_mode"},
	    {"max_client_con", "max_client_conn"},
	    {"max_clients_conns", "max_client_conn"},
	    {"listen_prot", "listen_port"},
	    {"Pool_mode", "pool_mode"},
	    {"", NULL},
	    {"foo", NULL},
	    {"nonsense", NULL},
	    {"pool", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct setting *like = setting_like(cases[i].written);
		assert_int_equal(like != NULL, cases[i].meant != NULL);
		if (like)
			assert_string_equal(setting_name(like), cases[i].meant);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(unchanged_entries),
	    TEST(smallest_file),
	    TEST(all_sections),
	    TEST(later_entries_replace_earlier_ones),
	    TEST(each_main_header_resets),
	    TEST(database_defaults),
	    TEST(database_keys),
	    cmocka_unit_test(startup_parameters),
	    cmocka_unit_test(empty_values),
	    TEST(clamped_values),
	    TEST(user_keys),
	    TEST(value_errors),
	    TEST(file_errors),
	    TEST(database_errors),
	    TEST(user_and_peer_errors),
	    TEST(settings_are_checked_as_a_whole),
	    TEST(errors_find_their_setting),
	    TEST(a_name_with_weights_may_be_repeated),
	    TEST(a_name_that_is_repeated_is_told),
	    TEST(what_has_no_effect_is_told),
	    TEST(some_times_have_fractions),
	    TEST(odd_things_are_told),
	    TEST(includes_continue_sections),
	    TEST(includes_nest_ten_deep),
	    TEST(long_include_errors_are_whole),
	    TEST(reload_keeps_what_needs_a_restart),
	    TEST(set_makes_a_copy),
	    TEST(references),
	    TEST(check_reports_every_problem),
	    cmocka_unit_test(unknown_settings_have_a_likely_name),
	    TEST(byte_order_mark_is_told),
	    TEST(ranges_of_numbers_are_told),
	    TEST(which_changes_are_obsoleting),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
