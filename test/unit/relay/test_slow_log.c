/*
 * log_min_duration: which lines there are, how their time is split, and whose trace
 * they name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../stage/stage.h"
#include "handoff/record.h"
#include "relay/slow_log.h"
#include "wire/codec.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#define TRACE(n)   "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333" n "-01"
#define COMMENT(n) "/*traceparent='" TRACE(n) "'*/"
#define EVERYTHING "log_min_duration = 0.000001\n"

/* The lines about slow things, without what stands before that. */
struct lines {
	char path[32];
	char text[4096];
	size_t len;
	long from; /* what stands before it in the file is forgotten */
};

/* The database has room for one server. */
static struct stage *stage_with(struct lines *lines, const char *settings)
{
	struct stage *stage = stage_new("pool_size=1", settings);
	struct log_config config = {.file = lines->path};
	int fd;

	*lines = (struct lines){.path = "/tmp/test_slow.XXXXXX"};
	fd = mkstemp(lines->path);
	assert_true(fd >= 0);
	close(fd);
	log_levels_set_all(&config.levels, 0);
	log_configure(stage->site.log, &config);
	log_quiet(stage->site.log, true);
	return stage;
}

static void done(struct stage **stage, struct lines *lines)
{
	stage_free(stage);
	unlink(lines->path);
}

static const char *text_of(struct lines *lines)
{
	FILE *file = fopen(lines->path, "r");
	char line[2048];

	assert_non_null(file);
	fseek(file, lines->from, SEEK_SET);
	lines->len = 0;
	lines->text[0] = '\0';
	while (fgets(line, sizeof(line), file)) {
		const char *at = strstr(line, "slow ");
		if (!at)
			continue;
		assert_non_null(strstr(line, " LOG C-0x"));
		assert_non_null(strstr(line, ": d/u@unix"));
		lines->len += (size_t)snprintf(lines->text + lines->len,
		    sizeof(lines->text) - lines->len, "%s", at);
		assert_true(lines->len < sizeof(lines->text));
	}
	fclose(file);
	return lines->text;
}

static void clear(struct lines *lines)
{
	FILE *file = fopen(lines->path, "r");

	assert_non_null(file);
	fseek(file, 0, SEEK_END);
	lines->from = ftell(file);
	fclose(file);
}

/* The value of a field in the only line; "-": there is none.  It lasts until the next
 * call. */
static const char *field(struct lines *lines, const char *name)
{
	static char value[256];
	char key[64];
	const char *at;

	assert_string_equal(strchr(text_of(lines), '\n'), "\n");
	snprintf(key, sizeof(key), " %s=", name);
	at = strstr(lines->text, key);
	if (!at)
		return "-";
	at += strlen(key);
	size_t len = *at == '"' ? strcspn(at + 1, "\"") + 2 : strcspn(at, " \n");
	snprintf(value, sizeof(value), "%.*s", (int)len, at);
	return value;
}

static double ms(struct lines *lines, const char *name)
{
	return strtod(field(lines, name), NULL);
}

/* The parts are the whole, but for what is rounded. */
static void assert_split(struct lines *lines)
{
	double parts =
	    ms(lines, "wait_ms") + ms(lines, "server_ms") + ms(lines, "client_ms");

	assert_true(parts > ms(lines, "duration_ms") - 0.0005);
	assert_true(parts < ms(lines, "duration_ms") + 0.0005);
}

static void run(struct peer *client, struct peer *server, const char *sql, char status)
{
	peer_text(client, 'Q', sql);
	peer_hear(server, 'Q');
	stage_settle(client->stage);
	peer_answer(server, "DONE", status);
	peer_hear(client, 'Z');
}

static void nothing_is_logged_by_default(void **state)
{
	struct lines lines;
	struct stage *stage = stage_with(&lines, "");
	struct peer *client, *server;

	(void)state;
	stage_pair(stage, &client, &server);
	run(client, server, "select 1", 'I');
	stage_set(stage, "log_min_duration", "60");
	run(client, server, "select 1", 'I');
	assert_string_equal(text_of(&lines), "");
	stage_set(stage, "log_min_duration", "0.000001");
	run(client, server, "select 1", 'I');
	assert_true(text_of(&lines)[0]);
	clear(&lines);
	stage_set(stage, "log_min_duration", "0");
	run(client, server, "select 1", 'I');
	assert_string_equal(text_of(&lines), "");
	done(&stage, &lines);
}

