#include "daemon/reload_run.h"

#include <string.h>

#include "daemon/daemon.h"
#include "daemon/notify.h"
#include "daemon/reload.h"
#include "session/client.h"
#include "session/salted.h"
#include "session/workers.h"

/* Users are taken over at intervals: a loop that is busy without a break would keep
 * other processes off its processor for milliseconds. */
enum { USERS_AT_ONCE = 100, INTERVAL_US = 300 };

/* How often a worker that does not answer is asked again. */
enum { AGAIN_US = 50000 };

static void run_start(struct daemon *d);

/* ---- the end ---- */

static void run_finish(struct daemon *d, int result)
{
	struct reload_run *r = &d->reloads;
	struct pool *pool;
	struct pool_request *request;

	userlist_unref(&r->users);
	if (r->old_users || r->old)
		load_job_free(d->site.helpers, &r->old_users, &r->old);
	r->phase = RELOAD_IDLE;
	r->result = result;
	r->done = r->begun;
	/* consoles that wait run their command again, which then finds the result */
	list_for (pool, &d->site.catalog->pool_list, node) {
		if (!pool->database->is_admin)
			continue;
		list_for (request, &pool->clients, node)
			conn_unpark(&request_client(request_of(request))->conn);
	}
	if (r->wanted > r->done) {
		run_start(d);
	} else if (r->is_manager_waiting) {
		r->is_manager_waiting = false;
		notify_ready();
	}
}

/* ---- taking over users ---- */

static void some_users(struct site *site, void *ctx)
{
	bool *has_more = ctx;

	if (catalog_adopt_users(site->catalog, USERS_AT_ONCE))
		*has_more = true;
	else
		salted_forget_all(site);
}

static void next_users(struct deadline *due)
{
	struct reload_run *r = container_of(due, struct reload_run, users_due);
	struct daemon *d = container_of(r, struct daemon, reloads);
	struct site *site = &d->site;
	bool has_more = false;
	unsigned missed = workers_each(site, some_users, &has_more);

	/* a worker that does not answer takes over the rest of the list when it runs
	 * again */
	if (has_more || missed > 0) {
		deadline_set(site->loop, due,
		    loop_now(site->loop) + (has_more ? INTERVAL_US : AGAIN_US));
		return;
	}
	log_put(site->log, LEVEL_DEBUG | KIND_RELOAD, NULL,
	    "reload: the user list is in force");
	run_finish(d, 0);
}

/* The list lasts until all sites have begun with it. */
static void begin_list(struct site *site, const void *what)
{
	struct userlist *const *list = what;

	catalog_begin_users(site->catalog, *list);
}

/* ---- loading ---- */

/* is_long: users are taken over a few per turn, and a helper thread frees the old
 * snapshot and the old list. */
static void run_take(
    struct daemon *d, struct loaded_config *next, int result, bool is_long)
{
	struct reload_run *r = &d->reloads;

	if (is_long)
		r->old = config_ref(d->in_force.config);
	result = reload_take(d, next, result, is_long ? &r->users : NULL, &r->err);
	loaded_config_done(next);
	if (r->users) {
		r->phase = RELOAD_ADOPTING;
		r->old_users = d->in_force.users;
		d->in_force.users = userlist_ref(r->users);
		workers_broadcast(&d->site, begin_list, &r->users, sizeof(r->users));
		deadline_set(d->site.loop, &r->users_due, loop_now(d->site.loop));
	} else {
		run_finish(d, result);
	}
}

static void config_is_loaded(void *owner, struct loaded_config *next, int result)
{
	struct daemon *d = owner;

	d->reloads.job = NULL;
	run_take(d, next, result, true);
}

static void run_start(struct daemon *d)
{
	struct reload_run *r = &d->reloads;
	const char *path = site_settings(&d->site)->conffile;
	struct loaded_config next;

	r->begun++;
	r->phase = RELOAD_READING;
	if (load_job_is_due(path, &d->in_force))
		r->job = load_job_submit(
		    d->site.helpers, path, &d->in_force, config_is_loaded, d);
	if (r->job)
		return;
	loaded_config_init(&next);
	int result = loaded_config_load(&next, path, &d->in_force, STRICT);
	run_take(d, &next, result, false);
}

/* ---- the verb ---- */

static int run_result(struct reload_run *r, uint64_t *ticket, struct err *err)
{
	if (ticket)
		*ticket = 0;
	*err = r->err;
	return r->result;
}

/* A reload in progress may have read the files before they were changed, so another one
 * follows it. */
int reload_run_ask(struct site *site, uint64_t *ticket, struct err *err)
{
	struct daemon *d = site_daemon(site);
	struct reload_run *r = &d->reloads;

	if (ticket && *ticket)
		return r->done < *ticket ? 1 : run_result(r, ticket, err);
	r->wanted = r->begun + 1;
	if (r->phase == RELOAD_IDLE)
		run_start(d);
	if (r->done == r->wanted)
		return run_result(r, ticket, err);
	if (ticket)
		*ticket = r->wanted;
	else
		r->is_manager_waiting = true;
	return 1;
}

bool reload_run_is_reading(const struct site *site)
{
	const struct daemon *d = site_daemon((struct site *)(uintptr_t)site);

	return d->reloads.phase == RELOAD_READING;
}

void reload_run_init(struct reload_run *r)
{
	memset(r, 0, sizeof(*r));
	deadline_init(&r->users_due, next_users);
}

void reload_run_stop(struct daemon *d)
{
	struct reload_run *r = &d->reloads;

	if (r->job)
		load_job_cancel(r->job);
	r->job = NULL;
	deadline_clear(d->site.loop, &r->users_due);
	userlist_unref(&r->users);
	userlist_unref(&r->old_users);
	config_unref(&r->old);
}
