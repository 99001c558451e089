/*
 * Wires a pooler together, in the order that operators see: configuration, user,
 * pidfile, background, loop, sockets, service; and takes it apart again.  What the
 * parts do is theirs.
 */
#include "daemon.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/console.h"
#include "modes.h"
#include "notify.h"
#include "process.h"
#include "reload.h"
#include "session/broker.h"
#include "session/listen.h"
#include "session/relay.h"
#include "session/session.h"
#include "session/tls_setup.h"
#include "signals.h"
#include "ticker.h"
#include "version.h"

/* An exit must come, whatever a connection does. */
enum { EMPTYING_TURNS_MAX = 1000 };

static const struct process_verbs verbs = {
    .reload = reload_all,
    .set = reload_set,
    .shutdown = modes_shutdown,
    .pause = modes_pause,
    .resume = modes_resume,
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

/* A running process is not taken over; -R goes on where there is none. */
static int check_old_process(
    struct daemon *d, const struct settings *settings, struct err *err)
{
	const char *dir = settings->unix_socket_dir;
	bool is_reboot = d->options->is_reboot;

	if (is_reboot) {
		log_warning(d->site.log,
		    "Online restart is deprecated, use so_reuseport instead");
		if (!dir || !*dir)
			return err_set(err, "cannot reboot if unix dir not configured");
		if (*dir == '@')
			return err_set(err, "cannot reboot with abstract Unix socket");
		if (getenv("LISTEN_FDS"))
			return err_set(err, "cannot reboot under service manager");
	}
	if (!listen_is_in_use(settings)) {
		if (is_reboot)
			log_info(d->site.log,
			    "old process not found, try to continue normally");
		return 0;
	}
	if (is_reboot)
		return err_set(err, "online restart is not supported by this version, "
				    "use so_reuseport instead");
	return err_set(err, "unix socket is in use, cannot continue");
}

static int go_background(
    struct daemon *d, const struct settings *settings, struct err *err)
{
	const char *pidfile = settings->pidfile;
	bool has_pidfile = pidfile && *pidfile;

	if (d->options->is_daemon && !has_pidfile)
		return err_set(err, "daemon needs pidfile configured");
	if (has_pidfile && process_check_pidfile(pidfile, d->site.log, err) < 0)
		return -1;
	if (!d->options->is_daemon)
		return 0;
	log_quiet(d->site.log);
	return process_to_background(err);
}

/* Only what the process was meant to own may be created: so the log file is not opened
 * before the user is settled. */
static int settle(struct daemon *d, const struct loaded *l, struct err *err)
{
	const struct settings *settings = &l->config->settings;

	if (getuid() != 0)
		reload_configure_log(d, settings);
	if (switch_user(d, settings, err) < 0)
		return -1;
	reload_configure_log(d, settings);
	reload_tell(d, l);
	if (check_old_process(d, settings, err) < 0)
		return -1;
	return go_background(d, settings, err);
}

/* ---- the parts ---- */

static int build(struct daemon *d, const struct settings *settings, struct err *err)
{
	struct site *site = &d->site;

	site->loop = loop_new(&site->mem, err);
	if (!site->loop)
		return -1;
	net_init(&site->net, site->loop, &site->mem);
	site->dns = dns_new(site->loop, settings->resolv_conf, err);
	if (!site->dns)
		return -1;
	dns_on_change(site->dns, broker_lose_address, site);
	site->vars = vars_schema_new(settings->track_extra_parameters);
	site->catalog = catalog_new(&site->mem);
	site->verbs = &verbs;
	if (session_init(site, err) < 0)
		return -1;
	site->consoles = consoles_new(site);
	catalog_set_service(site->catalog, &relay_service);
	return 0;
}

/* Server connections of every database at its largest, for each user that may come. */
static long long expected_descriptors(const struct catalog *c)
{
	long long sum = c->config->settings.max_client_conn + 10LL;
	long long users = (long long)map_count(c->users);
	const struct database *db;
	size_t at = 0;

	while ((db = map_next(c->databases, &at)))
		sum += database_pool_size(db) * (db->forced_user ? 1LL : users);
	return sum;
}

static int open_doors(struct daemon *d, struct err *err)
{
	struct site *site = &d->site;
	const struct settings *settings = site_settings(site);
	const char *pidfile = settings->pidfile;

	process_log_limits(
	    site->log, settings->max_client_conn, expected_descriptors(site->catalog));
	process_ignore_sigpipe();
	signals_start(site);
	ticker_start(d);
	if (listen_open(site, err) < 0)
		return -1;
	if (!pidfile || !*pidfile)
		return 0;
	if (process_write_pidfile(pidfile, err) < 0)
		return -1;
	d->owns_pidfile = true;
	return 0;
}

static void say_up(struct daemon *d)
{
	struct site *site = &d->site;

	log_info(site->log,
	    "process up: PgBouncer %s, libevent %s (%s), adns: %s, tls: %s",
	    version_number(), loop_library_version(), loop_method(site->loop),
	    dns_library_version(), version_tls());
	notify_ready();
}

static int start(struct daemon *d, struct err *err)
{
	struct loaded l;
	int rc;

	if (loaded_read(&l, d->options->file, NULL, err) < 0) {
		reload_log_error(d->site.log, err);
		return err_set(err, "cannot load config file");
	}
	if (loaded_read_tls(&l, err) < 0) {
		log_error(d->site.log, "%s", err->text);
		loaded_done(&l);
		return err_set(err, "TLS setup failed");
	}
	rc = settle(d, &l, err);
	if (rc == 0)
		rc = build(d, &l.config->settings, err);
	if (rc == 0) {
		catalog_add_admin(d->site.catalog, &console_service);
		reload_adopt(d, l.config, l.users, l.access.rules);
		reload_adopt_tls(d, &l.tls);
	}
	loaded_done(&l);
	return rc == 0 ? open_doors(d, err) : -1;
}

/* ---- the end ---- */

static void emptied(struct deadline *due)
{
	struct daemon *d = container_of(due, struct daemon, exit_due);

	loop_stop(d->site.loop);
}

/* Connections close in their own turns, so the loop takes a few more.  0 when all have.
 */
static int drop_connections(struct daemon *d)
{
	struct site *site = &d->site;

	listen_close(site, true);
	/* no pool is filled up again */
	site->catalog->paused = true;
	deadline_clear(site->loop, &d->exit_due);
	d->exit_due.expired = emptied;
	for (int i = 0; i < EMPTYING_TURNS_MAX && !session_is_empty(site); i++) {
		session_drop_all(site);
		deadline_set(site->loop, &d->exit_due, loop_now(site->loop));
		loop_run(site->loop);
	}
	deadline_clear(site->loop, &d->exit_due);
	return session_is_empty(site) ? 0 : -1;
}

static void free_catalog(struct daemon *d)
{
	struct site *site = &d->site;

	ticker_stop(d);
	consoles_free(&site->consoles);
	catalog_free(&site->catalog);
	session_done(site);
	rules_unref(&site->rules);
	vars_schema_free(&site->vars);
	tls_setup_free(&site->tls);
}

static void take_apart(struct daemon *d)
{
	struct site *site = &d->site;

	if (d->owns_pidfile)
		unlink(site_settings(site)->pidfile);
	if (site->catalog) {
		/* whoever cannot be closed now is closed by the system */
		if (drop_connections(d) < 0)
			return;
		free_catalog(d);
	}
	dns_free(&site->dns);
	if (site->loop)
		net_done(&site->net);
	loop_free(&site->loop);
	buf_done(&d->warnings);
	log_free(&site->log);
}

static void daemon_init(struct daemon *d, const struct options *options)
{
	struct log_config to_stderr = {.verbose = options->verbose};

	memset(d, 0, sizeof(*d));
	d->options = options;
	buf_init(&d->warnings, 0);
	deadline_init(&d->exit_due, modes_exit_check);
	ticker_init(d);
	mem_init(&d->site.mem);
	d->site.version = version_number();
	d->site.log = log_new();
	log_configure(d->site.log, &to_stderr);
	if (options->is_quiet)
		log_quiet(d->site.log);
}

int daemon_run(const struct options *options)
{
	struct daemon d;
	struct err err;
	int rc;

	daemon_init(&d, options);
	rc = start(&d, &err);
	if (rc == 0) {
		say_up(&d);
		loop_run(d.site.loop);
	} else {
		log_fatal(d.site.log, "%s", err.text);
	}
	take_apart(&d);
	return rc == 0 ? 0 : 1;
}
