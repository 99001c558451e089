#include "daemon/site_build.h"

#include <string.h>

#include "admin/console.h"
#include "admin/wait.h"
#include "broker/broker.h"
#include "broker/host_monitor.h"
#include "cancel/peers.h"
#include "login/listen.h"
#include "login/login.h"
#include "relay/relay.h"
#include "session/migrate.h"
#include "session/session.h"
#include "session/tls_setup.h"

/* ---- the engine ---- */

static void ring_lost(void *ctx, int errnum)
{
	struct site *site = ctx;

	log_warning(site->log,
	    "io_uring failed: %s; all connections go on with io_engine epoll",
	    strerror(errnum));
}

/* Logs what is the same for all sites only once, at the control site. */
static void __attribute__((format(printf, 2, 3)))
tell(const struct site *site, const char *fmt, ...)
{
	va_list ap;

	if (!workers_is_control(site))
		return;
	va_start(ap, fmt);
	log_putv(site->log, LEVEL_LOG, NULL, fmt, ap);
	va_end(ap);
}

/* Starts io_uring if the settings ask for it, or if they are "auto" and the kernel
 * allows it; logs which engine is used. */
static int start_engine(
    struct site *site, const struct settings *settings, struct err *err)
{
	struct err why;

	if (settings->io_engine == IO_ENGINE_EPOLL) {
		tell(site, "io_engine is epoll, as configured");
		return 0;
	}
	if (net_start_ring(&site->net, ring_lost, site, &why) == 0) {
		tell(site, "io_engine is io_uring%s",
		    settings->io_engine == IO_ENGINE_URING ? ", as configured" : "");
		return 0;
	}
	if (settings->io_engine == IO_ENGINE_URING)
		return err_set(err,
		    "io_engine is io_uring, which is not available: %s; use auto or "
		    "epoll",
		    why.text);
	tell(site, "io_engine is epoll, because io_uring is not available: %s",
	    why.text);
	if (!workers_is_control(site) &&
	    workers_control(site->worker->workers)->site->net.ring)
		log_warning(site->log,
		    "worker %u uses io_engine epoll, because io_uring is not "
		    "available: "
		    "%s; raise the limit of locked memory (LimitMEMLOCK, ulimit -l) or "
		    "use fewer workers",
		    site->worker->index, why.text);
	return 0;
}

/* ---- making ---- */

static void on_zone(void *ctx, const struct dns_zone_news *news)
{
	struct site *site = ctx;

	/* each site looks up names itself: only the first one logs it */
	if (!workers_log_once(
		site, news->zone, news->failure ? UINT64_MAX : news->serial))
		return;
	if (news->failure)
		log_put(site->log, LEVEL_WARNING | KIND_DNS, NULL,
		    "zone '%s' has no serial: %s", news->zone, news->failure);
	else
		log_put(site->log, LEVEL_LOG | KIND_DNS, NULL,
		    "zone '%s' serial changed: old=%u new=%u", news->zone,
		    news->old_serial, news->serial);
}

int site_build(struct site *site, const struct settings *settings,
    struct workers *workers, unsigned index, struct err *err)
{
	site->loop = loop_new(&site->mem, err);
	if (!site->loop)
		return -1;
	net_init(&site->net, site->loop, &site->mem);
	if (workers && workers_join(workers, index, site, err) < 0)
		return -1;
	if (start_engine(site, settings, err) < 0)
		return -1;
	site->dns =
	    dns_new(site->loop, settings->resolv_conf, workers ? index : 0, err);
	if (!site->dns)
		return -1;
	dns_on_change(site->dns, broker_lose_address, site);
	dns_on_zone(site->dns, on_zone, site);
	site->vars = vars_schema_new(settings->track_extra_parameters);
	if (workers)
		vars_schema_share(site->vars, workers->reported_names);
	site->catalog = catalog_new(&site->mem);
	if (workers) {
		/* Joins the counts of limits, which hold for all sites together.  The
		 * control site of several workers serves no clients of pools. */
		catalog_share(site->catalog, workers->central, index);
		site->catalog->view.serves_nobody = index == workers->worker_count;
	}
	/* the other floors are made even if this fails, because site_build_free frees
	 * all of them */
	int rc = session_init(site, err);
	broker_init(site);
	peers_init(site);
	relay_init(site);
	login_init(site);
	site->waits = waits_new(site);
	catalog_set_service(site->catalog, &relay_service);
	catalog_add_admin(site->catalog, &console_service);
	return rc;
}

/* ---- running ---- */

static void flush_log(void *ctx)
{
	struct site *site = ctx;

	log_flush(site->log);
}

void site_build_run(struct site *site)
{
	log_hold(site->log);
	loop_on_turn_end(site->loop, flush_log, site);
	loop_run(site->loop);
	log_release(site->log);
}

/* ---- unmaking ---- */

/* The process must end, even if a connection does not close. */
enum { TURNS_MAX = 1000 };

struct last_turn {
	struct deadline due;
	struct loop *loop;
};

static void turned(struct deadline *due)
{
	loop_stop(container_of(due, struct last_turn, due)->loop);
}

static bool is_empty(const struct site *site)
{
	return session_is_empty(site) && peers_are_idle(site);
}

int site_build_drop_all(struct site *site)
{
	struct last_turn turn = {.loop = site->loop};

	deadline_init(&turn.due, turned);
	/* so that no pool opens new servers */
	site->catalog->paused = true;
	host_monitor_end(site);
	for (int i = 0; i < TURNS_MAX && !is_empty(site); i++) {
		session_drop_all(site);
		peers_drop_all(site);
		deadline_set(site->loop, &turn.due, loop_now(site->loop));
		loop_run(site->loop);
	}
	deadline_clear(site->loop, &turn.due);
	return is_empty(site) ? 0 : -1;
}

int site_build_empty(struct site *site)
{
	if (!site->catalog)
		return 0;
	/* messages that still arrive must not bring new clients or servers */
	site->shutdown = SHUTDOWN_NOW;
	listen_close(site, true);
	return site_build_drop_all(site);
}

void site_build_free(struct site *site)
{
	/* what has arrived last needs the floors */
	workers_leave(site);
	if (site->catalog) {
		migrate_end(site);
		waits_free(&site->waits);
		broker_stop(site);
		catalog_free(&site->catalog);
		session_done(site);
		login_done(site);
		relay_done(site);
		peers_done(site);
		broker_done(site);
		vars_schema_free(&site->vars);
		access_rules_unref(&site->rules);
		tls_setup_unref(&site->tls);
	}
	dns_free(&site->dns);
	if (site->loop)
		net_done(&site->net);
	loop_free(&site->loop);
}
