/* links: login relay handoff cancel broker session pool wire auth net conf base */
/*
 * Clients and correct servers at both ends of a whole site, every message cut at random
 * bytes: simple and extended queries, known statements of which the pooler answers
 * some messages itself, COPY with and without errors, transactions, deaths, cancels,
 * slow readers, pauses, RECONNECT.  Every answer names its query.  No answer reaches
 * another client or comes out of order, no server gets a client's message while it owes
 * another one something, no cancel request hits another query, no client waits for
 * ever, and in the end no client, server or memory is left.
 */
#include "../unit/stage/stage.c"
#include "prop.h"

enum { STEPS = 1200, RUNS = 120, CLIENTS = 7, PENDING_MOST = 4, ROW_MOST = 3000 };

static uint64_t random_state;
static unsigned cancels_hit, rows_seen, servers_killed;

static unsigned pick(unsigned n)
{
	return (unsigned)(random_next(&random_state) >> 33) % n;
}

/* ---- the model of a server ---- */

struct backend {
	struct peer *peer;
	struct buf out;
	unsigned owner; /* serial of the client that it works for; 0: none */
	char status;
	bool is_copying, copy_fails, is_skipping, is_open; /* open: owes a Z message */
	bool has_failed;                                   /* this Parse is to fail */
	bool is_slow; /* the query waits for chance or a cancel request */
	char parsed[64], slow_log[64];
};

static void answer(struct backend *b, uint8_t type, const void *body, size_t len)
{
	size_t at = codec_begin(&b->out, type);
	if (len)
		buf_put(&b->out, body, len);
	codec_end(&b->out, at);
}

static void answer_ready(struct backend *b)
{
	answer(b, 'Z', &b->status, 1);
	b->is_open = false;
}

static void answer_error(struct backend *b)
{
	answer(b, 'E', "SERROR\0C42000\0Mfailed\0", 23);
	if (b->status == 'T')
		b->status = 'E';
}

/* A row with the tag and a filler of random length. */
static void answer_row(struct backend *b, const char *tag)
{
	static const char filler[ROW_MOST];
	size_t at = codec_begin(&b->out, 'D');
	buf_put_str(&b->out, tag);
	buf_put(&b->out, filler, pick(4) ? pick(40) : pick(ROW_MOST));
	codec_end(&b->out, at);
}

/* A description of random length. */
static void answer_described(struct backend *b)
{
	static const char columns[ROW_MOST];
	size_t at;

	answer(b, 't', "\0\0", 2);
	at = codec_begin(&b->out, 'T');
	buf_put(&b->out, columns, 2 + (pick(4) ? pick(60) : pick(ROW_MOST - 2)));
	codec_end(&b->out, at);
}

/* Returns the client's serial: "c12.3" in the text is a message of client 12. */
static unsigned owner_of(const char *text)
{
	const char *tag = strstr(text, " c");
	return tag ? (unsigned)atoi(tag + 2) : 0;
}

static const char *tag_of(const char *text)
{
	const char *tag = strstr(text, " c");
	return tag ? tag + 1 : "";
}

static void note_owner(struct backend *b, const char *text)
{
	unsigned owner = owner_of(text);
	if (!owner)
		return;
	if (b->owner && b->owner != owner) {
		CHECK(b->status == 'I' && !b->is_open && !b->is_copying);
		CHECK(b->out.len == 0 && !b->is_slow);
	}
	b->owner = owner;
}

static void serve_query(struct backend *b, const char *text)
{
	note_owner(b, text);
	if (strncmp(text, "copy", 4) == 0) {
		b->is_copying = b->is_open = true;
		b->copy_fails = strncmp(text, "copyfail", 8) == 0;
		answer(b, 'G', "\0\0\0", 3);
		return;
	}
	if (strncmp(text, "slow", 4) == 0) {
		b->is_slow = b->is_open = true;
		snprintf(b->slow_log, sizeof(b->slow_log), "%s", tag_of(text));
		return;
	}
	if (strncmp(text, "fail", 4) == 0) {
		answer_error(b);
	} else if (!*text) {
		answer(b, 'I', "", 0);
	} else {
		if (strncmp(text, "begin", 5) == 0)
			b->status = 'T';
		else if (strncmp(text, "commit", 6) == 0)
			b->status = 'I';
		if (owner_of(text))
			answer_row(b, tag_of(text));
		answer(b, 'C', "DONE", 5);
	}
	answer_ready(b);
}

