/*
 * A client does much that needs memory by the size of its own messages, and each time
 * in turn there is none.  Only that client is hurt, and is told so: it hears what it
 * would have heard, up to an error or its end.  Nothing leaks, and the others are
 * served.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../stage/stage.h"
#define NO_MEMORY_SPARES stage_plays
#include "../no_memory.h"
#include "relay/listen_table.h"
#include "wire/codec.h"
#include "wire/message.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

/* ---- servers: they name what they run, and for which application ---- */

enum { NAME = 64, STATEMENTS = 16, BACKENDS = 8 };

struct statement {
	char name[NAME], text[NAME];
};

struct backend {
	char status, application[NAME];
	bool is_skipping, has_lost;
	bool listens[3]; /* to c, d and the pooler's marks */
	struct peer *peer;
	struct statement statements[STATEMENTS];
	const struct statement *portal;
};

static struct backend backends[BACKENDS];

static void keep(char room[NAME], const char *text, size_t len)
{
	snprintf(room, NAME, "%.*s", (int)len, text);
}

static struct statement *find(struct backend *b, const char *name, bool is_free)
{
	for (size_t i = 0; i < STATEMENTS; i++) {
		struct statement *s = &b->statements[i];
		if (*s->text ? strcmp(s->name, name) == 0 : is_free)
			return s;
	}
	return NULL;
}

static void answer_error(struct peer *peer, struct backend *b)
{
	peer_put(peer, 'E', "SERROR\0C42000\0Mfailed\0", 23);
	b->is_skipping = true;
	if (b->status == 'T')
		b->status = 'E';
}

static void put_mark(struct peer *peer, const char *mark)
{
	struct buf body;

	buf_init(&body, 0);
	buf_put_u32(&body, 9);
	buf_put_str(&body, LISTEN_MARKS);
	buf_put(&body, mark, LISTEN_MARK_SIZE - 1);
	buf_put_u8(&body, 0);
	peer_put(peer, 'A', body.bytes, body.len);
	buf_done(&body);
}

/* LISTEN, UNLISTEN, the pooler's NOTIFY, and the question which channels there are. */
static void take_channels(struct peer *peer, struct backend *b, const char *text)
{
	static const char *const names[] = {"c", "d", LISTEN_MARKS};
	const char *name = strchr(text, ' '), *mark = strchr(text, '\'');

	name += name && name[1] == '"';
	for (size_t i = 0; i < 3 && name; i++) {
		uint8_t row[] = {0, 2, 0, 0, 0, 1, 'l', 0, 0, 0, 1, (uint8_t)*names[i]};
		bool is_it = name[1] == '*' ||
			     strncmp(name + 1, names[i], strlen(names[i])) == 0;
		if (strncasecmp(text, "listen", 6) == 0)
			b->listens[i] |= is_it;
		else if (strncasecmp(text, "unlisten", 8) == 0)
			b->listens[i] &= !is_it;
		else if (strncmp(text, "SELECT 'l'", 10) == 0 && b->listens[i] && i < 2)
			peer_put(peer, 'D', row, sizeof(row));
	}
	for (size_t i = 0; i < BACKENDS && strncmp(text, "NOTIFY", 6) == 0; i++)
		if (backends[i].peer && backends[i].listens[2] &&
		    !backends[i].peer->has_ended)
			put_mark(backends[i].peer, mark + 1);
}

/* What the pooler itself looks at has PostgreSQL's tag. */
static void answer_run(struct peer *peer, struct backend *b, const char *text)
{
	static const char *const commands[][2] = {{"prepare", "PREPARE"},
	    {"deallocate all", "DEALLOCATE ALL"}, {"deallocate", "DEALLOCATE"},
	    {"listen", "LISTEN"}, {"unlisten", "UNLISTEN"}};
	char tag[2 * NAME + 2];

	take_channels(peer, b, text);
	snprintf(tag, sizeof(tag), "%.12s of %s", text, b->application);
	for (size_t i = sizeof(commands) / sizeof(commands[0]); i-- > 0;)
		if (strncasecmp(text, commands[i][0], strlen(commands[i][0])) == 0)
			strcpy(tag, commands[i][1]);
	peer_text(peer, 'C', tag);
}

