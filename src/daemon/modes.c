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

/* The conditions of a shutdown are looked at three times per second. */
enum { EXIT_CHECK_US = 333000 };

/* Clients stand still while a SUSPEND waits for the last of them. */
enum { SUSPEND_CHECK_US = 10000 };

void modes_pause(struct site *site)
{
	site->catalog->paused = true;
	catalog_kick_all(site->catalog, NULL);
}

/* Everything stops between two messages, as soon as it stands there. */
void modes_suspend(struct site *site)
{
	struct daemon *d = site_daemon(site);
	uint64_t limit = site_settings(site)->suspend_timeout;

	site->catalog->suspended = true;
	d->suspend_until_us = limit ? loop_now(site->loop) + limit : UINT64_MAX;
	catalog_kick_all(site->catalog, NULL);
	deadline_set(site->loop, &d->suspend_due, loop_now(site->loop));
}

void modes_suspend_check(struct deadline *due)
{
	struct daemon *d = container_of(due, struct daemon, suspend_due);
	struct site *site = &d->site;

	if (handover_stop(site)) {
		site->is_still = true;
		wait_review(site);
		return;
	}
	if (loop_now(site->loop) >= d->suspend_until_us)
		handover_drop_rest(site);
	deadline_set(site->loop, due, loop_now(site->loop) + SUSPEND_CHECK_US);
}

static void end_suspend(struct site *site)
{
	site->catalog->suspended = false;
	site->is_still = false;
	deadline_clear(site->loop, &site_daemon(site)->suspend_due);
	handover_start(site);
}

void modes_resume(struct site *site)
{
	takeover_interrupt(site, "RESUME");
	site->catalog->paused = false;
	if (site->catalog->suspended)
		end_suspend(site);
	catalog_kick_all(site->catalog, NULL);
	wait_review(site);
}

const char *modes_exit_reason(const struct site *site)
{
	switch (site->shutdown) {
	case SHUTDOWN_WAIT_FOR_CLIENTS:
		if (site_client_count(site) == 0)
			return "client connections dropped, exiting";
		break;
	case SHUTDOWN_WAIT_FOR_SERVERS:
		if (site->server_count == 0)
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

void modes_shutdown(struct site *site, enum shutdown_mode mode)
{
	struct daemon *d = site_daemon(site);

	if (site->shutdown == SHUTDOWN_NONE)
		notify_stopping();
	site->shutdown = mode;
	if (mode == SHUTDOWN_NOW) {
		loop_stop(site->loop);
		return;
	}
	listen_close(site, false);
	if (mode == SHUTDOWN_WAIT_FOR_SERVERS) {
		site->catalog->refuse_waiting = true;
		modes_pause(site);
	}
	/* not before this turn's work is done: whoever is refused is told first */
	deadline_set(site->loop, &d->exit_due, loop_now(site->loop) + EXIT_CHECK_US);
}
