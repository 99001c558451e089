/* links: pool wire auth net conf base */
/*
 * The pools of several workers in one thread: random clients and servers, and letters
 * between the workers that arrive in any order but that of each pair.  After each step
 * no limit is exceeded over all, what workers tell each other of their servers is true,
 * and no server is lent twice.  From time to time, and at the end, everybody is left
 * alone until all is said: then no client waits for a server that rests elsewhere, or
 * while there is room for another one.  At the end nobody waits, and nothing is on its
 * way.
 */
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "pool/catalog.h"
#include "pool/pool.h"
#include "pool/pool_effective.h"
#include "pool/wishes.h"
#include "prop.h"

enum {
	RUNS = 200,
	STEPS = 1500,
	PARTS = 4,
	CLIENTS = 24,
	SERVERS = 48,
	KICKS = 64,
	SECOND = 1000000,
	/* Longer than anybody waits for an answer, or leaves room to others. */
	CALM_US = 60000,
};

static const char *const database_names[] = {"a", "b", "c"};
static const char *const user_names[] = {"u1", "u2"};
enum { DATABASES = 3, USERS = 2, POOLS = DATABASES * USERS };

static const int db_limits[DATABASES] = {0, 3, 5};
static const int pool_sizes[DATABASES] = {2, 3, 4};
static const int user_limits[USERS] = {4, 0};
static const char ini_format[] = "[databases]\n"
				 "a = pool_size=2\n"
				 "b = pool_size=3 max_db_connections=3\n"
				 "c = pool_size=4 max_db_connections=5\n"
				 "[users]\n"
				 "u1 = max_user_connections=4\n"
				 "[pgbouncer]\n"
				 "pool_mode = transaction\n"
				 "server_check_query =\n"
				 "server_login_retry = 1\n"
				 "max_server_connections = %d\n";

struct client {
	struct ask ask;
	unsigned part;
};

struct server {
	struct seat seat;
	unsigned part, pool; /* where it is, or goes to; number of its pool */
	bool is_used;        /* it exists, also on its way */
	bool is_handed;      /* it has left its pool, and is not on its way yet */
	bool is_closing;     /* it is to be closed, and counts no more */
	unsigned to;         /* handed */
	struct seat was;     /* on its way */
	bool has_welcome;
};

enum letter_kind { LETTER_WISH, LETTER_SERVER, LETTER_WELCOME };

struct letter {
	struct node node;
	enum letter_kind kind;
	struct wish wish;
	struct server *server;
	unsigned from, pool; /* number of the pool that it is about */
	bool has_welcome;
};

struct part {
	struct mem mem;
	struct catalog *c;
	struct pool *kicked[KICKS];
	size_t kick_count;
};

/* pool->desk points to it. */
struct desk {
	uint64_t wake_us;
};

static struct world {
	uint64_t random, now;
	unsigned parts;
	int process_limit;
	struct tallies *tallies;
	struct part part[PARTS];
	struct list ways[PARTS][PARTS]; /* struct letter by .node, from and to */
	struct client clients[CLIENTS];
	struct server servers[SERVERS];
	unsigned grants, dials, hands, closed_for_others, losses, calms;
} w;

static unsigned any(unsigned n)
{
	return (unsigned)(random_next(&w.random) >> 16) % n;
}

static unsigned number_of_part(const struct part *part)
{
	return (unsigned)(part - w.part);
}

static unsigned number_of(const struct pool *pool)
{
	unsigned d = 0, u = 0;

	while (strcmp(database_names[d], pool->database->name) != 0)
		d++;
	while (strcmp(user_names[u], pool->user->name) != 0)
		u++;
	return d * USERS + u;
}

static const char *database_of(unsigned pool)
{
	return database_names[pool / USERS];
}

static const char *user_of(unsigned pool)
{
	return user_names[pool % USERS];
}

static struct pool *pool_of(struct part *part, unsigned pool)
{
	return catalog_pool(catalog_find_database(part->c, database_of(pool)),
	    catalog_user(part->c, user_of(pool)));
}

static struct desk *desk_of(struct pool *pool)
{
	if (!pool->desk) {
		pool->desk = calloc(1, sizeof(struct desk));
		pool->desk->wake_us = UINT64_MAX;
	}
	return pool->desk;
}

static struct server *server_of(struct seat *seat)
{
	return container_of(seat, struct server, seat);
}

/* ---- letters ---- */

