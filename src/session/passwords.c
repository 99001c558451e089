/*
 * Who waits for which password, and how long it is kept.  The table is shared by all
 * sites, under a lock that is held for short; each site has a list of its own logins
 * that wait.  The site at which a fetch began gets the result, writes it into the
 * table, and tells the others to look.
 */
#include "session/passwords.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/time_us.h"
#include "session/passwords_kept.h"
#include "session/workers.h"

/* How long the result of a fetch stays at least, so that all sites see it; and when a
 * fetch before the end is tried again after a failure, at the soonest. */
enum { SHORTLY_US = 1000000 };

struct passwords {
	struct site *site;
	struct passwords_kept *kept;
	struct list waits; /* struct password_wait by .node */
	struct later look;
	struct deadline review;
};

static uint64_t now_of(const struct passwords *p)
{
	return loop_now(p->site->loop);
}

/* ---- fetching ---- */

static void look_later(struct site *site)
{
	loop_later(site->loop, &site->passwords->look);
}

/* The table takes over the password; NULL: err says why there is none. */
static void finish(
    struct passwords *p, struct kept_password *k, char *password, const struct err *err)
{
	uint64_t now_us = now_of(p);

	if (!password)
		log_put(p->site->log, LEVEL_WARNING | KIND_SERVERS, NULL,
		    "no password for user %s at %s:%d: %s", k->request.user,
		    *k->request.host ? k->request.host : "unix", k->request.port,
		    err->text);
	pthread_mutex_lock(&p->kept->lock);
	list_remove(&p->kept->running, &k->running_node);
	k->is_running = false;
	k->number++;
	mem_free(k->failure);
	k->failure = password ? NULL : mem_strdup(err->text);
	/* one that has not been refused serves until its end */
	if (password || !passwords_kept_is_fresh(k, now_us)) {
		mem_free_secret(k->password);
		k->password = password;
		k->fetched_us = k->begun_us;
		k->is_refused = false;
	}
	k->again_us = time_later(
	    now_us + SHORTLY_US, password ? k->begun_us + k->lifetime_us / 4 * 3
					  : now_us + k->lifetime_us / 16);
	uint64_t again_us = k->again_us;
	pthread_mutex_unlock(&p->kept->lock);
	if (again_us < p->review.at_us)
		deadline_set(p->site->loop, &p->review, again_us);
	workers_tell(p->site, look_later);
}

static void fetched(struct password_job *job)
{
	struct kept_password *k = job->owner;
	char *password = job->password;

	job->password = NULL;
	finish(k->runner->passwords, k, password, &job->err);
}

/* Under the lock: returns the job of a new fetch, for submit.  NULL: it has to wait. */
static struct password_job *begin(struct passwords *p, struct kept_password *k)
{
	if (passwords_kept_is_busy(p->kept, k))
		return NULL;
	list_push_back(&p->kept->running, &k->running_node);
	k->is_running = true;
	k->begun_us = now_of(p);
	k->is_used = false;
	k->is_second = k->is_refused;
	k->runner = p->site;
	return password_job_new(&k->request, fetched, k);
}

/* Without the lock. */
static void submit(struct passwords *p, struct password_job *job)
{
	struct kept_password *k = job->owner;
	struct err err;

	if (helpers_submit(p->site->helpers, &job->job, &err) == 0)
		return;
	password_job_discard(job);
	finish(p, k, NULL, &err);
}

/* ---- logins that wait ---- */

static char *use(struct password_wait *wait)
{
	struct kept_password *k = wait->from;

	wait->number = k->number;
	k->is_used = true;
	return mem_strdup(k->password);
}

/* Does the wait end?  Begins a fetch if it is needed and none is under way. */
static bool try_to_settle(
    struct passwords *p, struct password_wait *wait, char **password, struct err *err)
{
	struct kept_password *k = wait->from;
	struct password_job *job = NULL;
	bool is_over = true;

	*password = NULL;
	pthread_mutex_lock(&p->kept->lock);
	if (passwords_kept_is_fresh(k, now_of(p)) ||
	    (wait->number != k->number && k->password))
		*password = use(wait);
	else if (wait->number != k->number && k->failure)
		err_set(err, "%s", k->failure);
	else {
		wait->number = k->number;
		is_over = false;
		job = begin(p, k);
	}
	pthread_mutex_unlock(&p->kept->lock);
	if (job)
		submit(p, job);
	return is_over;
}

static void look(struct later *l)
{
	struct passwords *p = container_of(l, struct passwords, look);
	struct password_wait *wait, *settled;
	char *password;
	struct err err;

	/* from the beginning each time, because what follows may change the list */
	do {
		settled = NULL;
		list_for (wait, &p->waits, node)
			if (try_to_settle(p, wait, &password, &err)) {
				settled = wait;
				break;
			}
		if (settled) {
			list_remove(&p->waits, &settled->node);
			settled->done(settled, password, &err);
		}
	} while (settled);
}

