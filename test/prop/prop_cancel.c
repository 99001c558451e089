/* links: login relay handoff cancel broker session pool wire auth net conf base */
/*
 * Storms of cancel requests against a whole site, without cancel_wait_timeout, so that
 * no timeout hides a request that was forgotten.  Clients run queries that end only
 * when they are cancelled; servers accept late, refuse when their queue is full, close
 * before they read or long after; the connections that carry requests close early;
 * servers die, pools are paused, shrunk and told to reconnect meanwhile.  After that
 * every carrier is closed, and every query that still runs or waits can be cancelled.
 * Once with each engine.
 */
#include "../unit/stage/stage.c"
#include "net/net.h"
#include "prop.h"

enum {
	STEPS = 1500,
	RUNS = 40,
	CLIENTS = 8,
	CARRIERS = 200,
	GUARD_S = 60,
	ROUNDS = 60
};

static uint64_t random_state;
static unsigned cancels_sent, cancels_hit, cancels_late, servers_killed;

static unsigned pick(unsigned n)
{
	return (unsigned)(random_next(&random_state) >> 33) % n;
}

/* The other end of a server connection, or of one that carries a cancel request. */
struct back {
	bool is_messenger, is_slow;
	/* for a connection that carries a cancel request: number of its target
	 * server */
	uint32_t target;
};

struct front {
	struct peer *peer; /* NULL: not connected */
	bool is_in, is_pending;
};

struct fixture {
	struct stage *stage;
	struct front fronts[CLIENTS];
	struct peer *carriers[CARRIERS];
	bool is_quiet; /* messages are no longer lost, and servers answer at once */
};

/* ---- servers ---- */

static struct back *back_of(const struct peer *peer)
{
	return peer->ctx;
}

static void back_free(struct peer *peer)
{
	mem_free(peer->ctx);
	peer_close(peer);
}

static void serve(struct peer *peer)
{
	struct back *b = back_of(peer);
	size_t size;

	while (!b->is_slow && (size = peer_message(peer))) {
		const char *text = (const char *)peer->in.bytes + 5;
		bool is_query = peer->in.bytes[0] == 'Q';
		b->is_slow = is_query && strncmp(text, "slow", 4) == 0;
		buf_shift(&peer->in, size);
		if (is_query && !b->is_slow)
			peer_answer(peer, "DONE", 'I');
	}
}

/* A query is cancelled only while it runs; requests that come earlier have no
 * effect. */
static void hit(struct fixture *w, uint32_t number)
{
	struct peer *peer;

	list_for (peer, &w->stage->peers, node) {
		struct back *b = back_of(peer);
		if (!b || b->is_messenger || peer->number != number)
			continue;
		cancels_hit += b->is_slow;
		cancels_late += !b->is_slow;
		if (b->is_slow) {
			peer_put(peer, 'E', "SERROR\0C57014\0Mcanceled\0", 25);
			peer_ready(peer, 'I');
		}
		b->is_slow = false;
		return;
	}
}

static void greet(struct fixture *w, struct peer *peer)
{
	struct buf *in = &peer->in;
	bool is_rude = !w->is_quiet && pick(12) == 0;

	if (peer->has_ended || is_rude) {
		peer_close(peer);
		return;
	}
	if (in->len < 8 || in->len < get_u32(in->bytes))
		return;
	list_remove(&w->stage->fresh, &peer->fresh_node);
	struct back *b = peer->ctx = mem_zero(sizeof(*b));
	b->is_messenger = get_u32(in->bytes + 4) == STARTUP_CANCEL;
	if (b->is_messenger)
		b->target = get_u32(in->bytes + 8);
	buf_shift(in, get_u32(in->bytes));
	if (!b->is_messenger)
		peer_greet(peer);
}

static void step_back(struct fixture *w, struct peer *peer)
{
	struct back *b = back_of(peer);

	if (b->is_messenger) {
		if (!w->is_quiet && pick(8))
			return;
		if (w->is_quiet || pick(4))
			hit(w, b->target);
		back_free(peer);
	} else if (peer->has_ended) {
		back_free(peer);
	} else if (!w->is_quiet && pick(400) == 0) {
		servers_killed++;
		back_free(peer);
	} else {
		serve(peer);
	}
}

