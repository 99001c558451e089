#include "daemon/process_state.h"

#include "admin/wait.h"
#include "daemon/daemon.h"
#include "daemon/rebalance.h"
#include "daemon/takeover.h"
#include "handoff/movable.h"
#include "login/listen.h"
#include "session/workers.h"

/* How often it is checked whether a shutdown is complete. */
enum { EXIT_CHECK_US = 333000 };

/* How often it is checked whether a SUSPEND is complete.  It is short because stopped
 * clients wait for the last one. */
enum { SUSPEND_CHECK_US = 10000 };

static void pause_site(struct site *site)
{
	site->catalog->paused = true;
	catalog_schedule_all(site->catalog, NULL);
}

void process_state_pause(struct site *site)
{
	workers_all(site, pause_site);
}

static void suspend_site(struct site *site)
{
	site->catalog->suspended = true;
	catalog_schedule_all(site->catalog, NULL);
}

static void begin_suspend_timeout(struct daemon *d)
{
	struct site *site = &d->site;
	uint64_t limit = site_settings(site)->suspend_timeout;

	d->suspend_until_us = limit ? loop_now(site->loop) + limit : UINT64_MAX;
}

/* Each connection stops between two messages, as soon as it gets there. */
void process_state_suspend(struct site *site)
{
	struct daemon *d = site_daemon(site);

	rebalance_interrupt(site);
	workers_all(site, suspend_site);
	begin_suspend_timeout(d);
	deadline_set(site->loop, &d->suspend_due, loop_now(site->loop));
}

struct stillness {
	size_t client_count;
	bool is_still;
};

static void stop_site(struct site *site, void *ctx)
{
	struct stillness *s = ctx;

	s->is_still = movable_stop(site) && s->is_still;
	s->client_count += site_client_count(site);
}

/* Do all sites stand still, with no connection on its way from one site to another?
 * While a worker does not answer, its clients cannot stop, so suspend_timeout begins
 * after that: they would be closed otherwise when it goes on. */
static bool is_still(struct daemon *d)
{
	struct site *site = &d->site;
	struct stillness s = {.is_still = true};
	unsigned missed = workers_each(site, stop_site, &s);

	if (missed > 0)
		begin_suspend_timeout(d);
	return missed == 0 && s.is_still &&
	       s.client_count == workers_client_count(site);
}

static void drop_rest(struct site *site, void *ctx)
{
	(void)ctx;
	movable_drop_rest(site);
}

void process_state_suspend_check(struct deadline *due)
{
	struct daemon *d = container_of(due, struct daemon, suspend_due);
	struct site *site = &d->site;

	if (is_still(d)) {
		site->is_still = true;
		wait_review(site);
		return;
	}
	if (loop_now(site->loop) >= d->suspend_until_us)
		(void)workers_each(site, drop_rest, NULL);
	deadline_set(site->loop, due, loop_now(site->loop) + SUSPEND_CHECK_US);
}

static void resume_site(struct site *site)
{
	bool was_suspended = site->catalog->suspended;

	site->catalog->paused = site->catalog->suspended = false;
	if (was_suspended)
		movable_start(site);
	catalog_schedule_all(site->catalog, NULL);
}

void process_state_resume(struct site *site)
{
	takeover_interrupt(site, "RESUME");
	site->is_still = false;
	deadline_clear(site->loop, &site_daemon(site)->suspend_due);
	workers_all(site, resume_site);
	wait_review(site);
}

static void add_servers(struct site *site, void *ctx)
{
	size_t *count = ctx;

	*count += site->server_count;
}

const char *process_state_exit_reason(struct site *site)
{
	size_t servers = 0;

	switch (site->shutdown) {
	case SHUTDOWN_WAIT_FOR_CLIENTS:
		if (workers_client_count(site) == 0)
			return "client connections dropped, exiting";
		break;
	case SHUTDOWN_WAIT_FOR_SERVERS:
		if (workers_each(site, add_servers, &servers) == 0 && servers == 0)
			return "server connections dropped, exiting";
		break;
	case SHUTDOWN_NONE:
	case SHUTDOWN_NOW:
		break;
	}
	return NULL;
}

void process_state_exit_check(struct deadline *due)
{
	struct daemon *d = container_of(due, struct daemon, exit_due);
	struct site *site = &d->site;
	const char *reason = process_state_exit_reason(site);

	if (!reason) {
		deadline_set(site->loop, due, loop_now(site->loop) + EXIT_CHECK_US);
		return;
	}
	log_info(site->log, "%s", reason);
	loop_stop(site->loop);
}

static void go_down_with_clients(struct site *site)
{
	site->shutdown = SHUTDOWN_WAIT_FOR_CLIENTS;
}

static void go_down_with_servers(struct site *site)
{
	site->shutdown = SHUTDOWN_WAIT_FOR_SERVERS;
	site->catalog->refuse_waiting = true;
}

void process_state_shutdown(struct site *site, enum shutdown_mode mode)
{
	struct daemon *d = site_daemon(site);

	if (mode == SHUTDOWN_NOW) {
		site->shutdown = mode;
		loop_stop(site->loop);
		return;
	}
	listen_close(site, false);
	workers_all(site, mode == SHUTDOWN_WAIT_FOR_SERVERS ? go_down_with_servers
							    : go_down_with_clients);
	if (mode == SHUTDOWN_WAIT_FOR_SERVERS)
		process_state_pause(site);
	/* not in this turn, so that clients that are refused get their error first */
	deadline_set(site->loop, &d->exit_due, loop_now(site->loop) + EXIT_CHECK_US);
}
