/* links: pool wire auth net conf base */
/*
 * Random clients, servers, cancel requests and administrators against the pools of one
 * process with one to four workers: PAUSE, SUSPEND, RESUME, RECONNECT, KILL, DISABLE,
 * ENABLE, and RELOAD with other limits, databases, hosts and settings.  At times one
 * thread stands still, between two events or before a lock, or a view is read, for
 * which no server may be opened or go elsewhere.
 *
 * No limit is exceeded at any moment, what is counted is true, and each verdict is one
 * that may be given then (verdicts.c, checks.c); with one worker also no other verdict
 * is owed to anybody (alone.c).  From time to time, and at the end, no new events
 * happen until everything is delivered: then no client waits for a server that rests at
 * any worker that answers, or while there is room for another one, and servers beyond a
 * smaller limit are closed.  In some runs all clients ask again as soon as they were
 * served, and none of them waits for long.  At the end nobody waits, and nothing is on
 * its way.
 */
#include <time.h>

#include "base/map.h"
#include "prop_pool/model.h"

enum {
	RUNS = 150, /* half of them with one worker */
	RUSHES = 3, /* every so many runs with several and an administrator */
	STEPS = 1500,
	STEPS_ALONE = 1000,
	CLIENTS_OF_SEVERAL = 24,
};

struct fixture w;
const char *const database_names[DATABASES] = {
    "a", "b", "c", "d", "e", "auto1", "auto2"};
const char *const user_names[USERS] = {"u1", "u2", "u3", "f"};

/* ---- configurations ---- */

/* Of several workers; 0: no limit. */
struct snapshot {
	int sizes[3], reserves[3], least[3], dbs[3];
	int users[2];
	int process;
	int host; /* a change of it means that the servers of b are different ones */
	bool has_no_c;
};

/* Runs without an administrator have one of the first two. */
static const struct snapshot snapshots[] = {
    {{2, 3, 4}, {0}, {0}, {0, 3, 5}, {4, 0}, 0, 1, false},
    {{2, 3, 4}, {0}, {0}, {0, 3, 5}, {4, 0}, 6, 1, false},
    {{2, 3, 4}, {1, 0, 2}, {0, 2, 0}, {0, 4, 6}, {0, 4}, 0, 2, false},
    {{1, 2, 1}, {0, 1, 1}, {0, 0, 1}, {2, 2, 0}, {3, 2}, 4, 1, false},
    {{3, 1, 1}, {1, 1, 0}, {1, 1, 0}, {3, 0, 0}, {2, 0}, 9, 1, true},
    /* of one kind each */
    {{2, 3, 4}, {0}, {0}, {1, 2, 5}, {0}, 0, 1, false},
    {{2, 3, 4}, {0}, {0}, {0}, {1, 3}, 0, 1, false},
    {{2, 3, 4}, {0}, {0}, {0}, {0}, 4, 1, false},
    /* of two and three kinds */
    {{2, 3, 4}, {0}, {0}, {1, 2, 5}, {1, 3}, 0, 1, false},
    {{2, 3, 4}, {0}, {0}, {1, 2, 5}, {1, 3}, 4, 1, false},
};
enum { SNAPSHOTS = sizeof(snapshots) / sizeof(snapshots[0]), RUSH_SNAPSHOTS = 5 };
static const char ini_format[] = "[pgbouncer]\n"
				 "pool_mode = transaction\n"
				 "server_check_query = %s\n"
				 "server_check_delay = 0\n"
				 "server_login_retry = 1\n"
				 "reserve_pool_timeout = 0.02\n"
				 "max_server_connections = %d\n"
				 "[users]\n"
				 "u1 = max_user_connections=%d\n"
				 "u2 = max_user_connections=%d\n"
				 "[databases]\n";
static const char entry_format[] = "%s = dbname=%s%d pool_size=%d reserve_pool_size=%d "
				   "min_pool_size=%d max_db_connections=%d\n";

/* Of one worker.  With the second file c and e are gone, and a and the template have
 * other values; in the third the only limits are sizes and max_server_connections. */