static struct letter *post(unsigned from, unsigned to, enum letter_kind kind)
{
	struct letter *letter = calloc(1, sizeof(*letter));

	CHECK(from != to && to < w.parts);
	letter->kind = kind;
	letter->from = from;
	list_push_back(&w.ways[from][to], &letter->node);
	return letter;
}

static void on_kick(void *ctx, struct pool *pool)
{
	struct part *part = ctx;

	if (pool->is_kicked)
		return;
	CHECK(part->kick_count < KICKS);
	pool->is_kicked = true;
	part->kicked[part->kick_count++] = pool;
}

static void on_kill(void *ctx, struct pool *pool, const char *reason)
{
	(void)ctx, (void)pool, (void)reason;
	CHECK(!"nothing is killed here");
}

static const char *known_name(const char *const *names, const char *name)
{
	while (name && strcmp(*names, name) != 0)
		names++;
	return name ? *names : NULL;
}

static void on_wish(void *ctx, unsigned site, const struct wish *wish)
{
	struct letter *letter = post(number_of_part(ctx), site, LETTER_WISH);

	letter->wish = *wish;
	letter->wish.database = known_name(database_names, wish->database);
	letter->wish.user = known_name(user_names, wish->user);
}

static void send_welcome(const struct pool *pool, unsigned from, unsigned to)
{
	struct letter *letter = post(from, to, LETTER_WELCOME);

	letter->pool = number_of(pool);
	letter->has_welcome = pool->is_welcome_valid;
}

static void on_welcomed(void *ctx, struct pool *pool)
{
	unsigned from = number_of_part(ctx);

	for (unsigned i = 0; i < w.parts; i++)
		if (i != from && pool->tally->slots[i].wants_welcome)
			send_welcome(pool, from, i);
}

static void on_freed(void *ctx, struct pool *pool)
{
	struct part *part = ctx;
	size_t kept = 0;

	for (size_t i = 0; i < part->kick_count; i++)
		if (part->kicked[i] != pool)
			part->kicked[kept++] = part->kicked[i];
	part->kick_count = kept;
	free(pool->desk);
	pool->desk = NULL;
}

static const struct catalog_events events = {.kick = on_kick,
    .kill = on_kill,
    .wish = on_wish,
    .welcomed = on_welcomed,
    .freed = on_freed};

/* ---- checks ---- */

/* Counts against the limits: it is being opened, open, or on its way. */
static bool is_counted(const struct server *s)
{
	return s->is_used && !s->is_closing;
}

static void check_sum(
    enum tally_kind kind, const char *database, const char *user, int truth, int limit)
{
	struct tally *tally = tally_hold(w.tallies, kind, database, user);
	const struct tally_view view = {.tallies = w.tallies, .site_count = w.parts};

	CHECK(tally_servers(&view, tally) == truth);
	CHECK(limit <= 0 || truth <= limit);
	tally_release(w.tallies, &tally);
}

static void check_limits(void)
{
	int by_pool[POOLS] = {0}, by_db[DATABASES] = {0}, by_user[USERS] = {0};
	int total = 0;

	for (int i = 0; i < SERVERS; i++) {
		const struct server *s = &w.servers[i];
		if (!is_counted(s))
			continue;
		by_pool[s->pool]++;
		by_db[s->pool / USERS]++;
		by_user[s->pool % USERS]++;
		total++;
	}
	for (unsigned i = 0; i < POOLS; i++)
		check_sum(TALLY_POOL, database_of(i), user_of(i), by_pool[i],
		    pool_sizes[i / USERS]);
	for (unsigned i = 0; i < DATABASES; i++)
		check_sum(
		    TALLY_DATABASE, database_names[i], NULL, by_db[i], db_limits[i]);
	for (unsigned i = 0; i < USERS; i++)
		check_sum(TALLY_USER, NULL, user_names[i], by_user[i], user_limits[i]);
	check_sum(TALLY_PROCESS, NULL, NULL, total, w.process_limit);
}

/* What others look at is what is there. */
static void check_slots(void)
{
	for (unsigned i = 0; i < w.parts; i++) {
		struct pool *pool;
		list_for (pool, &w.part[i].c->pool_list, node) {
			struct tally_slot *slot = &pool->tally->slots[i];
			struct node *first = list_first(&pool->seekers);
			CHECK(slot->resting == (int)(pool->seats[SEAT_IDLE].count +
						     pool->seats[SEAT_USED].count));
			CHECK(slot->connected == (int)pool_connected_count(pool));
			CHECK(slot->waiting_us ==
			      (first ? container_of(first, struct ask, kind_node)
					   ->queued_us
				     : 0));
			CHECK(slot->has_welcome == pool->is_welcome_valid);
			CHECK(slot->wants_welcome == !list_is_empty(&pool->newcomers));
		}
	}
}

