/*
 * Starts a pooler in this order: configuration, account, pidfile claimed, background,
 * loop, workers, sockets, pidfile published, service; and ends it.  When another
 * process is taken over, what may fail is done before that one is asked to decide.
 */
#include "daemon/daemon.h"

#include <string.h>
#include <unistd.h>

#include "daemon/notify.h"
#include "daemon/process.h"
#include "daemon/process_state.h"
#include "daemon/rebalance.h"
#include "daemon/reload.h"
#include "daemon/reload_run.h"
#include "daemon/signals.h"
#include "daemon/site_build.h"
#include "daemon/sizing.h"
#include "daemon/takeover.h"
#include "daemon/ticker.h"
#include "daemon/version.h"
#include "daemon/worker_threads.h"
#include "login/listen.h"
#include "metrics/metrics.h"
#include "net/tls.h"
#include "session/session.h"

static const struct process_verbs verbs = {
    .reload = reload_run_ask,
    .set = reload_set,
    .is_set_put_off = reload_run_is_reading,
    .shutdown = process_state_shutdown,
    .pause = process_state_pause,
    .suspend = process_state_suspend,
    .resume = process_state_resume,
    .takeover = takeover_give,
    .may_pass_cancel = takeover_may_pass_cancel,
};

/* ---- before anything is opened ---- */

static int switch_user(
    struct daemon *d, const struct settings *settings, struct err *err)
{
	const char *user = d->options->user ? d->options->user : settings->user;

	if (user && *user && process_switch_user(user, err) < 0)
		return -1;
	if (getuid() == 0)
		return err_set(err, "PgBouncer should not run as root");
	return 0;
}

/* Finds a process that runs already: with -R it is taken over, otherwise the start
 * fails. */
static int check_old_process(
    struct daemon *d, const struct settings *settings, struct err *err)
{
	const char *dir = settings->unix_socket_dir;
	bool is_reboot = d->options->is_reboot;

	if (is_reboot) {
		if (!dir || !*dir)
			return err_set(err, "cannot reboot if unix dir not configured");
		if (*dir == '@')
			return err_set(err, "cannot reboot with abstract Unix socket");
		if (d->site.passed_fds > 0)
			return err_set(err, "cannot reboot under service manager");
	}
	if (!listen_is_in_use(&d->site, settings, is_reboot ? 0 : LISTEN_PATIENCE_MS)) {
		if (is_reboot)
			log_put(d->site.log, LEVEL_LOG | KIND_TAKEOVER, NULL,
			    "old process not found, try to continue normally");
		return 0;
	}
	d->takes_over = is_reboot;
	if (is_reboot)
		return 0;
	return err_set(err, "unix socket is in use, cannot continue");
}

/* A service that restarts online continues to log to the journal. */
static bool keeps_stderr(const struct daemon *d)
{
	return d->takes_over && log_has_journal(d->site.log);
}

/* The process that waits in the foreground ends when this one serves, or has failed. */
static int go_background(
    struct daemon *d, const struct settings *settings, struct err *err)
{
	pidfile_init(&d->pidfile, settings->pidfile);
	if (d->options->is_daemon && !d->pidfile.path)
		return err_set(err, "daemon needs pidfile configured");
	if (!d->takes_over &&
	    pidfile_check(&d->pidfile, 0, LISTEN_PATIENCE_MS, d->site.log, err) < 0)
		return -1;
	if (pidfile_claim(&d->pidfile, err) < 0)
		return -1;
	if (!d->options->is_daemon)
		return 0;
	if (!keeps_stderr(d))
		log_quiet(d->site.log, true);
	int rc = process_to_background(&d->starter, err);
	log_forked(d->site.log);
	return rc;
}

/* Becomes the account of the setting `user`, and opens the log file only then, so that
 * the file belongs to that account. */
static int settle(struct daemon *d, const struct loaded_config *c, struct err *err)
{
	const struct settings *settings = &c->config->settings;

	if (getuid() != 0)
		reload_configure_log(d, settings);
	if (switch_user(d, settings, err) < 0)
		return -1;
	reload_configure_log(d, settings);
	/* it may end the process, which has no pidfile yet */
	log_open(d->site.log);
	diagnostics_log_errors(&c->diagnostics, d->site.log);
	reload_tell_warnings(d, c);
	if (check_old_process(d, settings, err) < 0 ||
	    go_background(d, settings, err) < 0)
		return -1;
	return pidfile_write(&d->pidfile, err);
}

/* ---- the parts ---- */

static void log_limits(struct daemon *d)
{
	struct sizing_input input;
	struct sizing sizing;
	bool has_servers;

	sizing_input_init(&input, &d->in_force);
	input.needs_no_hosts = true;
	sizing_init(&sizing, &input);
	long long needed = sizing_descriptors(&sizing, &has_servers);
	process_log_limits(
	    d->site.log, site_settings(&d->site)->max_client_conn, needed, has_servers);
	sizing_done(&sizing);
	sizing_input_done(&input);
}