static const char *const alone_inis[] = {
    "[databases]\n"
    "a = max_db_connections=4 host=h1,h2,h3 weight=2,1,1\n"
    "b = user=f password=x min_pool_size=2 pool_size=3\n"
    "c = reserve_pool_size=2 pool_size=2 host=h1,h2 "
    "load_balance_hosts=least-connections\n"
    "d = pool_size=0 host=h1,h2,h3 load_balance_hosts=random "
    "target_session_attrs=prefer-standby\n"
    "e = pool_size=3 host=h1,h2 "
    "target_session_attrs=read-write\n"
    "* = max_db_connections=3\n"
    "[users]\n"
    "u1 = max_user_connections=5\n"
    "u2 = pool_mode=session pool_size=1\n"
    "[pgbouncer]\n"
    "pool_mode = transaction\n"
    "default_pool_size = 4\n"
    "max_user_connections = 12\n"
    "server_lifetime = 30\n"
    "server_check_delay = 2\n"
    "server_idle_timeout = 40\n"
    "pool_idle_timeout = 30\n"
    "autodb_idle_timeout = 60\n",
    "[databases]\n"
    "a = max_db_connections=3 host=127.0.0.1\n"
    "b = user=f password=x min_pool_size=1 pool_size=2\n"
    "d = pool_size=0\n"
    "* = max_db_connections=2 host=127.0.0.1\n"
    "[pgbouncer]\n"
    "pool_mode = transaction\n"
    "default_pool_size = 2\n"
    "pool_idle_timeout = 30\n"
    "autodb_idle_timeout = 60\n",
    "[databases]\n"
    "a = min_pool_size=1\n"
    "b = user=f password=x min_pool_size=2 pool_size=3\n"
    "c = pool_mode=session min_pool_size=2\n"
    "* =\n"
    "[pgbouncer]\n"
    "pool_mode = transaction\n"
    "default_pool_size = 5\n"
    "max_server_connections = 8\n"
    "server_idle_timeout = 40\n"
    "pool_idle_timeout = 30\n"
    "autodb_idle_timeout = 60\n",
};
enum { ALONE = 2 * SNAPSHOTS, PLAIN = ALONE + 2, CONFIGS = PLAIN + 1 };
static struct config *configs[CONFIGS];

static struct config *load(const struct snapshot *l, bool has_check)
{
	struct buf ini;

	buf_init(&ini, 0);
	buf_printf(&ini, ini_format, has_check ? "select 1" : "", l->process,
	    l->users[0], l->users[1]);
	for (int i = 0; i < 3 - l->has_no_c; i++)
		buf_printf(&ini, entry_format, database_names[i], database_names[i],
		    i == 1 ? l->host : 0, l->sizes[i], l->reserves[i], l->least[i],
		    l->dbs[i]);
	struct config *config = prop_config(buf_text(&ini));
	buf_done(&ini);
	return config;
}

static void reload(unsigned snapshot)
{
	static unsigned last;
	const struct snapshot *l = &snapshots[snapshot], *before = &snapshots[last];
	struct order order = {.kind = ORDER_RELOAD, .database = DATABASES};

	order.config = config_ref(configs[snapshot + (w.has_check ? SNAPSHOTS : 0)]);
	order.renewed = (l->host != before->host ? 1u << 1 : 0) |
			(l->has_no_c != before->has_no_c ? 1u << 2 : 0);
	last = snapshot;
	command(order);
}

static void reload_with(const char *name, const char *value)
{
	struct config *config = config_with(w.worker[0].c->config, name, value, NULL);

	CHECK(config);
	command((struct order){
	    .kind = ORDER_RELOAD, .database = DATABASES, .config = config});
}

/* ---- administrators ---- */