char *passwords_get(struct site *site, const struct password_request *request,
    uint64_t lifetime_us, struct password_wait *wait)
{
	struct passwords *p = site->passwords;
	char *password = NULL;

	pthread_mutex_lock(&p->kept->lock);
	struct kept_password *k = passwords_kept_find(p->kept, request);
	k->lifetime_us = lifetime_us;
	k->request.limit_us = request->limit_us;
	k->waits++;
	wait->site = site;
	wait->from = k;
	wait->number = k->number;
	if (passwords_kept_is_fresh(k, now_of(p)))
		password = use(wait);
	pthread_mutex_unlock(&p->kept->lock);
	if (!password) {
		list_push_back(&p->waits, &wait->node);
		loop_later(site->loop, &p->look);
	}
	return password;
}

void passwords_leave(struct password_wait *wait)
{
	struct passwords *p;

	if (!wait->from)
		return;
	p = wait->site->passwords;
	if (node_is_linked(&wait->node))
		list_remove(&p->waits, &wait->node);
	pthread_mutex_lock(&p->kept->lock);
	wait->from->waits--;
	wait->from = NULL;
	pthread_mutex_unlock(&p->kept->lock);
}

bool passwords_refused(struct password_wait *wait)
{
	struct passwords_kept *kept = wait->site->passwords->kept;
	struct kept_password *k = wait->from;
	bool is_latest, was_second;

	pthread_mutex_lock(&kept->lock);
	is_latest = wait->number == k->number;
	was_second = k->is_second && !k->is_running;
	if (is_latest)
		k->is_refused = true;
	pthread_mutex_unlock(&kept->lock);
	return !is_latest || !was_second;
}

void passwords_accepted(struct password_wait *wait)
{
	struct passwords_kept *kept = wait->site->passwords->kept;

	pthread_mutex_lock(&kept->lock);
	if (wait->number == wait->from->number && !wait->from->is_running)
		wait->from->is_second = false;
	pthread_mutex_unlock(&kept->lock);
}

/* ---- time ---- */

/* Under the lock: fetches what was used lately again before its end, and frees what was
 * not.  Returns a job to submit.  NULL: nothing is due, and the next review is set. */
static struct password_job *next_due(struct passwords *p)
{
	uint64_t now_us = now_of(p), next_us = UINT64_MAX;
	struct password_job *job;
	struct kept_password *k;
	size_t at = 0;

	while ((k = map_next(p->kept->table, &at))) {
		if (k->runner != p->site || k->is_running)
			continue;
		if (now_us < k->again_us) {
			next_us = time_earlier(next_us, k->again_us);
			continue;
		}
		k->again_us = now_us + time_later(SHORTLY_US, k->lifetime_us / 16);
		next_us = now_us + SHORTLY_US;
		bool is_fresh = passwords_kept_is_fresh(k, now_us);
		job = is_fresh && k->is_used ? begin(p, k) : NULL;
		if (job)
			return job;
		if (!is_fresh && !k->waits)
			passwords_kept_drop(p->kept, k);
	}
	if (next_us != UINT64_MAX)
		deadline_set(p->site->loop, &p->review, next_us);
	return NULL;
}

static void review(struct deadline *due)
{
	struct passwords *p = container_of(due, struct passwords, review);
	struct password_job *job;

	do {
		pthread_mutex_lock(&p->kept->lock);
		job = next_due(p);
		pthread_mutex_unlock(&p->kept->lock);
		if (job)
			submit(p, job);
	} while (job);
}

void passwords_forget_all(struct site *site)
{
	struct passwords_kept *kept = site->passwords->kept;
	struct kept_password *k;
	size_t at = 0;

	pthread_mutex_lock(&kept->lock);
	while ((k = map_next(kept->table, &at))) {
		mem_free_secret(k->password);
		k->password = NULL;
	}
	pthread_mutex_unlock(&kept->lock);
}

/* ---- making and unmaking ---- */

void passwords_init(struct site *site)
{
	struct passwords *p = mem_zero(sizeof(*p));

	p->site = site;
	p->kept =
	    site->worker ? site->worker->workers->passwords : passwords_kept_new();
	list_init(&p->waits);
	p->look.run = look;
	deadline_init(&p->review, review);
	site->passwords = p;
}

void passwords_done(struct site *site)
{
	struct passwords *p = site->passwords;

	deadline_clear(site->loop, &p->review);
	later_cancel(site->loop, &p->look);
	if (!site->worker)
		passwords_kept_free(&p->kept);
	mem_free(p);
	site->passwords = NULL;
}
