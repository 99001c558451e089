/*
 * Puts a loaded snapshot in force and logs what it changes.  loaded_config.c loads it;
 * the catalog applies it to databases and users.
 */
#include "daemon/reload.h"

#include <time.h>

#include "base/errors.h"
#include "daemon/config_apply.h"
#include "daemon/config_diff.h"
#include "login/listen.h"
#include "metrics/metrics.h"
#include "session/oauth_issuers.h"
#include "session/passwords.h"
#include "session/salted.h"
#include "session/tickets.h"
#include "session/workers.h"

/* ---- taking over ---- */

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
	struct config_apply *apply = config_apply_new(&d->in_force, next);
	config_apply_spread(site, apply);
	config_apply_unref(&apply);
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
		struct config_apply *apply = config_apply_new(&d->in_force, &next);
		config_apply_limit_to_tls(apply);
		config_apply_spread(&d->site, apply);
		config_apply_unref(&apply);
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
