/* links: login relay handoff cancel broker session pool wire auth net conf base */
/*
 * Clients who are not in the user list connect, authenticate and disconnect in any
 * order, while the servers that run auth_query answer at any time, fail or die,
 * passwords change, and the configuration is reloaded.  A client with the right
 * password gets in, also when a cached answer is out of date; one with a wrong password
 * never does; in the end no client, server or memory is left.
 */
#include "../unit/stage/stage.c"
#include "prop.h"

enum { STEPS = 500, RUNS = 60, CLIENTS = 12, NAMES = 3, SERVERS = 64 };

static uint64_t random_state;
static unsigned let_in, kept_out, queries, deaths;

static unsigned pick(unsigned n)
{
	return (unsigned)(random_next(&random_state) >> 33) % n;
}

struct front {
	struct peer *peer; /* NULL: nobody */
	unsigned name;
	bool is_wrong, is_unsure;
	bool has_sent;
	char password[32];
};

struct back {
	struct peer *peer; /* NULL: none */
	bool is_due;       /* its query waits for an answer */
	char name[16], secret[32];
};

struct fixture {
	struct stage *stage;
	struct front fronts[CLIENTS];
	struct back backs[SERVERS];
	unsigned versions[NAMES];
	bool may_lose;
};

static void put_secret(const struct fixture *w, unsigned name, char out[32])
{
	snprintf(out, 32, "secret%u-%u", name, w->versions[name]);
}

/* ---- clients ---- */

static void front_come(struct fixture *w, struct front *f)
{
	char user[8];
	f->name = pick(NAMES);
	f->is_wrong = pick(3) == 0;
	f->is_unsure = f->has_sent = false;
	put_secret(w, f->name, f->password);
	if (f->is_wrong)
		snprintf(f->password, sizeof(f->password), "wrong");
	snprintf(user, sizeof(user), "w%u", f->name);
	f->peer = stage_client(w->stage);
	peer_start(f->peer, user, "d", NULL, NULL);
}

static void front_judge(const struct fixture *w, const struct front *f, bool is_in)
{
	const char *told = buf_text(&f->peer->text);
	bool was_lost = w->may_lose && !strstr(told, "password authentication failed");
	if (is_in) {
		CHECK(!f->is_wrong);
		let_in++;
	} else {
		CHECK(f->is_wrong || f->is_unsure || was_lost);
		CHECK(!f->is_wrong || was_lost || f->has_sent);
		kept_out++;
	}
}

static void front_step(const struct fixture *w, struct front *f)
{
	uint8_t type = 0;
	if (!f->peer)
		return;
	buf_clear(&f->peer->text);
	while (f->peer && (type = peer_take(f->peer)) != 0) {
		if (type == 'R' && !f->has_sent) {
			peer_text(f->peer, 'p', f->password);
			f->has_sent = true;
		} else if (type == 'E' || type == 'Z') {
			front_judge(w, f, type == 'Z');
			peer_close(f->peer);
			f->peer = NULL;
		}
	}
}

/* ---- servers ---- */

static struct back *back_new(struct fixture *w, struct peer *peer)
{
	for (unsigned i = 0; i < SERVERS; i++) {
		if (w->backs[i].peer)
			continue;
		w->backs[i] = (struct back){.peer = peer};
		return &w->backs[i];
	}
	CHECK(!"too many servers");
	return NULL;
}

/* The name is the last text of a Bind before the count of result formats. */
static void back_read_bind(const struct fixture *w, struct back *b, const uint8_t *m)
{
	uint32_t len = get_u32(m + 5 + 2 + 2 + 2);
	CHECK(len < sizeof(b->name));
	memcpy(b->name, m + 5 + 2 + 2 + 2 + 4, len);
	b->name[len] = '\0';
	put_secret(w, (unsigned)(b->name[1] - '0'), b->secret);
}

static void back_read(const struct fixture *w, struct back *b)
{
	struct buf *in = &b->peer->in;
	size_t size;

	if (!b->peer->started) {
		if (in->len < 8 || in->len < get_u32(in->bytes))
			return;
		b->peer->started = get_u32(in->bytes + 4);
		buf_shift(in, get_u32(in->bytes));
		peer_greet(b->peer);
	}
	while ((size = peer_message(b->peer)) != 0) {
		CHECK(!b->is_due);
		if (in->bytes[0] == 'B')
			back_read_bind(w, b, in->bytes);
		else if (in->bytes[0] == 'S')
			b->is_due = true;
		else if (in->bytes[0] == 'Q')
			peer_answer(b->peer, "DISCARD ALL", 'I');
		buf_shift(in, size);
	}
}