static void take_settings(struct peer *peer, struct backend *b, const char *text)
{
	const char *at = strstr(text, "application_name='");
	char status[NAME + 20];
	int len;

	if (!at || strncasecmp(text, "set ", 4) != 0)
		return;
	at = strchr(at, '\'') + 1;
	keep(b->application, at, strcspn(at, "'"));
	len =
	    snprintf(status, sizeof(status), "application_name%c%s", 0, b->application);
	peer_put(peer, 'S', status, (size_t)len + 1);
}

static void answer_query(struct peer *peer, struct backend *b, const char *text)
{
	if (strncmp(text, "begin", 5) == 0)
		b->status = 'T';
	else if (strncmp(text, "commit", 6) == 0)
		b->status = 'I';
	if (strncmp(text, "copy", 4) == 0) {
		peer_put(peer, 'G', "\0\0\0", 3);
		return;
	}
	if (strcasecmp(text, "deallocate all") == 0 || strcmp(text, "DISCARD ALL") == 0)
		memset(b->statements, 0, sizeof(b->statements));
	take_settings(peer, b, text);
	if (strncmp(text, "fail", 4) == 0)
		answer_error(peer, b);
	else
		answer_run(peer, b, text);
	b->is_skipping = false;
	peer_ready(peer, b->status);
}

static void answer_parse(struct peer *peer, struct backend *b, const char *body)
{
	struct statement *s = find(b, body, false);

	if (s && !*body)
		*s->text = '\0';
	if (s && *body) {
		answer_error(peer, b);
		return;
	}
	s = find(b, "", true);
	keep(s->name, body, strlen(body));
	body += strlen(body) + 1;
	keep(s->text, body, strlen(body));
	peer_put(peer, '1', NULL, 0);
}

/* One statement is lost once. */
static void answer_bind(struct peer *peer, struct backend *b, const char *body)
{
	b->portal = find(b, body + strlen(body) + 1, false);
	if (b->portal && !b->has_lost && strncmp(b->portal->text, "lost", 4) == 0) {
		find(b, b->portal->name, false)->text[0] = '\0';
		b->has_lost = b->is_skipping = true;
		peer_put(peer, 'E', "SERROR\0C26000\0Mlost\0", 21);
	} else if (b->portal)
		peer_put(peer, '2', NULL, 0);
	else
		answer_error(peer, b);
}

static void answer_close(struct peer *peer, struct backend *b, const char *body)
{
	struct statement *s = *body == 'S' ? find(b, body + 1, false) : NULL;

	if (s)
		*s->text = '\0';
	peer_put(peer, '3', NULL, 0);
}

static void answer_one(
    struct peer *peer, struct backend *b, uint8_t type, const char *body)
{
	if (b->is_skipping && type != 'S' && type != 'Q')
		return;
	switch (type) {
	case 'Q':
		answer_query(peer, b, body);
		break;
	case 'P':
		answer_parse(peer, b, body);
		break;
	case 'B':
		answer_bind(peer, b, body);
		break;
	case 'D':
		if (*body == 'S')
			peer_put(peer, 't', "\0\0", 2);
		peer_put(peer, 'n', NULL, 0);
		break;
	case 'E':
		answer_run(peer, b, b->portal->text);
		break;
	case 'C':
		answer_close(peer, b, body);
		break;
	case 'c':
		answer_run(peer, b, "copy");
		peer_ready(peer, b->status);
		break;
	case 'S':
		b->is_skipping = false;
		peer_ready(peer, b->status);
	}
}

static void serve(struct peer *peer)
{
	struct backend *b = &backends[peer->number % BACKENDS];
	size_t size;

	if (!peer->started) {
		if (peer->in.len < 8 || peer->in.len < get_u32(peer->in.bytes))
			return;
		*b = (struct backend){.status = 'I', .peer = peer};
		peer_first_packet(peer);
		peer_greet(peer);
	}
	while ((size = peer_message(peer))) {
		answer_one(
		    peer, b, peer->in.bytes[0], (const char *)peer->in.bytes + 5);
		buf_shift(&peer->in, size);
	}
}

/* ---- what the client does ---- */

static void parse(struct buf *out, const char *name, const char *text)
{
	codec_put_parse(out, name, text);
}

static void run_named(struct buf *out, const char *name)
{
	size_t at = codec_begin(out, 'B');

	buf_put_str(out, "");
	buf_put_str(out, name);
	buf_put(out, "\0\0\0\0\0\0", 6);
	codec_end(out, at);
	codec_put_describe_portal(out);
	codec_put_execute(out);
}