static void check_links(void)
{
	for (int i = 0; i < CLIENTS; i++) {
		const struct client *c = &w.clients[i];
		CHECK((c->ask.state == ASK_LINKED) == (c->ask.seat != NULL));
		CHECK(!c->ask.seat || c->ask.seat->ask == &c->ask);
	}
	for (int i = 0; i < SERVERS; i++) {
		const struct server *s = &w.servers[i];
		CHECK(!s->seat.ask || s->seat.ask->seat == &s->seat);
		CHECK(!s->seat.ask || s->seat.state == SEAT_ACTIVE);
	}
}

static void check_all(void)
{
	check_limits();
	check_slots();
	check_links();
}

/* ---- carrying out verdicts ---- */

static struct server *unused_server(void)
{
	for (int i = 0; i < SERVERS; i++) {
		if (!w.servers[i].is_used) {
			w.servers[i] = (struct server){.is_used = true};
			return &w.servers[i];
		}
	}
	CHECK(!"more servers than ever should be needed");
	return NULL;
}

static void dial(struct part *part, struct pool *pool)
{
	struct server *s = unused_server();

	s->part = number_of_part(part);
	s->pool = number_of(pool);
	pool_dialing(pool, &s->seat, w.now);
	w.dials++;
}

static void close_server(struct server *s)
{
	struct pool *pool = s->seat.pool;

	pool_gone(&s->seat, w.now);
	s->is_used = false;
	pool_free_if_unused(pool);
}

static void check_grant(const struct verdict *v)
{
	const struct server *s = server_of(v->seat);

	CHECK(s->is_used && !s->is_handed && !s->is_closing);
	CHECK(v->seat->state == SEAT_ACTIVE && v->seat->ask == v->ask);
	CHECK(v->ask->state == ASK_LINKED && v->ask->seat == v->seat);
	CHECK(container_of(v->ask, struct client, ask)->part == s->part);
	w.grants++;
}

static void carry(struct part *part, struct pool *pool, const struct verdict *v)
{
	switch (v->kind) {
	case VERDICT_GRANT:
		check_grant(v);
		break;
	case VERDICT_DIAL:
		CHECK(!v->is_replication && !v->is_reserve);
		dial(part, pool);
		break;
	case VERDICT_RETIRE:
		server_of(v->seat)->is_closing = true;
		w.closed_for_others += strcmp(v->text, "evicted") == 0;
		break;
	case VERDICT_HAND:
		CHECK(v->site < w.parts && v->site != number_of_part(part));
		CHECK(!v->seat->ask && v->seat->state == SEAT_NONE);
		server_of(v->seat)->is_handed = true;
		server_of(v->seat)->to = v->site;
		break;
	case VERDICT_ADMIT:
		CHECK(pool->is_welcome_valid);
		v->ask->is_logged_in = true;
		break;
	case VERDICT_CHECK:
	case VERDICT_RESET:
	case VERDICT_PARK:
		CHECK(!"nothing asks for that");
		break;
	case VERDICT_REFUSE: /* the last connection has failed */
		CHECK(v->ask->state == ASK_RESTING);
		break;
	case VERDICT_REST:
	case VERDICT_WAIT:
	case VERDICT_NONE:
		break;
	}
}

static void serve(struct part *part, struct pool *pool)
{
	struct verdict v;

	desk_of(pool)->wake_us = UINT64_MAX;
	for (unsigned steps = 0;; steps++) {
		CHECK(steps < 2 * (CLIENTS + SERVERS));
		v = pool_next(pool, w.now);
		if (v.kind == VERDICT_NONE)
			break;
		carry(part, pool, &v);
		check_limits();
	}
	CHECK(v.wake_us > w.now);
	pool->desk->wake_us = v.wake_us;
}

static void serve_kicked(struct part *part, size_t i)
{
	struct pool *pool = part->kicked[i];

	memmove(&part->kicked[i], &part->kicked[i + 1],
	    (--part->kick_count - i) * sizeof(part->kicked[0]));
	pool->is_kicked = false;
	serve(part, pool);
}