static void texts_are_logged_when_they_shall(void **state)
{
	struct lines lines;
	struct stage *stage = stage_with(&lines, EVERYTHING);
	struct peer *client, *server;

	(void)state;
	stage_pair(stage, &client, &server);
	run(client, server, "select 'secret', 1", 'I');
	assert_string_equal(field(&lines, "query"), "-");
	clear(&lines);
	stage_set(stage, "log_slow_text", "20");
	run(client, server, "select  'secret', 42 /* my cat */ from t1", 'I');
	assert_string_equal(field(&lines, "query"), "\"select ?, ?\"");
	clear(&lines);
	/* the cut is not in a character, and a literal that is cut is one as well */
	run(client, server, "select a, 'secr\xc3\xa9t' from t1", 'I');
	assert_string_equal(field(&lines, "query"), "\"select a, ?\"");
	clear(&lines);
	stage_set(stage, "log_slow_literals", "1");
	run(client, server, "select abcd, 'secr\xc3\xa9t' from t1", 'I');
	assert_string_equal(field(&lines, "query"), "\"select abcd, 'secr\xc3\xa9\"");
	clear(&lines);
	run(client, server, "select abcde, 'secr\xc3\xa9t' from t1", 'I');
	assert_string_equal(field(&lines, "query"), "\"select abcde, 'secr\"");
	done(&stage, &lines);
}

static bool is_later(void *ctx)
{
	struct stage *stage = ctx;

	return loop_now(stage->site.loop) >= (uintptr_t)stage->ctx;
}

/* The text of a transaction is that of the query on which the server worked longest. */
static void longest_query_is_named(void **state)
{
	struct lines lines;
	struct stage *stage = stage_with(&lines, EVERYTHING "log_slow_text = 100\n");
	struct peer *client, *server;

	(void)state;
	stage_pair(stage, &client, &server);
	run(client, server, "begin", 'T');
	peer_text(client, 'Q', "select slow from t");
	peer_hear(server, 'Q');
	stage_settle(stage);
	stage->ctx = (void *)(uintptr_t)(loop_now(stage->site.loop) + 20000);
	stage_until(stage, is_later, stage);
	peer_answer(server, "DONE", 'T');
	peer_hear(client, 'Z');
	run(client, server, "commit", 'I');
	assert_string_equal(field(&lines, "query"), "\"select slow from t\"");
	clear(&lines);
	run(client, server, "select 2", 'I');
	assert_string_equal(field(&lines, "query"), "\"select ?\"");
	done(&stage, &lines);
}

static void transaction_is_one_line(void **state)
{
	struct lines lines;
	struct stage *stage = stage_with(&lines, EVERYTHING);
	struct peer *client, *server;

	(void)state;
	stage_pair(stage, &client, &server);
	run(client, server, "begin " COMMENT("1"), 'T');
	run(client, server, "select 1 " COMMENT("2"), 'T');
	assert_string_equal(text_of(&lines), "");
	run(client, server, "commit", 'I');
	assert_int_equal(
	    strncmp(text_of(&lines), "slow transaction duration_ms=", 29), 0);
	assert_string_equal(field(&lines, "queries"), "3");
	assert_string_equal(field(&lines, "ended"), "ready");
	/* 5 bytes before and a zero behind each text */
	char received[16];
	snprintf(received, sizeof(received), "%zu",
	    3 * 6 + strlen("begin " COMMENT("1") "select 1 " COMMENT("2") "commit"));
	assert_string_equal(field(&lines, "received"), received);
	assert_string_equal(field(&lines, "sent"), "48");
	assert_string_equal(field(&lines, "wait_ms"), "0.000");
	assert_true(ms(&lines, "client_ms") > 0);
	assert_true(ms(&lines, "server_ms") > 0);
	assert_string_equal(field(&lines, "traceparent"), TRACE("1"));
	assert_string_equal(field(&lines, "application_name"), "-");
	assert_split(&lines);
	/* none of the first is left for the second */
	clear(&lines);
	run(client, server, "select 1", 'I');
	assert_string_equal(field(&lines, "queries"), "1");
	assert_string_equal(field(&lines, "sent"), "16");
	assert_string_equal(field(&lines, "traceparent"), "-");
	done(&stage, &lines);
}