static void close_named(struct buf *out, const char *name)
{
	size_t at = codec_begin(out, 'C');

	buf_put_u8(out, 'S');
	buf_put_str(out, name);
	codec_end(out, at);
}

static void query(struct buf *out, const char *text)
{
	size_t at = codec_begin(out, 'Q');

	buf_put_str(out, text);
	codec_end(out, at);
}

static void login(struct buf *out)
{
	size_t at = codec_begin_startup(out, PROTOCOL_3_0);

	codec_put_param(out, "user", "u");
	codec_put_param(out, "database", "d");
	codec_put_param(out, "application_name", "an application");
	codec_put_param(out, "options", "-c datestyle=german");
	codec_end_startup(out, at);
}

static void password(struct buf *out)
{
	size_t at = codec_begin(out, 'p');

	buf_put_str(out, "secret");
	codec_end(out, at);
}

static void named(struct buf *out)
{
	parse(out, "one", "select 1");
	run_named(out, "one");
	parse(out, "two", "select 2");
	run_named(out, "two");
	codec_put_sync(out);
}

static void evicting(struct buf *out)
{
	parse(out, "three", "select 3");
	run_named(out, "three");
	run_named(out, "one");
	close_named(out, "two");
	codec_put_sync(out);
}

static void unnamed(struct buf *out)
{
	parse(out, "", "select 4");
	run_named(out, "");
	codec_put_sync(out);
}

static void to_lose(struct buf *out)
{
	size_t at;

	parse(out, "lost", "lost");
	at = codec_begin(out, 'D');
	buf_put_u8(out, 'S');
	buf_put_str(out, "lost");
	codec_end(out, at);
	codec_put_sync(out);
}

static void lost(struct buf *out)
{
	run_named(out, "lost");
	codec_put_sync(out);
}

static void closing(struct buf *out)
{
	close_named(out, "one");
	close_named(out, "two");
	close_named(out, "none");
	codec_put_sync(out);
}

static void failing(struct buf *out)
{
	parse(out, "four", "select 5");
	run_named(out, "unknown");
	parse(out, "five", "select 6");
	codec_put_sync(out);
}

static void setting(struct buf *out)
{
	query(out, "set application_name='new'");
}

static void in_a_block(struct buf *out)
{
	query(out, "begin");
	run_named(out, "one");
	codec_put_sync(out);
	query(out, "commit");
}

static void prepared_by_sql(struct buf *out)
{
	query(out, "prepare p as select 7");
	query(out, "execute p");
	parse(out, "", "execute p");
	run_named(out, "");
	codec_put_sync(out);
	parse(out, "", "prepare q as select 9");
	run_named(out, "");
	parse(out, "x", "execute q");
	run_named(out, "x");
	parse(out, "", "deallocate q");
	run_named(out, "");
	codec_put_sync(out);
	query(out, "deallocate p");
	query(out, "deallocate all");
}

static void listening(struct buf *out)
{
	query(out, "listen c");
	query(out, "listen d; select 1");
	query(out, "listen d");
	query(out, "unlisten c");
	query(out, "unlisten *");
}

static void copying(struct buf *out)
{
	size_t at;

	query(out, "copy t from stdin");
	at = codec_begin(out, 'd');
	buf_put_str(out, "a row");
	codec_end(out, at);
	codec_end(out, codec_begin(out, 'c'));
}

static void failed_query(struct buf *out)
{
	query(out, "fail");
}

/* Longer than what is received at once. */
static void long_text(struct buf *out)
{
	enum { LEN = 40000 };
	char *text = malloc(LEN + 1);

	memset(text, ' ', LEN);
	memcpy(text, "select 8", 8);
	text[LEN] = '\0';
	parse(out, "long", text);
	run_named(out, "long");
	codec_put_sync(out);
	query(out, text);
	free(text);
}

typedef void step_fn(struct buf *out);
static step_fn *const steps[] = {named, evicting, unnamed, unnamed, failing, setting,
    closing, named, in_a_block, to_lose, lost, prepared_by_sql, listening, copying,
    failed_query, long_text, named};

/* ---- one run ---- */

static bool is_answered(void *arg)
{
	const struct peer *client = arg;

	return client->in.len > 0 || client->has_ended;
}