static void serve_woken(struct part *part)
{
	struct pool *pool, *after;

	list_for_safe (pool, after, &part->c->pool_list, node)
		if (desk_of(pool)->wake_us <= w.now)
			serve(part, pool);
}

/* ---- letters arrive ---- */

static void hear(struct part *part, const struct wish *wish)
{
	struct verdict v = wishes_hear(part->c, wish, w.now);

	carry(part, v.seat ? v.seat->pool : NULL, &v);
	/* The server that comes is the answer. */
	if (v.kind == VERDICT_HAND && v.site == wish->from)
		return;
	if (wish->kind != WISH_SERVER && wish->kind != WISH_WELCOME)
		return;
	struct pool *pool = wishes_pool(part->c, wish->database, wish->user);
	if (pool)
		send_welcome(pool, number_of_part(part), wish->from);
}

static void take_server(struct part *part, const struct letter *letter)
{
	struct server *s = letter->server;
	struct pool *pool = pool_of(part, s->pool);
	struct verdict v;

	s->is_closing = any(20) == 0;
	if (s->is_closing) {
		s->is_used = false;
		wishes_lost(
		    part->c, database_of(s->pool), user_of(s->pool), letter->from);
		w.losses++;
		return;
	}
	if (s->has_welcome && !pool->is_welcome_valid)
		pool_welcomed(pool);
	s->part = number_of_part(part);
	s->seat = (struct seat){.state = SEAT_NONE};
	pool_move_in(pool, &s->seat, NULL, &s->was, NULL, 5432, w.now);
	v = pool_review(&s->seat, w.now);
	carry(part, pool, &v);
}

static void open_letter(struct part *part, struct letter *letter)
{
	struct pool *pool;

	switch (letter->kind) {
	case LETTER_WISH:
		hear(part, &letter->wish);
		return;
	case LETTER_SERVER:
		take_server(part, letter);
		break;
	case LETTER_WELCOME:
		pool = pool_of(part, letter->pool);
		if (letter->has_welcome && !pool->is_welcome_valid)
			pool_welcomed(pool);
		break;
	}
	pool = wishes_pool(part->c, database_of(letter->pool), user_of(letter->pool));
	if (pool)
		wishes_answered(pool);
}

static void deliver(unsigned from, unsigned to)
{
	struct node *first = list_first(&w.ways[from][to]);

	if (!first)
		return;
	list_remove(&w.ways[from][to], first);
	struct letter *letter = container_of(first, struct letter, node);
	open_letter(&w.part[to], letter);
	free(letter);
}

static void send_off(struct server *s)
{
	struct letter *letter;
	struct pool *pool = s->seat.pool;

	s->is_handed = false;
	if (any(20) == 0) {
		/* It cannot be described: it closes like any other. */
		s->is_closing = true;
		close_server(s);
		w.losses++;
		return;
	}
	letter = post(s->part, s->to, LETTER_SERVER);
	letter->server = s;
	letter->pool = s->pool;
	s->was = s->seat;
	s->was.state = s->seat.carried_as;
	s->was.is_carried = true;
	s->was.carried_from = s->part;
	s->has_welcome = pool->is_welcome_valid;
	pool_carried(&s->seat);
	pool_gone(&s->seat, w.now);
	pool_free_if_unused(pool);
	w.hands++;
}

/* ---- what clients and servers do ---- */

static void client_comes(struct client *c)
{
	struct part *part = &w.part[any(w.parts)];
	struct verdict v;

	c->part = number_of_part(part);
	c->ask = (struct ask){.is_logged_in = true};
	pool_join(pool_of(part, any(POOLS)), &c->ask);
	c->ask.last_us = c->ask.query_us = w.now;
	v = pool_ask(&c->ask, any(5) ? ASK_QUERY : ASK_WELCOME, w.now);
	carry(part, c->ask.pool, &v);
}

static void give_back(struct server *s)
{
	struct part *part = &w.part[s->part];
	struct pool *pool = s->seat.pool;
	struct verdict v = pool_give(&s->seat, w.now);

	carry(part, pool, &v);
}

