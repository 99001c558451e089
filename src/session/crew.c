/*
 * Places, letters and calls between the threads of one process.
 */
#include "session/crew.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "auth/workers.h"
#include "base/map.h"
#include "base/mem.h"
#include "session/cancel_keys.h"
#include "wire/prepared.h"

/* A turn of the loop is far shorter; only a worker that hangs needs longer. */
enum { PATIENCE_MS = 300 };

/* A worker that leaves letters unopened for so long is not asked for servers, and gets
 * none, and no clients.  It costs little if it only waits for a CPU. */
enum { DEAF_US = CENTRAL_PATIENCE_US };

/* The value that was logged last for an event, and the site that logged it. */
struct told {
	uint64_t value;
	unsigned site;
	char what[];
};

bool crew_is_deaf(const struct crew *crew, unsigned index)
{
	const struct crew_member *member = &crew->members[index];

	return index < crew->worker_count &&
	       (atomic_load_explicit(&member->is_silent, memory_order_relaxed) ||
		   mailbox_is_unread_for(member->mailbox, DEAF_US));
}

static bool is_deaf(void *ctx, unsigned site)
{
	return crew_is_deaf(ctx, site);
}

struct crew *crew_new(unsigned worker_count)
{
	struct crew *crew = mem_zero_lines(sizeof(*crew));

	pthread_mutex_init(&crew->told_lock, NULL);
	crew->told = map_new();
	crew->worker_count = worker_count;
	crew->central = central_new(worker_count + 1);
	central_on_unresponsive(crew->central, is_deaf, crew);
	crew->texts = prepared_store_new(PREPARED_PREFIX);
	crew->sql_texts = prepared_store_new(PREPARED_SQL_PREFIX);
	crew->mutex = workers_mutex_new();
	crew->cancel_keys = cancel_keys_new();
	for (unsigned i = 0; i <= worker_count; i++) {
		crew->members[i].crew = crew;
		crew->members[i].index = i;
	}
	return crew;
}

static void free_told(struct crew *crew)
{
	struct told *told;
	size_t at = 0;

	while ((told = map_next(crew->told, &at)))
		mem_free(told);
	map_free(&crew->told);
	pthread_mutex_destroy(&crew->told_lock);
}

void crew_free(struct crew **crew)
{
	if (!*crew)
		return;
	free_told(*crew);
	central_free(&(*crew)->central);
	prepared_store_unref(&(*crew)->texts);
	prepared_store_unref(&(*crew)->sql_texts);
	workers_mutex_unref(&(*crew)->mutex);
	cancel_keys_free(&(*crew)->cancel_keys);
	mem_free(*crew);
	*crew = NULL;
}

int crew_join(struct crew *crew, unsigned index, struct site *site, struct err *err)
{
	struct crew_member *member = &crew->members[index];

	member->mailbox = mailbox_new(site->loop, err);
	if (!member->mailbox)
		return -1;
	member->site = site;
	site->crew = member;
	return 0;
}

void crew_leave(struct site *site)
{
	if (site->crew)
		mailbox_free(&site->crew->mailbox);
}

bool crew_is_control(const struct site *site)
{
	return !site->crew || site->crew->index == site->crew->crew->worker_count;
}

unsigned crew_site_count(const struct site *site)
{
	return site->crew ? site->crew->crew->worker_count + 1 : 1;
}

void crew_post(struct crew_member *to, struct letter *letter)
{
	mailbox_post(to->mailbox, letter);
}

/* ---- calls ---- */

enum call_state { CALL_WAITS, CALL_RUNS, CALL_DONE, CALL_GIVEN_UP };

/* A call.  The caller frees it, or the member if the caller has given it up. */
struct call {
	struct letter letter;
	struct crew_member *member;
	crew_fn *fn;
	void *ctx;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum call_state state;
};