static void wait_for_a_server_is_told(void **state)
{
	struct lines lines;
	struct stage *stage = stage_with(&lines, EVERYTHING);
	struct peer *client, *second, *server;

	(void)state;
	stage_pair(stage, &client, &server);
	second = stage_login(stage, "u", NULL, NULL);
	run(client, server, "begin", 'T');
	peer_text(second, 'Q', "select 1");
	stage_settle(stage);
	run(client, server, "commit", 'I');
	clear(&lines);
	peer_hear(server, 'Q');
	peer_answer(server, "SELECT 1", 'I');
	peer_hear(second, 'Z');
	assert_true(ms(&lines, "wait_ms") > 0);
	assert_string_equal(field(&lines, "client_ms"), "0.000");
	assert_split(&lines);
	done(&stage, &lines);
}

static void other_ends_are_told(void **state)
{
	struct lines lines;
	struct stage *stage = stage_with(&lines, EVERYTHING);
	struct peer *client, *second, *server;

	(void)state;
	stage_pair(stage, &client, &server);
	second = stage_login(stage, "u", "application_name", "a \"b\\c\n");
	run(client, server, "begin", 'T');
	peer_text(second, 'Q', "select 1");
	stage_settle(stage);
	peer_close(second);
	stage_settle(stage);
	assert_string_equal(field(&lines, "ended"), "no_server");
	assert_string_equal(field(&lines, "server_ms"), "0.000");
	assert_string_equal(field(&lines, "server"), "-");
	assert_non_null(
	    strstr(text_of(&lines), " application_name=\"a \\\"b\\\\c?\"\n"));
	assert_split(&lines);
	clear(&lines);
	peer_close(client);
	stage_settle(stage);
	assert_string_equal(field(&lines, "ended"), "client_closed");
	assert_split(&lines);
	clear(&lines);
	client = stage_login(stage, "u", NULL, NULL);
	peer_text(client, 'Q', "begin");
	server = stage_ready_server(stage);
	peer_hear(server, 'Q');
	peer_answer(server, "BEGIN", 'T');
	peer_hear(client, 'Z');
	peer_close(server);
	peer_last_words(client);
	assert_string_equal(field(&lines, "ended"), "server_closed");
	assert_split(&lines);
	done(&stage, &lines);
}

static void session_tells_of_queries(void **state)
{
	struct lines lines;
	struct stage *stage = stage_with(&lines, EVERYTHING "pool_mode = session\n");
	struct peer *client, *server;

	(void)state;
	stage_pair(stage, &client, &server);
	run(client, server, "begin " COMMENT("1"), 'T');
	assert_int_equal(strncmp(text_of(&lines), "slow query ", 11), 0);
	assert_string_equal(field(&lines, "queries"), "1");
	assert_string_equal(field(&lines, "traceparent"), TRACE("1"));
	clear(&lines);
	run(client, server, "select 1 " COMMENT("2"), 'T');
	assert_string_equal(field(&lines, "traceparent"), TRACE("2"));
	assert_string_equal(field(&lines, "sent"), "16");
	assert_split(&lines);
	clear(&lines);
	/* the last one is told with the transaction */
	run(client, server, "commit", 'I');
	assert_int_equal(strncmp(text_of(&lines), "slow transaction ", 17), 0);
	assert_string_equal(field(&lines, "traceparent"), TRACE("1"));
	assert_string_equal(field(&lines, "wait_ms"), "0.000");
	done(&stage, &lines);
}

static void put_parse(struct buf *out, const char *name, const char *text)
{
	size_t at = codec_begin(out, 'P');

	buf_put_str(out, name);
	buf_put_str(out, text);
	buf_put_u16(out, 0);
	codec_end(out, at);
}

static void put_bind(struct buf *out, const char *name)
{
	size_t at = codec_begin(out, 'B');

	buf_put_str(out, "");
	buf_put_str(out, name);
	buf_put(out, "\0\0\0\0\0\0", 6);
	codec_end(out, at);
	buf_put(out, "E\0\0\0\x09\0\0\0\0\0", 10);
}

/* Sends what is in buf and a Sync; the server answers messages of these types. */
static void extended(
    struct peer *client, struct peer *server, struct buf *buf, const char *answers)
{
	buf_put(buf, "S\0\0\0\4", 5);
	peer_send(client, buf->bytes, buf->len);
	buf_clear(buf);
	peer_hear(server, 'S');
	for (; *answers; answers++)
		if (*answers == 'C')
			peer_text(server, 'C', "SELECT 1");
		else
			peer_put(server, (uint8_t)*answers, "", 0);
	peer_ready(server, 'I');
	peer_hear(client, 'Z');
}

/* From a Parse, with or without a name, and from a statement that was prepared before.
 */
