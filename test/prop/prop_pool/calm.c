/*
 * Times without new events: what is on its way arrives, and then nobody may wait for
 * what is there, at any worker that answers.
 */
#include "model.h"

enum {
	/* Longer than any wait for an answer, and than room is left in vain to others,
	 * for one connection after the other. */
	CALM_US = 2 * SECOND,
	/* All ask again as soon as they were served: for so long, and so long a client
	 * waits at most, and under the limit of the process. */
	RUSH_US = 12 * SECOND,
	RUSH_WAIT_US = 3 * SECOND,
	RUSH_WAIT_OF_PROCESS_US = 8 * SECOND,
};

/* ---- what is due ---- */

/* While it is calm: something that is due happens. */
static void go_on(void)
{
	struct worker *worker = &w.worker[any(w.workers)];

	switch (any(3)) {
	case 0:
		deliver(any(w.workers), any(w.workers));
		break;
	case 1:
		if (worker->schedule_count)
			serve_scheduled(worker, any((unsigned)worker->schedule_count));
		break;
	default:
		(void)has_acted(any_server(), true, false);
		break;
	}
}

void happen_elsewhere(void)
{
	if (w.is_calm)
		go_on();
	else
		happen();
}

void settle(void)
{
	bool is_still = false;

	for (unsigned rounds = 0; !is_still; rounds++) {
		CHECK(rounds < 1000);
		is_still = true;
		for (unsigned i = 0; i < w.workers; i++) {
			if (w.worker[i].is_still || w.worker[i].is_busy)
				continue;
			for (; w.worker[i].schedule_count; is_still = false)
				serve_scheduled(&w.worker[i], 0);
			for (unsigned k = 0; k <= WORKERS; k++)
				while (deliver(k, i))
					is_still = false;
		}
		for (int i = 0; i < w.servers_used; i++)
			if (has_acted(&w.servers[i], true, false))
				is_still = false;
		while (has_buried_one())
			is_still = false;
		if (!is_still)
			check_all();
	}
}

void pass(uint64_t us, uint64_t step_us)
{
	for (uint64_t end = w.now + us; w.now < end; w.now += step_us) {
		settle();
		for (unsigned i = 0; i < w.workers; i++)
			serve_woken(&w.worker[i]);
		if (any(10) == 0)
			check_all();
	}
	settle();
}

/* Clients have waited longer than reserve_pool_timeout; a replication client that is
 * the first gets nothing of the reserve. */
static bool has_room(const struct pool *pool)
{
	const struct pool_request *first =
	    container_of(list_first(&pool->waiting), struct pool_request, node);
	const struct limits l = limits_of(pool);
	const struct sums sums = count_servers();
	unsigned number = number_of(pool);
	int reserve = first->kind == REQUEST_REPLICATION ? 0 : l.reserve;

	return is_within(sums.pools[number] + 1, l.size + reserve) &&
	       is_within(sums.dbs[number / USERS] + 1, l.db) &&
	       is_within(sums.users[number % USERS] + 1, l.user) &&
	       is_within(sums.process + 1, l.process);
}

/* No client may wait for something that is available. */
static void check_waiting(const struct pool *pool)
{
	if (list_is_empty(&pool->waiting) || pool_is_paused(pool))
		return;
	CHECK(!pool->is_killed);
	/* who waits for the parameters needs no server that another worker has */
	CHECK(list_is_empty(&pool->param_waiters) || !pool_has_login_params(pool));
	/* one at rest does not help a replication client, but gives way to its own */
	bool may_rest = list_is_empty(&pool->part.waiters) && pool->failure.kind;
	CHECK(may_rest || list_is_empty(&pool->slots[SLOT_IDLE]));
	for (unsigned i = 0; i < w.workers; i++) {
		const struct central_place *place = &pool->part.whole->places[i];
		CHECK(may_rest || !place->part || w.worker[i].is_still ||
		      !place->part->resting);
		CHECK(is_anybody_still() || !place->arriving);
	}
	CHECK(pool->failure.kind || !has_room(pool));
}

/* There must be no more resting servers than the limits in force allow. */
static void check_surplus(const struct pool *pool)
{
	const struct limits l = limits_of(pool);
	const struct sums sums = count_servers();

	/* a worker that stands still cannot close any */
	if (list_is_empty(&pool->slots[SLOT_IDLE]) || is_anybody_still() ||
	    pool->database->catalog->suspended)
		return;
	CHECK(!pool_is_closing_for_pause(pool) && !pool->is_killed);
	CHECK(is_within(sums.pools[number_of(pool)], l.size + l.reserve));
	CHECK(is_within(sums.process, l.process));
}

/* For several workers: with one, check_alone is more exact, and also knows hosts. */
void be_calm(void)
{
	w.is_calm = true;
	pass((is_anybody_still() ? 2 : 1) * CALM_US, 2000);
	for (unsigned i = 0; i < w.workers; i++) {
		const struct pool *pool;
		if (w.worker[i].is_still)
			continue;
		CHECK(w.worker[i].round == w.orders);
		list_for (pool, &w.worker[i].c->pool_list, node) {
			check_waiting(pool);
			check_surplus(pool);
		}
	}
	w.counts.calms++;
}

/* ---- everybody ---- */

static void check_patience(const struct pool_request *request)
{
	bool has_limit = w.worker[0].c->config->settings.max_server_connections > 0;
	/* before the rush nobody may have given a server back */
	uint64_t since_us =
	    request->queued_us > w.rush_us ? request->queued_us : w.rush_us;
	/* other workers with clients do not give way to a replication client */
	bool is_served =
	    request->state != REQUEST_WAITING || request->kind == REQUEST_REPLICATION;
	uint64_t waited_us = is_served ? 0 : w.now - since_us;

	CHECK(waited_us <= (has_limit ? RUSH_WAIT_OF_PROCESS_US : RUSH_WAIT_US));
	if (waited_us > w.longest_us)
		w.longest_us = waited_us;
}

/* Nobody starves while others never pause, also where limits of several kinds have to
 * have room at once. */
void everybody_is_busy(void)
{
	pass(CALM_US, 1000);
	w.rush_us = w.now;
	while (w.now < w.rush_us + RUSH_US) {
		pass(1000, 1000);
		for (unsigned i = 0; i < w.clients; i++) {
			struct client *c = &w.client[i];
			check_patience(&c->request);
			if (c->request.state == REQUEST_OUTSIDE)
				client_acts(c, true);
			/* no server is closed, which would make room */
			if (c->request.state == REQUEST_LINKED && any(20) == 0)
				give_back(server_of(c->request.slot));
			if (c->request.state == REQUEST_RESTING)
				client_asks(c, REQUEST_QUERY);
		}
	}
}

void everybody_is_served(void)
{
	uint64_t step_us = is_alone() ? SECOND / 20 : 1000;
	bool is_anybody_waiting = true;

	settle();
	for (int i = 0; is_anybody_waiting; i++) {
		CHECK(i < 2000);
		is_anybody_waiting = false;
		for (unsigned k = 0; k < w.clients; k++) {
			struct client *c = &w.client[k];
			is_anybody_waiting |= c->request.state == REQUEST_WAITING;
			if (c->request.state == REQUEST_LINKED)
				give_back(server_of(c->request.slot));
			if (c->request.state == REQUEST_RESTING)
				client_goes(c);
		}
		pass(10 * step_us, step_us);
	}
}