static int begin_to_serve(struct daemon *d, struct err *err)
{
	struct site *site = &d->site;

	log_limits(d);
	process_ignore_sigpipe();
	if (signals_start(site, err) < 0)
		return -1;
	ticker_start(d);
	rebalance_start(d);
	metrics_start(site);
	if ((d->takes_over ? takeover_take(d, err)
			   : listen_open(site, LISTEN_PATIENCE_MS, err)) < 0)
		return -1;
	/* the old process may need a moment to close its sockets */
	takeover_has_elder(d) ? metrics_wait(site) : metrics_review(site);
	return 0;
}

/* Nothing ends this process any more because of what fails here: clients may have been
 * taken over. */
static void say_up(struct daemon *d)
{
	struct site *site = &d->site;
	struct err err;

	if (pidfile_publish(&d->pidfile, &err) < 0) {
		log_warning(site->log, "%s; this process goes on without it", err.text);
		/* its lock would keep the next process from starting */
		pidfile_remove(&d->pidfile);
	}
	log_info(site->log,
	    "process up: PgBouncer %s, libevent %s (%s), adns: %s, tls: %s",
	    version_number(), loop_library_version(),
	    site->net.ring ? net_engine_name(&site->net) : loop_method(site->loop),
	    dns_library_version(), version_tls());
	d->takes_over ? notify_taken_over() : notify_ready();
	process_tell_starter(&d->starter, keeps_stderr(d));
}

static int start(struct daemon *d, struct err *err)
{
	struct loaded_config first;
	int rc;

	loaded_config_init(&first);
	if (loaded_config_load(&first, d->options->file, NULL, AT_START) < 0) {
		diagnostics_log_errors(&first.diagnostics, d->site.log);
		err_set(err, "%s", loaded_config_failure(&first));
		loaded_config_done(&first);
		return -1;
	}
	rc = settle(d, &first, err);
	if (rc == 0) {
		unsigned workers = worker_threads_count(&first.config->settings);
		if (workers > 1)
			d->workers = workers_new(workers);
		rc = site_build(
		    &d->site, &first.config->settings, d->workers, workers, err);
	}
	if (rc == 0)
		session_keep_salts(&d->site, &first.config->settings);
	if (rc == 0)
		rc = worker_threads_start(d, &first.config->settings, err);
	/* pools must not open servers that the old process has and will hand over */
	if (rc == 0 && d->takes_over)
		takeover_hold_pools(d);
	if (rc == 0)
		reload_adopt(d, &first);
	loaded_config_done(&first);
	return rc == 0 ? begin_to_serve(d, err) : -1;
}

/* ---- the end ---- */

static void take_apart(struct daemon *d)
{
	struct site *site = &d->site;

	pidfile_remove(&d->pidfile);
	pidfile_done(&d->pidfile);
	takeover_stop_giving(d);
	takeover_stop_taking(d);
	takeover_stop_draining(d);
	metrics_stop(&d->site);
	worker_threads_stop(d);
	if (site->loop) {
		struct loop *loop = d->site.loop;
		deadline_clear(loop, &d->exit_due);
		deadline_clear(loop, &d->suspend_due);
		ticker_stop(d);
		rebalance_stop(d);
		if (d->site.catalog)
			reload_run_stop(d);
	}
	log_flush(site->log);
	/* connections that do not close now are closed by the exit */
	if (d->threads)
		return;
	if (site_build_empty(site) < 0)
		return;
	site_build_free(site);
	workers_free(&d->workers);
	loaded_config_done(&d->in_force);
	log_free(&site->log);
}

static void daemon_init(struct daemon *d, const struct options *options)
{
	struct log_config to_stderr = {.file = NULL};

	memset(d, 0, sizeof(*d));
	d->options = options;
	d->starter = -1;
	pidfile_init(&d->pidfile, NULL);
	loaded_config_init(&d->in_force);
	deadline_init(&d->exit_due, process_state_exit_check);
	deadline_init(&d->suspend_due, process_state_suspend_check);
	ticker_init(d);
	reload_run_init(&d->reloads);
	mem_init(&d->site.mem);
	d->site.version = version_number();
	d->site.verbs = &verbs;
	listen_note_passed(&d->site);
	d->site.log = log_new();
	log_levels_set_all(&to_stderr.levels, options->verbose);
	log_configure(d->site.log, &to_stderr);
	if (options->is_quiet)
		log_quiet(d->site.log, true);
}

int daemon_run(const struct options *options)
{
	struct daemon d;
	struct err err;
	int rc;

	tls_stay_at_exit();
	daemon_init(&d, options);
	rc = start(&d, &err);
	if (rc == 0) {
		say_up(&d);
		/* a signal may have come in the turn in which the takeover succeeded */
		if (d.site.shutdown != SHUTDOWN_NOW)
			site_build_run(&d.site);
	} else {
		/* whoever has given -d waits for this line */
		if (d.starter >= 0 && !options->is_quiet)
			log_quiet(d.site.log, false);
		log_put_lines(d.site.log, LEVEL_FATAL, err.text);
	}
	rc = rc == 0 && !d.is_cut_short ? 0 : 1;
	take_apart(&d);
	/* a thread that stands still may go on, and use what the exit would free */
	if (d.threads)
		_exit(rc);
	return rc;
}