static void client_acts(struct client *c, bool is_patient)
{
	struct verdict v;

	switch (c->ask.state) {
	case ASK_OUTSIDE:
		client_comes(c);
		break;
	case ASK_RESTING:
		if (any(2)) {
			pool_part(&c->ask);
			break;
		}
		c->ask.last_us = c->ask.query_us = w.now;
		v = pool_ask(&c->ask, ASK_QUERY, w.now);
		carry(&w.part[c->part], c->ask.pool, &v);
		break;
	case ASK_WAITING:
		if (!is_patient)
			pool_part(&c->ask);
		break;
	case ASK_LINKED:
		give_back(server_of(c->ask.seat));
		break;
	}
}

static void logs_in(struct server *s)
{
	struct pool *pool = s->seat.pool;

	if (!pool->is_welcome_valid)
		pool_welcomed(pool);
	struct verdict v = pool_logged_in(&s->seat, w.now);
	carry(&w.part[s->part], pool, &v);
}

/* What becomes of it by itself. */
static void server_acts(struct server *s, bool is_lucky)
{
	if (!s->is_used || !s->seat.pool)
		return;
	if (s->is_handed) {
		send_off(s);
	} else if (s->is_closing) {
		close_server(s);
	} else if (s->seat.state == SEAT_LOGIN) {
		if (is_lucky || any(8)) {
			logs_in(s);
			return;
		}
		s->is_closing = true;
		pool_dial_failed(
		    &s->seat, DIAL_NETWORK, "connect failed", "08006", w.now);
	} else if (!is_lucky && any(40) == 0) {
		/* It dies. */
		s->is_closing = true;
		close_server(s);
	}
}

static void happen(void)
{
	struct part *part = &w.part[any(w.parts)];

	switch (any(10)) {
	case 0:
	case 1:
	case 2:
		client_acts(&w.clients[any(CLIENTS)], any(10) != 0);
		break;
	case 3:
	case 4:
		server_acts(&w.servers[any(SERVERS)], false);
		break;
	case 5:
	case 6:
		deliver(any(w.parts), any(w.parts));
		break;
	case 7:
		if (part->kick_count)
			serve_kicked(part, any((unsigned)part->kick_count));
		break;
	case 8:
		w.now += any(8) ? any(3000) : any(50000);
		break;
	default:
		serve_woken(part);
		break;
	}
}

/* ---- calm ---- */

/* Everything that is under way arrives. */
static bool has_settled_once(void)
{
	bool is_still = true;

	for (unsigned i = 0; i < w.parts; i++) {
		for (; w.part[i].kick_count; is_still = false)
			serve_kicked(&w.part[i], 0);
		for (unsigned k = 0; k < w.parts; k++)
			for (; !list_is_empty(&w.ways[i][k]); is_still = false)
				deliver(i, k);
	}
	for (int i = 0; i < SERVERS; i++) {
		struct server *s = &w.servers[i];
		if (!s->is_used || !s->seat.pool ||
		    !(s->is_handed || s->is_closing || s->seat.state == SEAT_LOGIN))
			continue;
		server_acts(s, true);
		is_still = false;
	}
	check_all();
	return is_still;
}

static void settle(void)
{
	for (unsigned i = 0; !has_settled_once(); i++)
		CHECK(i < 1000);
}

static void pass(uint64_t us)
{
	for (uint64_t end = w.now + us; w.now < end; w.now += 1000) {
		settle();
		for (unsigned i = 0; i < w.parts; i++)
			serve_woken(&w.part[i]);
	}
	settle();
}

static bool is_anybody_waiting(void)
{
	for (int i = 0; i < CLIENTS; i++)
		if (w.clients[i].ask.state == ASK_WAITING)
			return true;
	return false;
}

static bool has_room(struct pool *pool, unsigned number)
{
	const struct tally_view *view = &pool->database->catalog->view;
	int db_limit = db_limits[number / USERS];
	int user_limit = user_limits[number % USERS];

	return tally_servers(view, pool->tally) < pool_sizes[number / USERS] &&
	       (!db_limit || tally_servers(view, pool->database->tally) < db_limit) &&
	       (!user_limit || tally_servers(view, pool->user->tally) < user_limit) &&
	       (!w.process_limit ||
		   tally_servers(view, pool->database->catalog->tally) <
		       w.process_limit);
}

/* Nobody waits for what is there. */
static void check_calm(void)
{
	for (unsigned i = 0; i < w.parts; i++) {
		struct pool *pool;
		list_for (pool, &w.part[i].c->pool_list, node) {
			const struct tally_view *view = &w.part[i].c->view;
			if (list_is_empty(&pool->seekers))
				continue;
			CHECK(list_is_empty(&pool->seats[SEAT_IDLE]));
			CHECK(tally_find_resting(view, pool->tally) < 0);
			CHECK(pool->last_connect_failed ||
			      !has_room(pool, number_of(pool)));
		}
	}
	w.calms++;
}

