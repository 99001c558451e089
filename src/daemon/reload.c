#include "daemon/reload.h"

#include <stdatomic.h>
#include <time.h>

#include "broker/broker.h"
#include "cancel/peers.h"
#include "daemon/config_diff.h"
#include "login/listen.h"
#include "metrics/metrics.h"
#include "net/dns.h"
#include "session/oauth_issuers.h"
#include "session/passwords.h"
#include "session/salted.h"
#include "session/session.h"
#include "session/tickets.h"
#include "session/workers.h"

/* What changes when all sites take over a new snapshot. */
struct config_apply {
	struct config *config;      /* one reference, as of the next two members */
	struct access_rules *rules; /* NULL: auth_type needs no rules */
	struct tls_setup *tls;
	struct userlist *users; /* one reference; NULL: the list in force stays */
	atomic_uint refs;       /* one for each site that has to take it over */
	bool is_obsoleting; /* TLS settings of servers have changed: their connections
			       are replaced */
	bool is_tls_only;
};

static void apply_unref(struct config_apply *a)
{
	if (atomic_fetch_sub(&a->refs, 1) > 1)
		return;
	config_unref(&a->config);
	access_rules_unref(&a->rules);
	tls_setup_unref(&a->tls);
	userlist_unref(&a->users);
	mem_free(a);
}

/* ---- one site takes over ---- */

/* Every site reports the same change; only the control site logs it. */
static void note_change(void *ctx, unsigned level, const char *text)
{
	const struct site *site = ctx;

	if (workers_is_control(site))
		log_put(site->log, level | KIND_RELOAD, NULL, "%s", text);
}

static void apply_to(struct site *site, const struct config_apply *a)
{
	const struct settings *s = &a->config->settings;

	if (!a->is_tls_only)
		catalog_adopt(site->catalog, a->config, a->users, note_change, site);
	if (a->is_obsoleting)
		catalog_mark_dirty(site->catalog, NULL);
	/* logins and connections keep the old rules and contexts that they hold
	 * references to */
	struct access_rules *old_rules = site->rules;
	struct tls_setup *old_tls = site->tls;
	site->rules = access_rules_ref(a->rules);
	site->tls = tls_setup_ref(a->tls);
	access_rules_unref(&old_rules);
	tls_setup_unref(&old_tls);
	if (a->is_tls_only)
		return;
	site->net.rounds = s->sbuf_loopcnt;
	dns_configure(
	    site->dns, s->dns_max_ttl, s->dns_nxdomain_ttl, s->dns_zone_check_period);
	session_review(site);
	broker_review(site);
	peers_review(site);
}

/* ---- all sites take over ---- */

static void adopt(struct site *site, const void *what)
{
	struct config_apply *a = *(struct config_apply *const *)what;

	apply_to(site, a);
	apply_unref(a);
}

static void apply_to_all(struct site *control, const struct loaded_config *running,
    const struct loaded_config *next, bool is_tls_only)
{
	struct config_apply *a = mem_zero(sizeof(*a));

	a->refs = workers_site_count(control);
	a->config = config_ref(next->config);
	a->rules = access_rules_ref(next->rules);
	a->tls = tls_setup_ref(next->tls ? next->tls : running->tls);
	a->users = userlist_ref(next->users);
	a->is_obsoleting = running->tls && next->tls &&
			   tls_setup_is_obsoleting(running->tls, next->tls);
	a->is_tls_only = is_tls_only;
	workers_broadcast(control, adopt, &a, sizeof(a));
}

/* ---- the process takes over ---- */

void reload_configure_log(struct daemon *d, const struct settings *s)
{
	struct log_config config = {
	    .file = s->logfile,
	    .syslog = s->syslog,
	    .syslog_ident = s->syslog_ident,
	    .syslog_facility = s->syslog_facility,
	    .format = s->log_format == LOG_FORMAT_JSON ? LOG_JSON : LOG_PLAIN,
	};

	/* settings such as log_connections switch off kinds of lines, unless log_levels
	 * sets the level of that kind */
	char text[32];
	/* the setting `verbose`, if it is set, replaces the count of -v */
	int verbose = setting_print(setting_find("verbose"), s, text, sizeof(text))
			  ? s->verbose
			  : d->options->verbose;
	log_levels_set_all(&config.levels, verbose);
	if (!s->log_connections)
		log_levels_set(&config.levels, KIND_CONNECTIONS, LEVEL_WARNING);
	if (!s->log_disconnections)
		log_levels_set(&config.levels, KIND_DISCONNECTIONS, LEVEL_WARNING);
	if (!s->log_pooler_errors)
		log_levels_set(&config.levels, KIND_POOLER_ERRORS, LEVEL_ERROR);
	if (!s->log_stats)
		log_levels_set(&config.levels, KIND_STATS, LEVEL_WARNING);
	/* cannot fail: it was checked when the configuration was loaded */
	(void)log_levels_parse(&config.levels, s->log_levels, NULL);
	log_configure(d->site.log, &config);
}