static void serve_copy(struct backend *b, uint8_t type)
{
	if (type == 'f' || (b->copy_fails && strchr("dc", type)))
		answer_error(b);
	else if (type == 'c')
		answer(b, 'C', "COPY 1", 7);
	else
		return;
	b->is_copying = false;
	answer_ready(b);
}

static void serve_extended(struct backend *b, uint8_t type, const uint8_t *body)
{
	const char *text = (const char *)body;
	if (type == 'S') {
		b->is_skipping = false;
		answer_ready(b);
		return;
	}
	if (b->is_skipping)
		return;
	if (type == 'P')
		note_owner(b, text + 1);
	b->is_open = true;
	switch (type) {
	case 'P':
		snprintf(b->parsed, sizeof(b->parsed), "%s", tag_of(text + 1));
		if (strncmp(text + 1, "fail", 4) == 0) {
			answer_error(b);
			b->is_skipping = true;
		} else {
			answer(b, '1', "", 0);
		}
		break;
	case 'B':
		answer(b, '2', "", 0);
		break;
	case 'C':
		answer(b, '3', "", 0);
		break;
	case 'D':
		if (*text == 'S')
			answer_described(b);
		else
			answer(b, 'n', "", 0);
		break;
	case 'E':
		answer_row(b, b->parsed);
		answer(b, 'C', "DONE", 5);
		break;
	}
}

/* Answers one message, if a whole one is there. */
static void serve_one(struct backend *b)
{
	struct buf *in = &b->peer->in;
	size_t size = peer_message(b->peer);
	uint8_t type;

	if (!size || b->is_slow)
		return;
	type = in->bytes[0];
	if (b->is_copying)
		serve_copy(b, type);
	else if (type == 'Q' && !b->is_skipping)
		serve_query(b, (const char *)in->bytes + 5);
	else if (strchr("PBCDES", type))
		serve_extended(b, type, in->bytes + 5);
	else
		CHECK(strchr("QdcfHX", type));
	buf_shift(in, size);
}

static void backend_send(struct backend *b, size_t most)
{
	size_t n = b->out.len < most ? b->out.len : most;
	ssize_t sent;
	if (!n)
		return;
	sent = send(b->peer->fd, b->out.bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent > 0)
		buf_shift(&b->out, (size_t)sent);
	else if (errno != EAGAIN)
		buf_clear(&b->out);
}

static void backend_free(struct peer *peer)
{
	struct backend *b = peer->ctx;
	if (b)
		buf_done(&b->out);
	mem_free(b);
	peer_close(peer);
}

static void backend_end_slow(struct backend *b, bool is_canceled)
{
	if (!b->is_slow)
		return;
	b->is_slow = false;
	if (is_canceled) {
		cancels_hit++;
		answer_error(b);
	} else {
		answer_row(b, b->slow_log);
		answer(b, 'C', "DONE", 5);
	}
	answer_ready(b);
}

/* ---- the model of a client ---- */

struct front {
	struct peer *peer; /* NULL: not connected */
	struct buf out;
	unsigned serial, number, seen; /* counts of queries: sent, answered */
	unsigned readies, wanted;
	unsigned described, parsed, closed; /* since the last ReadyForQuery */
	bool is_in, in_block, was_canceled, is_leaving;
};

struct fixture {
	struct stage *stage;
	struct front fronts[CLIENTS];
	unsigned serials;
	bool canceled[1 << 14]; /* by serial: a cancel request was sent for its query */
	bool is_paused, may_lose;
};

static void say(struct front *f, uint8_t type, const void *body, size_t len)
{
	size_t at = codec_begin(&f->out, type);
	if (len)
		buf_put(&f->out, body, len);
	codec_end(&f->out, at);
}

static void say_query(struct front *f, const char *verb)
{
	char text[64];
	snprintf(text, sizeof(text), "%s c%u.%u", verb, f->serial, ++f->number);
	say(f, 'Q', text, strlen(text) + 1);
	f->wanted++;
}

static void say_extended(struct front *f, const char *verb)
{
	char text[64];
	int len;
	text[0] = '\0';
	len = snprintf(
	    text + 1, sizeof(text) - 4, "%s c%u.%u", verb, f->serial, ++f->number);
	memset(text + 1 + len, 0, 3);
	say(f, 'P', text, (size_t)len + 4);
	say(f, 'B', "\0\0\0\0\0\0\0\0", 8);
	if (pick(2))
		say(f, 'D', "P\0", 2);
	say(f, 'E', "\0\0\0\0\0", 5);
	if (pick(3) == 0)
		say(f, 'H', "", 0);
	say(f, 'S', "", 0);
	f->wanted++;
}

