#include "session/workers.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "auth/helpers.h"
#include "base/map.h"
#include "base/mem.h"
#include "session/cancel_keys.h"
#include "session/memory_limit.h"
#include "session/oauth_issuers_kept.h"
#include "session/passwords_kept.h"
#include "session/strangers.h"
#include "session/tickets.h"
#include "wire/prepared.h"
#include "wire/reported_names.h"

/* A turn of the loop is far shorter; only a worker that hangs needs longer. */
enum { PATIENCE_MS = 300 };

/* A worker that leaves messages unhandled for so long is not asked for servers, and
 * gets none, and no clients.  It costs little if it only waits for a CPU. */
enum { UNRESPONSIVE_US = CENTRAL_PATIENCE_US };

/* The value that was logged last for an event, and the site that logged it. */
struct logged_event {
	uint64_t value;
	unsigned site;
	char what[];
};

bool workers_is_unresponsive(const struct workers *workers, unsigned index)
{
	const struct worker *member = &workers->members[index];

	return index < workers->worker_count &&
	       (atomic_load_explicit(&member->is_silent, memory_order_relaxed) ||
		   mailbox_is_unread_for(member->mailbox, UNRESPONSIVE_US));
}

static bool is_unresponsive(void *ctx, unsigned site)
{
	return workers_is_unresponsive(ctx, site);
}

struct workers *workers_new(unsigned worker_count)
{
	struct workers *workers = mem_zero_lines(sizeof(*workers));

	pthread_mutex_init(&workers->logged_lock, NULL);
	workers->logged = map_new();
	workers->worker_count = worker_count;
	workers->central = central_new(worker_count + 1);
	central_on_unresponsive(workers->central, is_unresponsive, workers);
	workers->texts = prepared_store_new(PREPARED_PREFIX);
	workers->sql_texts = prepared_store_new(PREPARED_SQL_PREFIX);
	workers->reported_names = reported_names_new();
	workers->mutex = helpers_mutex_new();
	workers->cancel_keys = cancel_keys_new();
	workers->passwords = passwords_kept_new();
	workers->issuers = oauth_issuers_kept_new();
	workers->tickets = ticket_table_new();
	workers->strangers = strangers_new();
	workers->memory_limit = memory_limit_new();
	for (unsigned i = 0; i <= worker_count; i++) {
		workers->members[i].workers = workers;
		workers->members[i].index = i;
	}
	return workers;
}

static void free_logged_events(struct workers *workers)
{
	struct logged_event *logged;
	size_t at = 0;

	while ((logged = map_next(workers->logged, &at)))
		mem_free(logged);
	map_free(&workers->logged);
	pthread_mutex_destroy(&workers->logged_lock);
}

void workers_free(struct workers **workers)
{
	if (!*workers)
		return;
	free_logged_events(*workers);
	central_free(&(*workers)->central);
	prepared_store_unref(&(*workers)->texts);
	prepared_store_unref(&(*workers)->sql_texts);
	reported_names_unref(&(*workers)->reported_names);
	helpers_mutex_unref(&(*workers)->mutex);
	cancel_keys_free(&(*workers)->cancel_keys);
	passwords_kept_free(&(*workers)->passwords);
	oauth_issuers_kept_free(&(*workers)->issuers);
	ticket_table_free(&(*workers)->tickets);
	strangers_free(&(*workers)->strangers);
	memory_limit_free(&(*workers)->memory_limit);
	mem_free(*workers);
	*workers = NULL;
}

int workers_join(
    struct workers *workers, unsigned index, struct site *site, struct err *err)
{
	struct worker *member = &workers->members[index];

	member->mailbox = mailbox_new(site->loop, err);
	if (!member->mailbox)
		return -1;
	member->site = site;
	site->worker = member;
	return 0;
}

void workers_leave(struct site *site)
{
	if (site->worker)
		mailbox_free(&site->worker->mailbox);
}

bool workers_is_control(const struct site *site)
{
	return !site->worker ||
	       site->worker->index == site->worker->workers->worker_count;
}

unsigned workers_site_count(const struct site *site)
{
	return site->worker ? site->worker->workers->worker_count + 1 : 1;
}

void workers_post(struct worker *to, struct thread_message *message)
{
	mailbox_post(to->mailbox, message);
}

/* ---- calls ---- */

enum call_state { CALL_WAITS, CALL_RUNS, CALL_DONE, CALL_GIVEN_UP };

/* A call.  The caller frees it, or the member if the caller has given it up. */
struct call {
	struct thread_message message;
	struct worker *member;
	workers_fn *fn;
	void *ctx;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum call_state state;
};