static void back_answer(struct back *b)
{
	const struct codec_column columns[] = {{"n", 19, 64}, {"s", 25, -1}};
	struct buf out;
	size_t at;

	buf_init(&out, 0);
	codec_put_empty(&out, '1');
	codec_put_empty(&out, '2');
	codec_put_row_description(&out, columns, 2);
	at = codec_begin_row(&out, 2);
	codec_put_field(&out, b->name);
	codec_put_field(&out, b->secret);
	codec_end_row(&out, at);
	codec_put_command_complete(&out, "SELECT 1");
	codec_put_ready(&out, 'I');
	peer_send(b->peer, out.bytes, out.len);
	buf_done(&out);
	b->is_due = false;
	queries++;
}

static void back_die(struct back *b)
{
	peer_close(b->peer);
	b->peer = NULL;
	deaths++;
}

static void back_fail(struct back *b)
{
	struct buf out;
	buf_init(&out, 0);
	codec_put_error(&out, "ERROR", "XX000", "broken", NULL, NULL);
	peer_send(b->peer, out.bytes, out.len);
	buf_done(&out);
	b->is_due = false;
}

static void back_step(const struct fixture *w, struct back *b, bool is_at_once)
{
	if (!b->peer)
		return;
	if (b->peer->has_ended) {
		peer_close(b->peer);
		b->peer = NULL;
		return;
	}
	back_read(w, b);
	if (!b->is_due || (!is_at_once && pick(4)))
		return;
	if (is_at_once || !w->may_lose || pick(10))
		back_answer(b);
	else if (pick(2))
		back_die(b);
	else
		back_fail(b);
}

/* ---- the run ---- */

static void fixture_servers(struct fixture *w, bool is_at_once)
{
	struct node *n;
	while ((n = list_pop_front(&w->stage->fresh)))
		back_new(w, container_of(n, struct peer, fresh_node));
	for (unsigned i = 0; i < SERVERS; i++)
		back_step(w, &w->backs[i], is_at_once);
}

static void fixture_change(struct fixture *w)
{
	unsigned name = pick(NAMES);
	w->versions[name]++;
	for (unsigned i = 0; i < CLIENTS; i++)
		if (w->fronts[i].peer && w->fronts[i].name == name)
			w->fronts[i].is_unsure = true;
}

static void fixture_step(struct fixture *w)
{
	struct front *f = &w->fronts[pick(CLIENTS)];
	unsigned what = pick(100);

	if (what < 60) {
		if (!f->peer)
			front_come(w, f);
	} else if (what < 70) {
		if (f->peer) {
			peer_close(f->peer);
			f->peer = NULL;
		}
	} else if (what < 75) {
		fixture_change(w);
	} else if (what < 77) {
		stage_users(w->stage, "\"u\" \"\"\n");
	} else if (what < 79) {
		catalog_mark_dirty(w->stage->site.catalog, NULL);
	}
	stage_turn(w->stage);
	fixture_servers(w, false);
	for (unsigned i = 0; i < CLIENTS; i++)
		if (pick(2))
			front_step(w, &w->fronts[i]);
}

static bool has_clients(const struct fixture *w)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		if (w->fronts[i].peer)
			return true;
	return false;
}

/* Answers everything that waits; sleeps a little so that the helper thread can run. */
static void fixture_finish(struct fixture *w)
{
	static const struct timespec nap = {.tv_nsec = 300000};

	for (unsigned i = 0; has_clients(w); i++) {
		CHECK(i < 200000);
		stage_turn(w->stage);
		if (i % 32 == 31)
			nanosleep(&nap, NULL);
		fixture_servers(w, true);
		for (unsigned k = 0; k < CLIENTS; k++)
			front_step(w, &w->fronts[k]);
	}
}

static void run(void)
{
	static const char *const settings[] = {"", "pool_mode = session\n",
	    "auth_query_cache_time = 60\n", "auth_query_cache_time = 0.005\n"};
	struct fixture *w = mem_zero(sizeof(*w));
	char options[64], lines[128];

	snprintf(options, sizeof(options), "pool_size=%u auth_user=u", 1 + pick(3));
	snprintf(lines, sizeof(lines), "auth_type = plain\nscram_iterations = 1\n%s",
	    settings[pick(4)]);
	w->may_lose = pick(2);
	w->stage = stage_new(options, lines);
	for (step_number = 0; step_number < STEPS; step_number++)
		fixture_step(w);
	/* one run in four ends while clients and servers are still busy */
	if (pick(4))
		fixture_finish(w);
	stage_free(&w->stage);
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
	printf("%u let in, %u kept out, %u queries, %u deaths\n", let_in, kept_out,
	    queries, deaths);
	return 0;
}