static void step_servers(struct fixture *w)
{
	struct peer *peer, *next;

	list_for_safe (peer, next, &w->stage->fresh, fresh_node)
		if (w->is_quiet || pick(2))
			greet(w, peer);
	list_for_safe (peer, next, &w->stage->peers, node)
		if (peer->ctx && (w->is_quiet || pick(2)))
			step_back(w, peer);
}

/* ---- clients ---- */

static void front_go(struct front *f)
{
	if (f->peer)
		peer_close(f->peer);
	*f = (struct front){0};
}

static void front_hear(struct front *f)
{
	size_t size;

	while ((size = peer_message(f->peer))) {
		const uint8_t *m = f->peer->in.bytes;
		if (m[0] == 'K') {
			f->peer->key_len = size - 5;
			memcpy(f->peer->key, m + 5, f->peer->key_len);
		}
		if (m[0] == 'Z') {
			f->is_pending = false;
			f->is_in = true;
		}
		buf_shift(&f->peer->in, size);
	}
	if (f->peer->has_ended)
		front_go(f);
}

static void front_come(struct fixture *w, struct front *f)
{
	static const char *const names[] = {"one", "two", "three"};

	f->peer = stage_client(w->stage);
	peer_start(f->peer, "u", "d", "application_name", names[pick(3)]);
}

static void step_front(struct fixture *w, struct front *f)
{
	if (!f->peer)
		front_come(w, f);
	else if (pick(60) == 0)
		front_go(f);
	else if (f->is_in && !f->is_pending && pick(2)) {
		peer_text(f->peer, 'Q', pick(6) ? "slow" : "quick");
		f->is_pending = true;
	}
}

static void hear_all(struct fixture *w)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		if (w->fronts[i].peer)
			front_hear(&w->fronts[i]);
}

/* ---- cancel requests ---- */

static void carrier_go(struct peer **carrier)
{
	peer_close(*carrier);
	*carrier = NULL;
}

static unsigned carriers_left(struct fixture *w)
{
	unsigned left = 0;

	for (unsigned i = 0; i < CARRIERS; i++) {
		if (w->carriers[i] && w->carriers[i]->has_ended)
			carrier_go(&w->carriers[i]);
		left += w->carriers[i] != NULL;
	}
	return left;
}

static void cancel(struct fixture *w, const struct front *f)
{
	struct peer **carrier = w->carriers;
	struct buf b;

	for (unsigned i = 0; i < CARRIERS && *carrier; i++)
		carrier = &w->carriers[i];
	if (*carrier || !f->is_in)
		return;
	cancels_sent++;
	*carrier = stage_client(w->stage);
	buf_init(&b, 0);
	codec_put_cancel_request(&b, f->peer->key, f->peer->key_len);
	peer_send(*carrier, b.bytes, b.len);
	buf_done(&b);
	if (!w->is_quiet && pick(4) == 0)
		carrier_go(carrier);
}

static void storm(struct fixture *w)
{
	for (unsigned i = 1 + pick(40); i; i--)
		cancel(w, &w->fronts[pick(CLIENTS)]);
}

/* ---- administration ---- */

static void pause_pools(struct fixture *w, bool is_paused)
{
	w->stage->site.catalog->paused = is_paused;
	catalog_schedule_all(w->stage->site.catalog, NULL);
}

static void step_admin(struct fixture *w)
{
	char size[2] = {(char)('1' + pick(4)), 0};

	switch (pick(120)) {
	case 0:
		pause_pools(w, pick(2));
		break;
	case 1:
		catalog_mark_dirty(w->stage->site.catalog, NULL);
		break;
	case 2:
		stage_set(w->stage, "default_pool_size", size);
		stage_review(w->stage);
		break;
	}
}

/* Servers stop and start accepting, with a short or a long listen queue. */
static void step_listener(struct fixture *w)
{
	if (pick(30) == 0)
		watch_off(w->stage->listener);
	else if (pick(10) == 0)
		watch_on(w->stage->listener);
	if (pick(40) == 0)
		listen(w->stage->listener_fd, pick(2) ? 1000 : 2);
}