static void settings_change(void)
{
	static const char *const limits[] = {"0", "1", "2", "4", "8", "12"};
	static const char *const changes[][2] = {
	    {"default_pool_size", "1"},
	    {"default_pool_size", "5"},
	    {"max_db_connections", "3"},
	    {"max_db_connections", "0"},
	    {"max_user_connections", "2"},
	    {"max_user_connections", "0"},
	    {"server_round_robin", "1"},
	    {"server_round_robin", "0"},
	    {"server_check_delay", "0"},
	    {"server_check_delay", "5"},
	    {"server_check_query", ""},
	    {"server_check_query", "select 1"},
	    {"server_reset_query_always", "1"},
	    {"server_reset_query_always", "0"},
	    {"min_pool_size", "1"},
	    {"min_pool_size", "0"},
	    {"reserve_pool_size", "1"},
	    {"reserve_pool_timeout", "2"},
	    {"server_login_retry", "3"},
	    {"max_waiting_clients", "2"},
	    {"max_waiting_clients", "0"},
	};
	enum { CHANGES = sizeof(changes) / sizeof(changes[0]) };
	unsigned i = any(CHANGES + 2);

	if (!is_alone())
		reload(any(SNAPSHOTS));
	else if (w.is_plain || any(6) == 0)
		reload_with("max_server_connections", limits[any(6)]);
	else if (i < CHANGES)
		reload_with(changes[i][0], changes[i][1]);
	else
		command((struct order){.kind = ORDER_RELOAD,
		    .database = DATABASES,
		    .config = config_ref(configs[ALONE + any(2)])});
}

void administrator_acts(void)
{
	struct order order = {.kind = (enum order_kind)any(ORDER_KINDS),
	    .database = any(w.databases + 1)};

	if (order.database == w.databases)
		order.database = DATABASES;
	order.suspends = any(4) == 0;
	order.refuses_waiting = order.database == DATABASES && any(4) == 0;
	if (order.kind == ORDER_RELOAD)
		settings_change();
	else
		command(order);
}

static void resume_all(void)
{
	for (unsigned i = 0; i <= DATABASES; i++) {
		command((struct order){.kind = ORDER_ENABLE, .database = i});
		command((struct order){.kind = ORDER_RESUME, .database = i});
	}
}

/* ---- runs ---- */

static void begin(uint64_t seed)
{
	memset(&w, 0, sizeof(w));
	w.random = seed * 0x9e3779b97f4a7c15u + 1;
	w.now = 1000 * (uint64_t)SECOND;
	w.workers = seed % 2 ? 1 : 2 + any(WORKERS - 1);
	w.clients = is_alone() ? CLIENTS : CLIENTS_OF_SEVERAL;
	w.databases = is_alone() ? DATABASES : 3;
	w.users = is_alone() ? USERS : 2;
	w.has_administrator = is_alone() || seed % 8 > 3;
	w.has_check = is_alone() || any(3) == 0;
	w.is_plain = is_alone() && seed % 3 == 0;
	w.central = central_new(w.workers);
	central_on_unresponsive(w.central, is_unresponsive, NULL);
	for (unsigned i = 0; i <= WORKERS; i++)
		for (unsigned k = 0; k < WORKERS; k++)
			list_init(&w.ways[i][k]);
	for (unsigned i = 0; i < w.workers; i++) {
		struct worker *worker = &w.worker[i];
		mem_init(&worker->mem);
		worker->c = catalog_new(&worker->mem);
		worker->c->events = &model_events;
		worker->c->events_ctx = worker;
		catalog_share(worker->c, w.central, i);
		worker->c->view.post = post_note;
		worker->c->view.post_ctx = worker;
	}
	if (is_alone())
		command((struct order){.kind = ORDER_RELOAD,
		    .database = DATABASES,
		    .config = config_ref(configs[w.is_plain ? PLAIN : ALONE])});
	else
		reload(seed / 2 % 2);
	settle();
}