static struct call *call_new(struct crew_member *member, crew_fn *fn, void *ctx)
{
	struct call *call = mem_zero(sizeof(*call));
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_mutex_init(&call->lock, NULL);
	pthread_cond_init(&call->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	call->member = member;
	call->fn = fn;
	call->ctx = ctx;
	return call;
}

static void call_free(struct call *call)
{
	pthread_mutex_destroy(&call->lock);
	pthread_cond_destroy(&call->changed);
	mem_free(call);
}

static void call_set(struct call *call, enum call_state state)
{
	pthread_mutex_lock(&call->lock);
	call->state = state;
	pthread_cond_signal(&call->changed);
	pthread_mutex_unlock(&call->lock);
}

/* May the call run?  False if the caller has given it up. */
static bool may_run(struct call *call)
{
	pthread_mutex_lock(&call->lock);
	bool is_wanted = call->state == CALL_WAITS;
	if (is_wanted)
		call->state = CALL_RUNS;
	pthread_mutex_unlock(&call->lock);
	return is_wanted;
}

static void call_opened(struct letter *letter)
{
	struct call *call = container_of(letter, struct call, letter);

	if (!may_run(call)) {
		/* cleared after may_run has held the lock: the caller sets it under the
		 * lock when it gives up */
		atomic_store(&call->member->is_silent, false);
		call_free(call);
		return;
	}
	call->fn(call->member->site, call->ctx);
	call_set(call, CALL_DONE);
}

/* Waits for the end of a call.  One that has begun is always waited for, because it
 * uses the caller's data. */
static bool has_ended(struct call *call)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += PATIENCE_MS * 1000000L;
	if (end.tv_nsec >= 1000000000L) {
		end.tv_nsec -= 1000000000L;
		end.tv_sec++;
	}
	pthread_mutex_lock(&call->lock);
	while (call->state == CALL_WAITS || call->state == CALL_RUNS) {
		int late =
		    call->state == CALL_RUNS
			? pthread_cond_wait(&call->changed, &call->lock)
			: pthread_cond_timedwait(&call->changed, &call->lock, &end);
		if (late == ETIMEDOUT && call->state == CALL_WAITS)
			call->state = CALL_GIVEN_UP;
	}
	bool is_done = call->state == CALL_DONE;
	if (!is_done)
		atomic_store(&call->member->is_silent, true);
	pthread_mutex_unlock(&call->lock);
	return is_done;
}

bool crew_call(struct crew_member *member, crew_fn *fn, void *ctx)
{
	if (crew_is_control(member->site)) {
		fn(member->site, ctx);
		return true;
	}
	/* it has kept a caller waiting once; it clears the flag when it runs again */
	if (atomic_load(&member->is_silent))
		return false;
	struct call *call = call_new(member, fn, ctx);
	call->letter.open = call_opened;
	crew_post(member, &call->letter);
	if (!has_ended(call))
		return false;
	call_free(call);
	return true;
}

static unsigned each_worker(struct site *site, crew_fn *fn, void *ctx)
{
	struct crew *crew = site->crew ? site->crew->crew : NULL;
	unsigned missed = 0;

	for (unsigned i = 0; crew && i < crew->worker_count; i++)
		missed += !crew_call(&crew->members[i], fn, ctx);
	return missed;
}

unsigned crew_each(struct site *site, crew_fn *fn, void *ctx)
{
	unsigned missed = each_worker(site, fn, ctx);

	fn(site, ctx);
	return missed;
}

unsigned crew_each_own_first(struct site *site, crew_fn *fn, void *ctx)
{
	fn(site, ctx);
	return each_worker(site, fn, ctx);
}

/* ---- orders, which every worker runs ---- */

/* For one that does not answer. */
struct errand {
	struct letter letter;
	struct crew_member *to;
	crew_order_fn *fn;
	unsigned number;
	_Alignas(max_align_t) char what[];
};

static void errand_opened(struct letter *letter)
{
	struct errand *errand = container_of(letter, struct errand, letter);

	crew_follow_order(errand->to->site, errand->number);
	errand->fn(errand->to->site, errand->what);
	mem_free(errand);
}

struct order {
	crew_order_fn *fn;
	const void *what;
	size_t size;
	unsigned number;
};

static void leave_errand(struct crew_member *to, const struct order *order)
{
	struct errand *errand = mem_zero(sizeof(*errand) + order->size);

	errand->letter.open = errand_opened;
	errand->to = to;
	errand->fn = order->fn;
	errand->number = order->number;
	memcpy(errand->what, order->what, order->size);
	crew_post(to, &errand->letter);
}

static void run_order(struct site *site, void *ctx)
{
	const struct order *order = ctx;

	crew_follow_order(site, order->number);
	order->fn(site, order->what);
}