/* Parse, Describe and Close of texts that all clients use.  The pooler answers Parse if
 * the server has the statement, and each Close.  A Parse before them names the client.
 */
static void say_known(struct front *f)
{
	char name[2] = "a", text[64];
	int len = snprintf(text, sizeof(text) - 3, "%cnone c%u.0", 0, f->serial);

	memset(text + len, 0, 3);
	say(f, 'P', text, (size_t)len + 3);
	for (unsigned i = 1 + pick(5); i > 0; i--, name[0]++) {
		len =
		    snprintf(text, sizeof(text) - 3, "%s%cknown %u", name, 0, pick(4));
		memset(text + len, 0, 3);
		say(f, 'P', text, (size_t)len + 3);
		text[0] = 'S';
		memcpy(text + 1, name, 2);
		say(f, 'D', text, 3);
		say(f, 'C', text, 3);
	}
	say(f, 'S', "", 0);
	f->wanted++;
}

static void say_copy(struct front *f, const char *verb)
{
	static const uint8_t data[1500];
	say_query(f, verb);
	for (unsigned i = pick(5); i > 0; i--)
		say(f, 'd', data, pick(3) ? pick(30) : pick(sizeof(data)));
	say(f, pick(5) ? 'c' : 'f', "", 1);
}

static void say_something(struct front *f)
{
	switch (pick(14)) {
	case 0:
		say_query(f, f->in_block ? "commit" : "begin");
		f->in_block = !f->in_block;
		break;
	case 1:
		say_query(f, "fail");
		break;
	case 2:
	case 3:
		say_query(f, "slow");
		break;
	case 4:
		say_copy(f, "copy");
		break;
	case 5:
		say_copy(f, "copyfail");
		break;
	case 6:
		say_extended(f, "fail");
		break;
	case 7:
	case 8:
		say_extended(f, "select");
		break;
	case 10:
	case 11:
		say_known(f);
		break;
	case 9:
		say(f, 'd', "late", 4);
		say(f, 'c', "", 0);
		break;
	default:
		say_query(f, "select");
	}
}

static void front_send(struct front *f, size_t most)
{
	size_t n = f->out.len < most ? f->out.len : most;
	ssize_t sent;
	if (!f->peer || !n)
		return;
	sent = send(f->peer->fd, f->out.bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent > 0)
		buf_shift(&f->out, (size_t)sent);
}

static void front_come(struct fixture *w, struct front *f)
{
	static const char *const names[] = {"one", "two"};
	unsigned serial = ++w->serials;
	CHECK(serial < sizeof(w->canceled));
	*f = (struct front){.serial = serial};
	buf_init(&f->out, 0);
	f->peer = stage_client(w->stage);
	size_t at = codec_begin_startup(&f->out, PROTOCOL_3_0);
	codec_put_param(&f->out, "user", "u");
	codec_put_param(&f->out, "database", "d");
	if (pick(2))
		codec_put_param(&f->out, "application_name", names[pick(2)]);
	codec_end_startup(&f->out, at);
	f->wanted = 1;
}

static void front_go(struct front *f)
{
	if (!f->peer)
		return;
	peer_close(f->peer);
	buf_done(&f->out);
	*f = (struct front){0};
}

static void front_hear_row(struct front *f, const uint8_t *body)
{
	unsigned serial, number;
	CHECK(sscanf((const char *)body, "c%u.%u", &serial, &number) == 2);
	CHECK(serial == f->serial);
	CHECK(number > f->seen && number <= f->number);
	f->seen = number;
	rows_seen++;
}

/* The answers to say_known come in order, none stands within another one. */
static void front_hear_known(struct front *f, uint8_t type)
{
	CHECK(strchr("12CDEGIKNRSTZnt3", type));
	f->parsed += type == '1';
	f->described += type == 'T';
	f->closed += type == '3';
	if (type == 'T')
		CHECK(f->parsed == f->described + 1);
	if (type == '3')
		CHECK(f->closed == f->described);
	if (type == 'Z')
		f->parsed = f->described = f->closed = 0;
}