static struct call *call_new(struct worker *member, workers_fn *fn, void *ctx)
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

/* The call begins.  False: the caller has given it up. */
static bool claim_call(struct call *call)
{
	pthread_mutex_lock(&call->lock);
	bool is_wanted = call->state == CALL_WAITS;
	if (is_wanted)
		call->state = CALL_RUNS;
	pthread_mutex_unlock(&call->lock);
	return is_wanted;
}

static void call_arrived(struct thread_message *message)
{
	struct call *call = container_of(message, struct call, message);

	if (!claim_call(call)) {
		/* cleared after claim_call has held the lock: the caller sets it under
		 * the lock when it gives up */
		atomic_store(&call->member->is_silent, false);
		call_free(call);
		return;
	}
	call->fn(call->member->site, call->ctx);
	pthread_mutex_lock(&call->lock);
	call->state = CALL_DONE;
	pthread_cond_signal(&call->changed);
	pthread_mutex_unlock(&call->lock);
}

/* Waits for the end of a call; false: it did not begin in time.  One that has begun is
 * always waited for, because it uses the caller's data. */
static bool await_call(struct call *call)
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

bool workers_call(struct worker *member, workers_fn *fn, void *ctx)
{
	/* its thread has ended, before the control thread's site is emptied */
	if (!member->mailbox)
		return true;
	if (workers_is_control(member->site)) {
		fn(member->site, ctx);
		return true;
	}
	/* it has kept a caller waiting once; it clears the flag when it runs again */
	if (atomic_load(&member->is_silent))
		return false;
	struct call *call = call_new(member, fn, ctx);
	call->message.handle = call_arrived;
	workers_post(member, &call->message);
	if (!await_call(call))
		return false;
	call_free(call);
	return true;
}

static unsigned each_worker(struct site *site, workers_fn *fn, void *ctx)
{
	struct workers *workers = site->worker ? site->worker->workers : NULL;
	unsigned missed = 0;

	for (unsigned i = 0; workers && i < workers->worker_count; i++)
		missed += !workers_call(&workers->members[i], fn, ctx);
	return missed;
}

unsigned workers_each(struct site *site, workers_fn *fn, void *ctx)
{
	unsigned missed = each_worker(site, fn, ctx);

	fn(site, ctx);
	return missed;
}

unsigned workers_each_own_first(struct site *site, workers_fn *fn, void *ctx)
{
	fn(site, ctx);
	return each_worker(site, fn, ctx);
}

/* ---- broadcasts, which every worker runs ---- */

/* For one that does not answer, or is only told. */
struct deferred_call {
	struct thread_message message;
	struct worker *to;
	workers_broadcast_fn *fn;
	unsigned number;
	_Alignas(max_align_t) char what[];
};

static void deferred_call_arrived(struct thread_message *message)
{
	struct deferred_call *deferred =
	    container_of(message, struct deferred_call, message);

	if (deferred->number)
		workers_follow_broadcast(deferred->to->site, deferred->number);
	deferred->fn(deferred->to->site, deferred->what);
	mem_free(deferred);
}

struct broadcast {
	workers_broadcast_fn *fn;
	const void *what;
	size_t size;
	unsigned number; /* 0: it has none */
};

static void defer_call(struct worker *to, const struct broadcast *broadcast)
{
	struct deferred_call *deferred = mem_zero(sizeof(*deferred) + broadcast->size);

	deferred->message.handle = deferred_call_arrived;
	deferred->to = to;
	deferred->fn = broadcast->fn;
	deferred->number = broadcast->number;
	memcpy(deferred->what, broadcast->what, broadcast->size);
	workers_post(to, &deferred->message);
}

void workers_send(
    struct worker *to, workers_broadcast_fn *fn, const void *what, size_t size)
{
	defer_call(to, &(struct broadcast){fn, what, size, 0});
}

static void run_broadcast(struct site *site, void *ctx)
{
	const struct broadcast *broadcast = ctx;

	if (broadcast->number)
		workers_follow_broadcast(site, broadcast->number);
	broadcast->fn(site, broadcast->what);
}

static void run_for_all(struct site *site, struct broadcast broadcast)
{
	struct workers *workers = site->worker ? site->worker->workers : NULL;

	for (unsigned i = 0; workers && i < workers->worker_count; i++)
		if (!workers_call(&workers->members[i], run_broadcast, &broadcast))
			defer_call(&workers->members[i], &broadcast);
	run_broadcast(site, &broadcast);
}

void workers_broadcast(
    struct site *site, workers_broadcast_fn *fn, const void *what, size_t size)
{
	run_for_all(
	    site, (struct broadcast){fn, what, size, workers_begin_broadcast(site)});
}