void crew_order(struct site *site, crew_order_fn *fn, const void *what, size_t size)
{
	struct crew *crew = site->crew ? site->crew->crew : NULL;
	struct order order = {fn, what, size, crew_begin_order(site)};

	for (unsigned i = 0; crew && i < crew->worker_count; i++)
		if (!crew_call(&crew->members[i], run_order, &order))
			leave_errand(&crew->members[i], &order);
	run_order(site, &order);
}

unsigned crew_begin_order(struct site *control)
{
	return control->crew ? ++control->crew->crew->last_order : 0;
}

void crew_follow_order(struct site *site, unsigned order)
{
	if (!site->crew)
		return;
	site->crew->order = order;
	if (site->catalog)
		site->catalog->view.order = order;
}

static void run_plain(struct site *site, const void *what)
{
	crew_site_fn *const *fn = what;

	(*fn)(site);
}

void crew_all(struct site *site, crew_site_fn *fn)
{
	crew_order(site, run_plain, &fn, sizeof(fn));
}

/* ---- events that only one site logs ---- */

static struct told *told_of(struct crew *crew, const char *what)
{
	size_t len = strlen(what);
	struct told *told = map_get(crew->told, what, len);

	if (told)
		return told;
	told = mem_zero(sizeof(*told) + len + 1);
	memcpy(told->what, what, len);
	told->site = UINT_MAX;
	map_put(crew->told, told->what, len, told);
	return told;
}

bool crew_may_tell(struct site *site, const char *what, uint64_t value)
{
	struct crew_member *own = site->crew;

	if (!own)
		return true;
	pthread_mutex_lock(&own->crew->told_lock);
	struct told *told = told_of(own->crew, what);
	bool may =
	    told->site == UINT_MAX || told->value != value || told->site == own->index;
	if (may) {
		told->value = value;
		told->site = own->index;
	}
	pthread_mutex_unlock(&own->crew->told_lock);
	return may;
}

/* ---- clients ---- */

static unsigned load_of(const struct crew_member *member)
{
	return atomic_load_explicit(&member->client_count, memory_order_relaxed);
}

static void change_load(struct crew_member *member, int change)
{
	atomic_fetch_add_explicit(
	    &member->client_count, (unsigned)change, memory_order_relaxed);
}

static void count_at(struct crew_member *member, int change)
{
	change_load(member, change);
	atomic_fetch_add_explicit(
	    &member->crew->client_count, (unsigned)change, memory_order_relaxed);
}

/* What a client of an overworked member will do is not known, but the others are less
 * likely to be used already. */
static unsigned weight_of(const struct crew_member *member)
{
	return load_of(member) * (member->is_overworked ? 2 : 1);
}

/* Is a better than b for a new client?  A member that hangs is worse than any other. */
static bool is_better(const struct crew_member *a, const struct crew_member *b)
{
	bool is_a_deaf = crew_is_deaf(a->crew, a->index);
	bool is_b_deaf = crew_is_deaf(b->crew, b->index);

	return is_a_deaf == is_b_deaf ? weight_of(a) < weight_of(b) : is_b_deaf;
}

struct crew_member *crew_pick(struct crew *crew)
{
	unsigned best = (crew->last_picked + 1) % crew->worker_count;

	for (unsigned i = 1; i < crew->worker_count; i++) {
		unsigned at = (crew->last_picked + 1 + i) % crew->worker_count;
		if (is_better(&crew->members[at], &crew->members[best]))
			best = at;
	}
	crew->last_picked = best;
	count_at(&crew->members[best], 1);
	return &crew->members[best];
}

void crew_unpick(struct crew_member *member)
{
	count_at(member, -1);
}

void crew_count_client(struct site *site, int change)
{
	struct crew_member *own = site->crew;

	if (!own)
		return;
	if (change > 0 && own->has_arrival)
		own->has_arrival = false;
	else
		count_at(own, change);
}

void crew_client_goes(struct site *site, struct crew_member *to)
{
	change_load(to, 1);
	change_load(site->crew, -1);
}

void crew_arrival_begins(struct crew_member *member)
{
	member->has_arrival = true;
}

void crew_arrival_ends(struct crew_member *member)
{
	if (member->has_arrival)
		count_at(member, -1);
	member->has_arrival = false;
}

size_t crew_client_count(const struct site *site)
{
	return site->crew ? atomic_load_explicit(
				&site->crew->crew->client_count, memory_order_relaxed)
			  : site_client_count(site);
}