/* ---- the run ---- */

static void step(struct fixture *w)
{
	step_front(w, &w->fronts[pick(CLIENTS)]);
	if (pick(20) == 0)
		storm(w);
	step_servers(w);
	step_admin(w);
	step_listener(w);
	stage_turn(w->stage);
	hear_all(w);
	carriers_left(w);
}

static void tell_and_stop(struct fixture *w, const char *what)
{
	const struct pool *pool = stage_pool(w->stage);

	fprintf(stderr, "%s: %zu waiting, %zu active, %zu servers\n", what,
	    pool->cancels_waiting.count, pool->cancels_active.count,
	    pool_server_count(pool));
	CHECK(!"a cancel request stands still");
}

static unsigned jobs_left(struct fixture *w)
{
	const struct pool *pool = stage_pool(w->stage);

	return (unsigned)(pool->cancels_waiting.count + pool->cancels_active.count);
}

/* Queries do not end by themselves here.  A carrier closes when its cancel request has
 * ended; a request whose carrier has closed goes on without it. */
static void wait_for_all(struct fixture *w, unsigned (*are_left)(struct fixture *w))
{
	static const struct timespec nap = {.tv_nsec = 300000};
	time_t end = time(NULL) + GUARD_S;

	for (unsigned i = 1; are_left(w); i++) {
		step_servers(w);
		stage_turn(w->stage);
		hear_all(w);
		if (i % 32 == 0)
			nanosleep(&nap, NULL);
		if (time(NULL) > end)
			tell_and_stop(w, "some are left");
	}
}

static unsigned cancel_all(struct fixture *w)
{
	unsigned count = 0;

	for (unsigned i = 0; i < CLIENTS; i++) {
		count += w->fronts[i].is_pending;
		if (w->fronts[i].is_pending)
			cancel(w, &w->fronts[i]);
	}
	return count;
}

static void settle(struct fixture *w)
{
	for (int i = 0; i < 20; i++) {
		step_servers(w);
		stage_turn(w->stage);
		hear_all(w);
	}
}

static void finish(struct fixture *w)
{
	w->is_quiet = true;
	listen(w->stage->listener_fd, 1000);
	watch_on(w->stage->listener);
	wait_for_all(w, carriers_left);
	/* a request that comes before its query has begun does nothing, so several
	 * rounds may be needed */
	for (unsigned round = 0; settle(w), cancel_all(w) > 0; round++) {
		CHECK(round < ROUNDS);
		wait_for_all(w, carriers_left);
	}
	wait_for_all(w, jobs_left);
}

static void end(struct fixture *w)
{
	struct peer *peer, *next;

	pause_pools(w, false);
	for (unsigned i = 0; i < CLIENTS; i++)
		front_go(&w->fronts[i]);
	settle(w);
	list_for_safe (peer, next, &w->stage->peers, node)
		if (peer->ctx)
			back_free(peer);
	stage_free(&w->stage);
}

static void run(bool is_on_ring)
{
	static const char *const modes[] = {"", "pool_mode = session\n",
	    "server_reset_query_always = 1\n", "client_disconnect = cancel\n"};
	struct fixture *w = mem_zero(sizeof(*w));
	char settings[256];
	struct err err;

	snprintf(settings, sizeof(settings),
	    "listen_backlog = 1000\ncancel_wait_timeout = 0\n"
	    "server_connect_timeout = 0\nquery_wait_timeout = 0\ndefault_pool_size = "
	    "%u\nreserve_pool_size = %u\n"
	    "reserve_pool_timeout = 0.001\n%s",
	    1 + pick(3), pick(4), modes[pick(4)]);
	w->stage = stage_new("", settings);
	if (is_on_ring && net_start_ring(&w->stage->site.net, NULL, NULL, &err) < 0)
		printf("io_uring is not tested: %s\n", err.text);
	for (step_number = 0; step_number < STEPS; step_number++)
		step(w);
	finish(w);
	end(w);
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
		run(run_number % 2);
	printf("%u cancels sent, %u hit, %u too early, %u servers killed\n",
	    cancels_sent, cancels_hit, cancels_late, servers_killed);
	return 0;
}
