/*
 * Pause, resume and the ways to shut down: what they change for everybody.  Who is
 * told, and by what, is up to the pools.
 */
#include "modes.h"

#include "admin/wait.h"
#include "daemon.h"
#include "notify.h"
#include "session/listen.h"

/* The conditions of a shutdown are looked at three times per second. */
enum { EXIT_CHECK_US = 333000 };

void modes_pause(struct site *site)
{
	site->catalog->paused = true;
	catalog_kick_all(site->catalog, NULL);
}

void modes_resume(struct site *site)
{
	site->catalog->paused = false;
	site->catalog->suspended = false;
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