static void traces_of_extended_queries(void **state)
{
	struct lines lines;
	struct stage *stage =
	    stage_with(&lines, EVERYTHING "max_prepared_statements = 10\n");
	struct peer *client, *server;
	struct buf buf;

	(void)state;
	buf_init(&buf, 0);
	stage_pair(stage, &client, &server);
	for (int i = 0; i < 2; i++) { /* the second one is the same again */
		put_parse(&buf, "", "select 1 " COMMENT("1"));
		put_bind(&buf, "");
		extended(client, server, &buf, "12C");
		assert_string_equal(field(&lines, "traceparent"), TRACE("1"));
		clear(&lines);
	}
	put_parse(&buf, "named", COMMENT("2") "select 2");
	extended(client, server, &buf, "1");
	assert_string_equal(field(&lines, "traceparent"), TRACE("2"));
	clear(&lines);
	put_bind(&buf, "named");
	extended(client, server, &buf, "2C");
	assert_string_equal(field(&lines, "traceparent"), TRACE("2"));
	clear(&lines);
	put_parse(&buf, "other", "select 3");
	put_bind(&buf, "other");
	extended(client, server, &buf, "12C");
	assert_string_equal(field(&lines, "traceparent"), "-");
	/* bound in a transaction that goes on when the client leaves */
	put_bind(&buf, "named");
	buf_put(&buf, "H\0\0\0\4", 5);
	peer_send(client, buf.bytes, buf.len);
	peer_hear(server, 'H');
	clear(&lines);
	peer_close(client);
	stage_settle(stage);
	assert_string_equal(field(&lines, "traceparent"), TRACE("2"));
	buf_done(&buf);
	done(&stage, &lines);
}

static struct client *only_client(struct stage *stage)
{
	return container_of(list_first(&stage->site.clients), struct client, site_node);
}

/* What another process gets has everything for the line at the end. */
static void notes_go_along(void **state)
{
	struct lines lines;
	struct stage *stage =
	    stage_with(&lines, EVERYTHING "max_prepared_statements = 10\n");
	struct record_client record = {.conn = {0}};
	struct peer *client, *server;
	char trace[64];
	struct buf buf;

	(void)state;
	buf_init(&buf, 0);
	stage_pair(stage, &client, &server);
	slow_log_describe(only_client(stage), &record);
	assert_false(record.slow.is_there); /* no transaction runs */
	put_parse(&buf, "named", COMMENT("2") "begin");
	extended(client, server, &buf, "1");
	clear(&lines);
	put_bind(&buf, "named");
	buf_put(&buf, "S\0\0\0\4", 5);
	peer_send(client, buf.bytes, buf.len);
	peer_hear(server, 'S');
	peer_put(server, '2', "", 0);
	peer_answer(server, "BEGIN", 'T');
	peer_hear(client, 'Z');
	slow_log_describe(only_client(stage), &record);
	assert_true(record.slow.is_there);
	assert_int_equal(record.slow.query_count, 1);
	assert_int_equal(record.slow.received, buf.len);
	assert_true(record.slow.worked_us > 0);
	snprintf(trace, sizeof(trace), "%s", record.slow.xact.traceparent);
	record.slow.xact.traceparent = record.slow.query.traceparent = trace;
	slow_log_forget(only_client(stage));
	slow_log_restore(only_client(stage), &record);
	run(client, server, "commit", 'I');
	assert_string_equal(field(&lines, "queries"), "2");
	assert_string_equal(field(&lines, "traceparent"), TRACE("2"));
	assert_true(ms(&lines, "server_ms") * 1000 >= (double)record.slow.worked_us);
	assert_int_equal((int)ms(&lines, "received"), (int)buf.len + 12);
	assert_split(&lines);
	/* where the setting is not in force, they are not used */
	run(client, server, "begin", 'T');
	stage_set(stage, "log_min_duration", "0");
	slow_log_forget(only_client(stage));
	slow_log_restore(only_client(stage), &record);
	assert_null(only_client(stage)->slow_log);
	buf_done(&buf);
	done(&stage, &lines);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nothing_is_logged_by_default),
	    cmocka_unit_test(texts_are_logged_when_they_shall),
	    cmocka_unit_test(longest_query_is_named),
	    cmocka_unit_test(transaction_is_one_line),
	    cmocka_unit_test(wait_for_a_server_is_told),
	    cmocka_unit_test(other_ends_are_told),
	    cmocka_unit_test(session_tells_of_queries),
	    cmocka_unit_test(traces_of_extended_queries),
	    cmocka_unit_test(notes_go_along),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