static void everybody_is_served(void)
{
	for (int i = 0; is_anybody_waiting(); i++) {
		CHECK(i < 2000);
		for (int k = 0; k < CLIENTS; k++) {
			struct client *c = &w.clients[k];
			if (c->ask.state == ASK_LINKED)
				give_back(server_of(c->ask.seat));
			if (c->ask.state == ASK_RESTING)
				pool_part(&c->ask);
		}
		pass(10000);
	}
}

/* ---- runs ---- */

static struct config *load(int process_limit)
{
	char path[] = "/tmp/prop-workers-XXXXXX", ini[sizeof(ini_format) + 20];
	struct err err = {.text = ""};
	int fd = mkstemp(path);
	size_t len = (size_t)snprintf(ini, sizeof(ini), ini_format, process_limit);

	if (fd < 0 || write(fd, ini, len) != (ssize_t)len)
		abort();
	close(fd);
	struct config *config = config_load(path, NULL, NULL, NULL, &err);
	unlink(path);
	if (!config) {
		fprintf(stderr, "%s\n", err.text);
		abort();
	}
	return config;
}

static void begin(uint64_t seed, struct config *const *configs)
{
	struct config *config = configs[seed % 2];

	memset(&w, 0, sizeof(w));
	w.random = seed * 0x9e3779b97f4a7c15u + 1;
	w.now = 1000 * (uint64_t)SECOND;
	w.parts = 2 + any(PARTS - 1);
	w.process_limit = config->settings.max_server_connections;
	w.tallies = tallies_new(w.parts);
	for (unsigned i = 0; i < w.parts; i++) {
		struct part *part = &w.part[i];
		for (unsigned k = 0; k < w.parts; k++)
			list_init(&w.ways[i][k]);
		mem_init(&part->mem);
		part->c = catalog_new(&part->mem);
		part->c->events = &events;
		part->c->events_ctx = part;
		catalog_share(part->c, w.tallies, i, w.parts);
		catalog_adopt(part->c, config, NULL, NULL, NULL);
	}
}

static void end(void)
{
	for (int i = 0; i < SERVERS; i++) {
		struct server *s = &w.servers[i];
		if (!s->is_used)
			continue;
		/* It is where somebody can see it. */
		CHECK(s->seat.pool && !s->is_handed);
		s->is_closing = true;
		close_server(s);
	}
	for (int i = 0; i < CLIENTS; i++)
		pool_part(&w.clients[i].ask);
	check_all();
	for (unsigned i = 0; i < w.parts; i++) {
		for (unsigned k = 0; k < w.parts; k++)
			while (!list_is_empty(&w.ways[i][k]))
				deliver(i, k);
	}
	for (unsigned i = 0; i < w.parts; i++) {
		catalog_free(&w.part[i].c);
		CHECK(list_is_empty(&w.part[i].mem.slabs));
	}
	tallies_free(&w.tallies);
}

static void run(void)
{
	for (step_number = 1; step_number <= STEPS; step_number++) {
		happen();
		check_all();
		if (any(100) == 0) {
			pass(CALM_US);
			check_calm();
		}
	}
	everybody_is_served();
	pass(CALM_US);
	check_calm();
	end();
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL);
	struct config *configs[2] = {load(0), load(6)};
	unsigned grants = 0, dials = 0, hands = 0, evicted = 0, losses = 0, calms = 0;

	printf("seed %" PRIu64 "\n", seed);
	fflush(stdout);
	for (run_number = 0; run_number < RUNS; run_number++) {
		begin(seed + run_number, configs);
		run();
		grants += w.grants;
		dials += w.dials;
		hands += w.hands;
		evicted += w.closed_for_others;
		losses += w.losses;
		calms += w.calms;
	}
	printf("%u grants, %u dials, %u handed over, %u closed for others, %u lost on "
	       "the way, %u times calm\n",
	    grants, dials, hands, evicted, losses, calms);
	config_unref(&configs[0]);
	config_unref(&configs[1]);
	/* The test proves something only if enough has happened. */
	return grants > RUNS && dials > RUNS && hands > RUNS && evicted && losses ? 0
										  : 1;
}
