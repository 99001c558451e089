#include "daemon/signals.h"

#include <signal.h>

#include "daemon/daemon.h"
#include "daemon/notify.h"
#include "daemon/takeover.h"

/* The console's SHUTDOWN does not tell the manager: a new process that takes the
 * listening sockets gives it, and the service goes on with that one. */
static void stop(struct site *site, enum shutdown_mode mode)
{
	if (site->shutdown == SHUTDOWN_NONE)
		notify_stopping();
	site->verbs->shutdown(site, mode);
}

static void fast_exit(struct site *site)
{
	stop(site, SHUTDOWN_NOW);
}

/* A signal that stops this process at the beginning of a takeover: nothing has been
 * taken over yet, so the old process continues. */
static bool ends_takeover(struct site *site)
{
	struct daemon *d = site_daemon(site);

	if (!takeover_is_beginning(d))
		return false;
	d->is_cut_short = true;
	loop_stop(site->loop);
	return true;
}

/* A suspended process cannot shut down gracefully, because its clients have stopped: it
 * exits at once. */
static bool is_suspended(struct site *site)
{
	if (!site->catalog->suspended)
		return false;
	log_fatal(site->log, "suspend was in progress, going down immediately");
	site_daemon(site)->is_cut_short = true;
	fast_exit(site);
	return true;
}

static void on_hup(void *ctx, int signo)
{
	struct site *site = ctx;
	struct err ignored; /* the reload has logged it */

	(void)signo;
	takeover_interrupt(site, "got SIGHUP");
	log_put(
	    site->log, LEVEL_LOG | KIND_RELOAD, NULL, "got SIGHUP, re-reading config");
	notify_reloading();
	if (site->verbs->reload(site, NULL, &ignored) <= 0)
		notify_ready();
}

static void on_term(void *ctx, int signo)
{
	struct site *site = ctx;

	(void)signo;
	takeover_interrupt(site, "got SIGTERM");
	if (ends_takeover(site) || is_suspended(site))
		return;
	if (site->shutdown != SHUTDOWN_NONE) {
		log_info(site->log, "got SIGTERM while shutting down, fast exit");
		fast_exit(site);
		return;
	}
	log_info(site->log,
	    "got SIGTERM, shutting down, waiting for all clients disconnect");
	stop(site, SHUTDOWN_WAIT_FOR_CLIENTS);
}

static void on_int(void *ctx, int signo)
{
	struct site *site = ctx;

	(void)signo;
	takeover_interrupt(site, "got SIGINT");
	if (ends_takeover(site) || is_suspended(site))
		return;
	if (site->shutdown != SHUTDOWN_NONE) {
		log_info(site->log, "got SIGINT while shutting down, fast exit");
		fast_exit(site);
		return;
	}
	log_info(site->log, "got SIGINT, shutting down, waiting for all servers "
			    "connections to be released");
	stop(site, SHUTDOWN_WAIT_FOR_SERVERS);
}

static void on_quit(void *ctx, int signo)
{
	struct site *site = ctx;

	(void)signo;
	takeover_interrupt(site, "got SIGQUIT");
	if (ends_takeover(site))
		return;
	log_info(site->log, "got SIGQUIT, fast exit");
	fast_exit(site);
}

static void on_usr1(void *ctx, int signo)
{
	struct site *site = ctx;

	(void)signo;
	takeover_interrupt(site, "got SIGUSR1");
	if (site->catalog->paused || site->catalog->suspended) {
		log_info(site->log, "got SIGUSR1, but already paused/suspended");
		return;
	}
	log_info(site->log, "got SIGUSR1, pausing all activity");
	site->verbs->pause(site);
}

static void on_usr2(void *ctx, int signo)
{
	struct site *site = ctx;
	const struct catalog *catalog = site->catalog;

	(void)signo;
	takeover_interrupt(site, "got SIGUSR2");
	if (site->shutdown != SHUTDOWN_NONE) {
		log_info(site->log, "got SIGUSR2 while shutting down, ignoring");
		return;
	}
	if (!catalog->paused && !catalog->suspended) {
		log_info(site->log, "got SIGUSR2, but not paused/suspended");
		return;
	}
	log_info(site->log, "got SIGUSR2, continuing from %s",
	    catalog->suspended ? "SUSPEND" : "PAUSE");
	site->verbs->resume(site);
}

int signals_start(struct site *site, struct err *err)
{
	if (loop_prepare_signals(site->loop, err) < 0)
		return -1;
	/* who ignores it is not told how its programs have ended, and whoever starts
	 * this process may ignore it */
	signal(SIGCHLD, SIG_DFL);
	loop_on_signal(site->loop, SIGHUP, on_hup, site);
	loop_on_signal(site->loop, SIGTERM, on_term, site);
	loop_on_signal(site->loop, SIGINT, on_int, site);
	loop_on_signal(site->loop, SIGQUIT, on_quit, site);
	loop_on_signal(site->loop, SIGUSR1, on_usr1, site);
	loop_on_signal(site->loop, SIGUSR2, on_usr2, site);
	return 0;
}