/* Reads all messages that came; the connection may be over afterwards. */
static void front_hear(struct fixture *w, struct front *f)
{
	size_t size;
	if (!f->peer)
		return;
	while ((size = peer_message(f->peer))) {
		const uint8_t *m = f->peer->in.bytes;
		front_hear_known(f, m[0]);
		if (m[0] == 'D')
			front_hear_row(f, m + 5);
		if (m[0] == 'K')
			memcpy(f->peer->key, m + 5, CANCEL_KEY_LEN);
		if (m[0] == 'Z') {
			CHECK(++f->readies <= f->wanted);
			f->is_in = true;
		}
		if (m[0] == 'E' && strcmp((const char *)m + 6, "FATAL") == 0 &&
		    !w->may_lose) {
			fprintf(stderr, "lost: %s\n", (const char *)m + 19);
			CHECK(!"a client was lost");
		}
		buf_shift(&f->peer->in, size);
	}
	if (f->peer->has_ended) {
		CHECK(w->may_lose || f->is_leaving);
		front_go(f);
	}
}

static void front_cancel(struct fixture *w, struct front *f)
{
	struct peer *carrier;
	struct buf b;
	if (!f->is_in)
		return;
	w->canceled[f->serial] = true;
	carrier = stage_client(w->stage);
	buf_init(&b, 0);
	codec_put_cancel_request(&b, f->peer->key, CANCEL_KEY_LEN);
	peer_send(carrier, b.bytes, b.len);
	buf_done(&b);
	if (pick(2))
		peer_close(carrier);
}

static void front_step(struct fixture *w, struct front *f)
{
	if (!f->peer) {
		front_come(w, f);
		return;
	}
	switch (pick(24)) {
	case 0:
		if (pick(3) == 0)
			front_go(f);
		break;
	case 1:
		front_cancel(w, f);
		break;
	case 2:
		if (pick(3) == 0)
			watch_off(f->peer->watch);
		break;
	case 3:
	case 4:
		watch_on(f->peer->watch);
		break;
	case 5:
		if (f->is_in && !f->out.len && pick(3) == 0) {
			say(f, 'X', "", 0);
			f->is_leaving = true;
		}
		break;
	default:
		if (f->is_in && !f->is_leaving && f->wanted - f->readies < PENDING_MOST)
			say_something(f);
	}
}

/* ---- the run ---- */

static struct backend *find_backend(struct fixture *w, uint32_t number)
{
	struct peer *peer;
	list_for (peer, &w->stage->peers, node) {
		if (peer->ctx && peer->number == number)
			return peer->ctx;
	}
	return NULL;
}

/* Reads the first packet of a server connection: a login, or a cancel request. */
static void first_packet_step(struct fixture *w, struct peer *peer)
{
	struct buf *in = &peer->in;
	if (peer->has_ended) {
		peer_close(peer);
		return;
	}
	if (in->len < 8 || in->len < get_u32(in->bytes))
		return;
	list_remove(&w->stage->fresh, &peer->fresh_node);
	peer->started = get_u32(in->bytes + 4);
	if (peer->started == STARTUP_CANCEL) {
		struct backend *b = find_backend(w, get_u32(in->bytes + 8));
		if (b && b->is_slow) {
			CHECK(w->canceled[b->owner]);
			backend_end_slow(b, true);
		}
		peer_close(peer);
		return;
	}
	buf_shift(in, get_u32(in->bytes));
	struct backend *b = peer->ctx = mem_zero(sizeof(*b));
	b->peer = peer;
	b->status = 'I';
	buf_init(&b->out, 0);
	peer_greet(peer);
}

static void backend_step(struct fixture *w, struct backend *b)
{
	if (b->peer->has_ended) {
		backend_free(b->peer);
		return;
	}
	for (unsigned i = pick(6); i > 0; i--)
		serve_one(b);
	if (pick(6) == 0)
		backend_end_slow(b, false);
	backend_send(b, pick(3) ? pick(60) : 10000);
	if (w->may_lose && pick(300) == 0) {
		servers_killed++;
		backend_free(b->peer);
	}
}

static void servers_step(struct fixture *w)
{
	struct peer *peer, *next;
	list_for_safe (peer, next, &w->stage->fresh, fresh_node)
		if (pick(2))
			first_packet_step(w, peer);
	list_for_safe (peer, next, &w->stage->peers, node)
		if (peer->ctx && pick(2))
			backend_step(w, peer->ctx);
}

static void pause_step(struct fixture *w)
{
	struct catalog *c = w->stage->site.catalog;
	if (pick(40) == 0 || w->is_paused) {
		w->is_paused = !w->is_paused && pick(2);
		c->paused = w->is_paused;
		catalog_schedule_all(c, NULL);
	}
	if (pick(120) == 0)
		catalog_mark_dirty(c, NULL);
}