void workers_spread(
    struct site *site, workers_broadcast_fn *fn, const void *what, size_t size)
{
	run_for_all(site, (struct broadcast){fn, what, size, 0});
}

unsigned workers_begin_broadcast(struct site *control)
{
	return control->worker ? ++control->worker->workers->last_broadcast : 0;
}

void workers_follow_broadcast(struct site *site, unsigned number)
{
	assert(site->worker);
	site->worker->broadcast = number;
	if (site->catalog)
		site->catalog->view.broadcast = number;
}

static void run_plain(struct site *site, const void *what)
{
	workers_site_fn *const *fn = what;

	(*fn)(site);
}

void workers_all(struct site *site, workers_site_fn *fn)
{
	workers_broadcast(site, run_plain, &fn, sizeof(fn));
}

void workers_tell(struct site *site, workers_site_fn *fn)
{
	const struct broadcast call = {run_plain, &fn, sizeof(fn), 0};
	const struct worker *own = site->worker;

	fn(site);
	for (unsigned i = 0; own && i <= own->workers->worker_count; i++)
		if (i != own->index)
			defer_call(&own->workers->members[i], &call);
}

/* ---- events that only one site logs ---- */

static struct logged_event *logged_event_of(struct workers *workers, const char *what)
{
	size_t len = strlen(what);
	struct logged_event *logged = map_get(workers->logged, what, len);

	if (logged)
		return logged;
	logged = mem_zero(sizeof(*logged) + len + 1);
	memcpy(logged->what, what, len);
	logged->site = UINT_MAX;
	map_put(workers->logged, logged->what, len, logged);
	return logged;
}

bool workers_log_once(struct site *site, const char *what, uint64_t value)
{
	struct worker *own = site->worker;

	if (!own)
		return true;
	pthread_mutex_lock(&own->workers->logged_lock);
	struct logged_event *logged = logged_event_of(own->workers, what);
	bool may = logged->site == UINT_MAX || logged->value != value ||
		   logged->site == own->index;
	if (may) {
		logged->value = value;
		logged->site = own->index;
	}
	pthread_mutex_unlock(&own->workers->logged_lock);
	return may;
}

/* ---- clients ---- */

static void change_load(struct worker *member, int change)
{
	atomic_fetch_add_explicit(
	    &member->client_count, (unsigned)change, memory_order_relaxed);
}

static void count_at(struct worker *member, int change)
{
	change_load(member, change);
	atomic_fetch_add_explicit(
	    &member->workers->client_count, (unsigned)change, memory_order_relaxed);
}

/* What a client of an overworked member will do is not known, but the others are less
 * likely to be used already. */
static unsigned weight_of(const struct worker *member)
{
	return atomic_load_explicit(&member->client_count, memory_order_relaxed) *
	       (member->is_overworked ? 2 : 1);
}

/* Is a better than b for a new client?  A member that hangs is worse than any other. */
static bool is_better(const struct worker *a, const struct worker *b)
{
	bool is_a_unresponsive = workers_is_unresponsive(a->workers, a->index);
	bool is_b_unresponsive = workers_is_unresponsive(b->workers, b->index);

	return is_a_unresponsive == is_b_unresponsive ? weight_of(a) < weight_of(b)
						      : is_b_unresponsive;
}

struct worker *workers_pick(struct workers *workers)
{
	unsigned best = (workers->last_picked + 1) % workers->worker_count;

	for (unsigned i = 1; i < workers->worker_count; i++) {
		unsigned at = (workers->last_picked + 1 + i) % workers->worker_count;
		if (is_better(&workers->members[at], &workers->members[best]))
			best = at;
	}
	workers->last_picked = best;
	count_at(&workers->members[best], 1);
	return &workers->members[best];
}

void workers_unpick(struct worker *member)
{
	count_at(member, -1);
}

void workers_count_client(struct site *site, int change)
{
	struct worker *own = site->worker;

	if (!own)
		return;
	if (change > 0 && own->has_arrival)
		own->has_arrival = false;
	else
		count_at(own, change);
}

void workers_client_goes(struct site *site, struct worker *to)
{
	change_load(to, 1);
	change_load(site->worker, -1);
}

void workers_arrival_begins(struct worker *member)
{
	member->has_arrival = true;
}

void workers_arrival_ends(struct worker *member)
{
	if (member->has_arrival)
		count_at(member, -1);
	member->has_arrival = false;
}

size_t workers_client_count(const struct site *site)
{
	return site->worker ? atomic_load_explicit(&site->worker->workers->client_count,
				  memory_order_relaxed)
			    : site_client_count(site);
}
