/*
 * Pause, resume and the ways to shut down: what they change for everybody.  Who is
 * told, and by what, is up to the pools.
 */
#include "daemon/modes.h"

#include "admin/wait.h"
#include "daemon/daemon.h"
#include "daemon/notify.h"
#include "daemon/takeover.h"
#include "login/listen.h"
#include "moving/handover.h"
#include "session/crew.h"

/* The conditions of a shutdown are looked at three times per second. */
enum { EXIT_CHECK_US = 333000 };

/* Clients stand still while a SUSPEND waits for the last of them. */
enum { SUSPEND_CHECK_US = 10000 };

static void pause_site(struct site *site, void *ctx)
{
	(void)ctx;
	site->catalog->paused = true;
	catalog_kick_all(site->catalog, NULL);
}

void modes_pause(struct site *site)
{
	(void)crew_each(site, pause_site, NULL);
}

static void suspend_site(struct site *site, void *ctx)
{
	(void)ctx;
	site->catalog->suspended = true;
	catalog_kick_all(site->catalog, NULL);
}

/* Everything stops between two messages, as soon as it stands there. */
void modes_suspend(struct site *site)
{
	struct daemon *d = site_daemon(site);
	uint64_t limit = site_settings(site)->suspend_timeout;

	(void)crew_each(site, suspend_site, NULL);
	d->suspend_until_us = limit ? loop_now(site->loop) + limit : UINT64_MAX;
	deadline_set(site->loop, &d->suspend_due, loop_now(site->loop));
}

struct stillness {
	bool is_still;
};

static void stop_site(struct site *site, void *ctx)
{
	struct stillness *s = ctx;

	s->is_still = handover_stop(site) && s->is_still;
}

static void drop_rest(struct site *site, void *ctx)
{
	(void)ctx;
	handover_drop_rest(site);
}

void modes_suspend_check(struct deadline *due)
{
	struct daemon *d = container_of(due, struct daemon, suspend_due);
	struct site *site = &d->site;

	struct stillness s = {.is_still = true};
	if (crew_each(site, stop_site, &s) == 0 && s.is_still) {
		site->is_still = true;
		wait_review(site);
		return;
	}
	if (loop_now(site->loop) >= d->suspend_until_us)
		(void)crew_each(site, drop_rest, NULL);
	deadline_set(site->loop, due, loop_now(site->loop) + SUSPEND_CHECK_US);
}

static void resume_site(struct site *site, void *ctx)
{
	bool was_suspended = site->catalog->suspended;

	(void)ctx;
	site->catalog->paused = site->catalog->suspended = false;
	if (was_suspended)
		handover_start(site);
	catalog_kick_all(site->catalog, NULL);
}

void modes_resume(struct site *site)
{
	takeover_interrupt(site, "RESUME");
	site->is_still = false;
	deadline_clear(site->loop, &site_daemon(site)->suspend_due);
	(void)crew_each(site, resume_site, NULL);
	wait_review(site);
}

static void add_servers(struct site *site, void *ctx)
{
	size_t *count = ctx;

	*count += site->server_count;
}

const char *modes_exit_reason(struct site *site)
{
	size_t servers = 0;

	switch (site->shutdown) {
	case SHUTDOWN_WAIT_FOR_CLIENTS:
		if (crew_client_count(site) == 0)
			return "client connections dropped, exiting";
		break;
	case SHUTDOWN_WAIT_FOR_SERVERS:
		if (crew_each(site, add_servers, &servers) == 0 && servers == 0)
			return "server connections dropped, exiting";
		break;
	case SHUTDOWN_NONE:
	case SHUTDOWN_NOW:
		break;
	}
	return NULL;
}

void modes_exit_check(struct deadline *due)
{
	struct daemon *d = container_of(due, struct daemon, exit_due);
	struct site *site = &d->site;
	const char *reason = modes_exit_reason(site);

	if (!reason) {
		deadline_set(site->loop, due, loop_now(site->loop) + EXIT_CHECK_US);
		return;
	}
	log_info(site->log, "%s", reason);
	loop_stop(site->loop);
}

struct going_down {
	enum shutdown_mode mode;
};

static void go_down(struct site *site, void *ctx)
{
	const struct going_down *down = ctx;

	site->shutdown = down->mode;
	if (down->mode == SHUTDOWN_WAIT_FOR_SERVERS)
		site->catalog->refuse_waiting = true;
}

void modes_shutdown(struct site *site, enum shutdown_mode mode)
{
	struct daemon *d = site_daemon(site);

	if (site->shutdown == SHUTDOWN_NONE)
		notify_stopping();
	struct going_down down = {mode};
	if (mode == SHUTDOWN_NOW)
		site->shutdown = mode;
	else
		(void)crew_each(site, go_down, &down);
	if (mode == SHUTDOWN_NOW) {
		loop_stop(site->loop);
		return;
	}
	listen_close(site, false);
	if (mode == SHUTDOWN_WAIT_FOR_SERVERS)
		modes_pause(site);
	/* not before this turn's work is done: whoever is refused is told first */
	deadline_set(site->loop, &d->exit_due, loop_now(site->loop) + EXIT_CHECK_US);
}