void reload_adopt(struct daemon *d, struct loaded_config *next)
{
	struct site *site = &d->site;
	const struct settings *s = &next->config->settings;

	site->loaded_s = time(NULL);
	reload_configure_log(d, s);
	log_put(site->log, LEVEL_DEBUG | KIND_RELOAD, NULL,
	    "configuration of %s: %zu databases, %zu users, %zu peers",
	    next->config->file, next->config->database_count, next->config->user_count,
	    next->config->peer_count);
	apply_to_all(site, &d->in_force, next, false);
	loaded_config_take(&d->in_force, next);
	listen_apply_settings(site);
	metrics_review(site);
	if (s->tls_reload_period)
		deadline_set(site->loop, &d->tls_due,
		    loop_now(site->loop) + s->tls_reload_period);
	else
		deadline_clear(site->loop, &d->tls_due);
	/* idle timeouts may have become shorter */
	deadline_set(site->loop, &d->tidy_due, loop_now(site->loop));
}

void reload_changed_tls(struct daemon *d)
{
	struct loaded_config next;

	loaded_config_init(&next);
	if (loaded_config_load_tls(&next, &d->in_force) > 0) {
		log_put(d->site.log, LEVEL_LOG | KIND_TLS, NULL,
		    "certificate files have changed, using them");
		apply_to_all(&d->site, &d->in_force, &next, true);
		loaded_config_take(&d->in_force, &next);
		metrics_review(&d->site);
	}
	diagnostics_log_errors(&next.diagnostics, d->site.log);
	loaded_config_done(&next);
}

void reload_tell_warnings(struct daemon *d, const struct loaded_config *c)
{
	if (!diagnostics_are_equal(&d->in_force.diagnostics, &c->diagnostics))
		diagnostics_log_warnings(&c->diagnostics, d->site.log);
}

/* ---- the verbs ---- */

static void forget_salted(struct site *site, void *ctx)
{
	(void)ctx;
	salted_forget_all(site);
}

int reload_take(struct daemon *d, struct loaded_config *next, int result,
    struct userlist **users, struct err *err)
{
	struct site *site = &d->site;
	struct buf line;

	site->has_refused_reload = result < 0;
	if (result < 0) {
		/* the new snapshot is refused: logs why, and the one in force stays */
		diagnostics_log_errors(&next->diagnostics, d->site.log);
		log_put(d->site.log, LEVEL_WARNING | KIND_RELOAD, NULL,
		    "config file loading failed");
		reload_configure_log(d, site_settings(&d->site));
		diagnostics_errors(&next->diagnostics, err);
		return -1;
	}
	log_put(
	    site->log, LEVEL_DEBUG | KIND_RELOAD, NULL, "reload: everything is read");
	diagnostics_log_errors(&next->diagnostics, site->log);
	reload_tell_warnings(d, next);
	buf_init(&line, 0);
	config_diff_put(&line, &d->in_force, next);
	log_put(d->site.log, LEVEL_LOG | KIND_RELOAD, NULL,
	    "configuration reloaded, changed: %s", buf_text(&line));
	buf_done(&line);
	if (users) {
		*users = next->users;
		next->users = NULL;
	}
	reload_adopt(d, next);
	log_put(site->log, LEVEL_DEBUG | KIND_RELOAD, NULL,
	    "reload: databases, users, rules and certificates are in force");
	(void)workers_each(site, forget_salted, NULL);
	passwords_forget_all(site);
	oauth_issuers_renew(site);
	tickets_forget_all(site);
	log_put(site->log, LEVEL_DEBUG | KIND_RELOAD, NULL,
	    "reload: derived keys are forgotten");
	return 0;
}

int reload_set(struct site *site, const char *name, const char *value, struct err *err)
{
	struct daemon *d = site_daemon(site);
	struct loaded_config next;
	int rc;

	loaded_config_init(&next);
	rc = loaded_config_set(&next, &d->in_force, name, value, err);
	diagnostics_log_errors(&next.diagnostics, site->log);
	diagnostics_log_warnings(&next.diagnostics, site->log);
	if (rc >= 0)
		reload_adopt(d, &next);
	loaded_config_done(&next);
	return rc;
}