/* A server is lent to one client only, and one at rest owes nothing. */
static void check_pool(struct fixture *w)
{
	struct pool *pool;
	struct slot *slot;
	list_for (pool, &w->stage->site.catalog->pool_list, node) {
		list_for (slot, &pool->slots[SLOT_ACTIVE], node)
			CHECK(slot->request && slot->request->slot == slot);
		list_for (slot, &pool->slots[SLOT_IDLE], node) {
			CHECK(!slot->request);
			CHECK(pipeline_is_settled(&slot_server(slot)->pipeline));
			CHECK(slot_server(slot)->is_ready);
			CHECK(!slot_server(slot)->conn.is_doomed);
		}
	}
}

static void fixture_step(struct fixture *w)
{
	struct front *f = &w->fronts[pick(CLIENTS)];
	front_step(w, f);
	for (unsigned i = 0; i < CLIENTS; i++) {
		front_send(&w->fronts[i], pick(3) ? pick(40) : 5000);
		front_hear(w, &w->fronts[i]);
	}
	servers_step(w);
	pause_step(w);
	stage_turn(w->stage);
	check_pool(w);
}

/* Every client gets the answers it still waits for. */
static void fixture_finish(struct fixture *w)
{
	w->is_paused = w->stage->site.catalog->paused = false;
	catalog_schedule_all(w->stage->site.catalog, NULL);
	for (unsigned left = CLIENTS, patience = 30000; left > 0; patience--) {
		CHECK(patience > 0);
		left = 0;
		for (unsigned i = 0; i < CLIENTS; i++) {
			struct front *f = &w->fronts[i];
			if (!f->peer)
				continue;
			watch_on(f->peer->watch);
			front_send(f, 5000);
			front_hear(w, f);
			if (f->peer && f->in_block && !f->out.len) {
				say_query(f, "commit");
				f->in_block = false;
			}
			left += f->peer && !f->is_leaving &&
				(f->readies < f->wanted || f->out.len || !f->is_in);
		}
		servers_step(w);
		stage_turn(w->stage);
	}
}

static bool has_forgotten(const struct pool *pool)
{
	return list_is_empty(&pool->clients) && list_is_empty(&pool->waiting) &&
	       list_is_empty(&pool->slots[SLOT_ACTIVE]);
}

static void fixture_end(struct fixture *w)
{
	struct stage *stage = w->stage;
	struct peer *peer, *next;
	for (unsigned i = 0; i < CLIENTS; i++)
		front_go(&w->fronts[i]);
	stage->site.catalog->paused = false;
	catalog_schedule_all(stage->site.catalog, NULL);
	struct pool *pool = stage_pool(stage);
	/* A lost connection with unread bytes is noticed only when it is read; and a
	 * turn is much shorter than the time between two attempts to connect. */
	for (unsigned i = 0; !has_forgotten(pool); i++) {
		CHECK(i < 2000000);
		servers_step(w);
		stage_turn(stage);
	}
	list_for_safe (peer, next, &stage->peers, node)
		if (peer->ctx)
			backend_free(peer);
	stage_free(&w->stage);
}

static void run(void)
{
	static const char *const settings[] = {"", "pool_mode = session\n",
	    "server_reset_query_always = 1\n", "server_round_robin = 1\n"};
	struct fixture *w = mem_zero(sizeof(*w));
	char options[32];
	snprintf(options, sizeof(options), "pool_size=%u", 1 + pick(3));
	w->may_lose = pick(2);
	w->stage = stage_new(options, settings[pick(4)]);
	/* in session mode, clients that stay would keep all servers from the others */
	for (step_number = 0; step_number < STEPS; step_number++)
		fixture_step(w);
	if (pool_mode(stage_pool(w->stage)) != POOL_MODE_SESSION)
		fixture_finish(w);
	fixture_end(w);
	mem_free(w);
}

int main(int argc, char **argv)
{
	unsigned long seed =
	    argc > 1 ? strtoul(argv[1], NULL, 0) : (unsigned long)time(NULL);
	printf("seed %lu\n", seed);
	fflush(stdout);
	random_state = seed * 2654435761u + 88172645463325252u;
	for (run_number = 0; run_number < RUNS; run_number++)
		run();
	printf("%u rows, %u cancels hit, %u servers killed\n", rows_seen, cancels_hit,
	    servers_killed);
	return 0;
}