static void end(void)
{
	for (int i = 0; i < w.servers_used; i++) {
		struct server *s = &w.servers[i];
		if (!s->is_used)
			continue;
		/* it must be in a pool, not lost */
		CHECK(s->slot.pool && !s->is_handed);
		close_server(s);
	}
	for (unsigned i = 0; i < w.clients; i++)
		if (w.client[i].request.pool)
			client_goes(&w.client[i]);
	check_all();
	for (unsigned i = 0; i < w.workers; i++)
		for (unsigned k = 0; k < w.workers; k++)
			while (deliver(i, k))
				;
	for (unsigned i = 0; i < w.workers; i++) {
		catalog_free(&w.worker[i].c);
		CHECK(list_is_empty(&w.worker[i].mem.slabs));
	}
	CHECK(map_count(w.central->by_name) == 0);
	central_free(&w.central);
}

static void run_alone(void)
{
	struct worker *worker = &w.worker[0];

	for (step_number = 1; step_number <= STEPS_ALONE; step_number++) {
		w.now++;
		happen();
		while (has_buried_one())
			;
		check_all();
		/* Sometimes several events happen before the scheduled pools are asked.
		 */
		if (any(3) == 0)
			continue;
		serve_woken(worker);
		while (worker->schedule_count)
			serve_scheduled(worker, 0);
		check_all();
		check_alone();
	}
	resume_all();
	for (unsigned i = 0; i < DATABASES; i++)
		monitor_tells(i, true);
}

static void run_several(void)
{
	for (step_number = 1; step_number <= STEPS; step_number++) {
		happen();
		check_all();
		/* often while one worker stands still */
		if (any(is_anybody_still() ? 40 : 100) == 0) {
			freeze(false);
			be_calm();
			w.is_calm = false;
		}
	}
	freeze(false);
	w.is_calm = true;
	for (unsigned i = 0; i < w.workers; i++)
		w.worker[i].is_still = false;
	if (w.has_administrator) {
		resume_all();
		reload(0);
	}
	pass(1000, 1000);
	if (w.has_administrator && any(RUSHES) == 0) {
		reload(SNAPSHOTS - 1 - any(RUSH_SNAPSHOTS));
		everybody_is_busy();
	}
}

static void run(void)
{
	if (is_alone())
		run_alone();
	else
		run_several();
	everybody_is_served();
	if (!is_alone())
		be_calm();
	end();
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL);
	static const char *const names[] = {"grants", "dials", "handed over", "evicted",
	    "lost on the way", "times calm", "of the reserve", "for min_pool_size",
	    "parked", "cancels", "outdated on the way", "pools killed", "too many",
	    "checks", "threads stopped", "views read", "for replication",
	    "interruptions", "refused", "by a full queue", "kept their least size",
	    "gave of it", "replaced", "abandoned"};
	enum { COUNTS = sizeof(struct counts) / sizeof(unsigned) };
	unsigned sums[COUNTS] = {0};
	uint64_t longest_us = 0;
	bool is_proven = true;

	_Static_assert(sizeof(names) / sizeof(names[0]) == COUNTS, "one name for each");
	printf("seed %" PRIu64 "\n", seed);
	fflush(stdout);
	for (int i = 0; i < ALONE; i++)
		configs[i] = load(&snapshots[i % SNAPSHOTS], i >= SNAPSHOTS);
	for (int i = ALONE; i < CONFIGS; i++)
		configs[i] = prop_config(alone_inis[i - ALONE]);
	for (run_number = 0; run_number < RUNS; run_number++) {
		begin(seed * RUNS + run_number);
		run();
		for (int i = 0; i < COUNTS; i++)
			sums[i] += ((const unsigned *)&w.counts)[i];
		longest_us = w.longest_us > longest_us ? w.longest_us : longest_us;
	}
	for (int i = 0; i < COUNTS; i++) {
		printf("%u %s%s", sums[i], names[i], i < COUNTS - 1 ? ", " : "\n");
		/* grants, dials and hands are what it is about */
		is_proven = is_proven && sums[i] > (i < 3 ? RUNS : 0);
	}
	printf("longest wait while all are busy: %" PRIu64 " ms\n", longest_us / 1000);
	for (int i = 0; i < CONFIGS; i++)
		config_unref(&configs[i]);
	return is_proven ? 0 : 1;
}