/* A server may have to be opened again, after a moment. */
static void turn(struct peer *client, bool waits)
{
	no_memory.is_on = true;
	stage_settle(client->stage);
	if (waits)
		stage_until(client->stage, is_answered, client);
	stage_settle(client->stage);
	no_memory.is_on = false;
}

/* Sends what a step says, in pieces, and appends what the client hears. */
static void take_step(struct peer *client, step_fn *step, struct buf *heard)
{
	static const size_t pieces[] = {3, 11, 30000, SIZE_MAX};
	const char *text;
	struct buf out;
	size_t sent = 0;

	buf_init(&out, 0);
	step(&out);
	for (size_t i = 0; sent < out.len; i++) {
		size_t left = out.len - sent;
		size_t len = pieces[i] < left ? pieces[i] : left;
		peer_send(client, out.bytes + sent, len);
		sent += len;
		turn(client, sent == out.len);
	}
	buf_done(&out);
	text = peer_heard(client);
	buf_printf(heard, "%s%s", *text ? " " : "", text);
}

static void take_steps(struct peer *client, bool has_password, struct buf *heard)
{
	take_step(client, login, heard);
	if (has_password)
		take_step(client, password, heard);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		take_step(client, steps[i], heard);
}

static struct peer *come(struct stage *stage, bool has_password)
{
	struct peer *client = stage_client(stage);

	peer_start(client, "u", "d", NULL, NULL);
	if (has_password) {
		peer_hear(client, 'R');
		peer_text(client, 'p', "secret");
	}
	peer_hear(client, 'Z');
	return client;
}

/* Others are served as ever. */
static void check_others(struct stage *stage, struct peer *quiet, bool has_password)
{
	struct peer *late = come(stage, has_password);

	peer_text(quiet, 'Q', "select 1");
	assert_non_null(strstr(peer_hear(quiet, 'Z'), "C:select 1 of "));
	peer_text(late, 'Q', "select 1");
	assert_non_null(strstr(peer_hear(late, 'Z'), "C:select 1 of "));
}

static void run(const char *settings, struct buf *heard, bool *has_ended)
{
	struct stage *stage = stage_new("pool_size=3", settings);
	bool has_password = strstr(settings, "plain");
	struct peer *quiet, *client;

	memset(backends, 0, sizeof(backends));
	stage->play = serve;
	quiet = come(stage, has_password);
	/* with session_state=keep the client joins it, and may end the connection */
	struct peer *listener = come(stage, has_password);
	peer_text(listener, 'Q', "listen c");
	peer_hear(listener, 'Z');
	client = stage_client(stage);
	take_steps(client, has_password, heard);
	*has_ended = client->has_ended;
	check_others(stage, quiet, has_password);
	stage_free(&stage);
}

/* What was heard is what should be, or differs from it first by an error or the end. */
static void check_heard(
    size_t n, const char *heard, const char *should_be, bool has_ended)
{
	size_t same = 0;

	while (heard[same] && heard[same] == should_be[same])
		same++;
	if (!heard[same] && (has_ended || !should_be[same]))
		return;
	while (same > 0 && heard[same - 1] != ' ')
		same--;
	if (strncmp(heard + same, "E:", 2) == 0)
		return;
	print_error("failure %zu: heard\n%s\ninstead of\n%s\n", n, heard, should_be);
	fail();
}

static void only_the_one_is_hurt(void **state)
{
	const char *settings = *state;
	struct buf should_be, heard;
	bool has_ended;

	no_memory.fail_at = 0;
	buf_init(&should_be, 0);
	run(settings, &should_be, &has_ended);
	assert_false(has_ended);
	for_each_failure(n)
	{
		buf_init(&heard, 0);
		run(settings, &heard, &has_ended);
		check_heard(n, buf_text(&heard), buf_text(&should_be), has_ended);
		buf_done(&heard);
	}
	buf_done(&should_be);
}

#define WITH(settings)                                                               \
	{                                                                            \
		"with " settings, only_the_one_is_hurt, NULL, NULL, (void *)settings \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    WITH("max_prepared_statements = 2\ntrack_sql_prepare = 1\n"),
	    WITH("max_prepared_statements = 2\nprepare_unnamed = 1\n"
		 "defer_begin = 1\n"),
	    WITH("session_state = keep\nauth_type = plain\n"),
	    WITH("session_state = clean\nserver_check_delay = 0\n"
		 "server_check_query = select 1\n"),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
