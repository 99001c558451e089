/*
 * Reads configuration and user list, tells what is wrong with them, and takes them
 * over. What a new snapshot means for databases and users is the catalog's business.
 */
#include "reload.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "net/dns.h"
#include "pool/pool.h"
#include "session/derive.h"
#include "session/listen.h"
#include "session/session.h"
#include "session/tls_setup.h"

/* ---- reading ---- */

static void note_warning(void *ctx, const char *where, const char *text)
{
	struct buf *warnings = ctx;

	buf_printf(warnings, "%s%s%s", where, *where ? ": " : "", text);
	buf_put_u8(warnings, '\0');
}

static bool is_list_needed(const struct settings *s)
{
	return s->auth_type != AUTH_ANY && s->auth_type != AUTH_PAM && s->auth_file &&
	       s->auth_file[0];
}

int loaded_read(
    struct loaded *l, const char *path, const struct config *running, struct err *err)
{
	memset(l, 0, sizeof(*l));
	buf_init(&l->warnings, 0);
	l->config = config_load(path, running, note_warning, &l->warnings, err);
	if (!l->config) {
		loaded_done(l);
		return -1;
	}
	if (is_list_needed(&l->config->settings))
		l->users = userlist_load(
		    l->config->settings.auth_file, &l->broken, &l->unreadable);
	if (l->users)
		l->unreadable.text[0] = '\0';
	access_read(&l->access, &l->config->settings);
	return 0;
}

int loaded_read_tls(struct loaded *l, struct err *err)
{
	l->tls = tls_setup_new(l->config, err);
	return l->tls ? 0 : -1;
}

void loaded_done(struct loaded *l)
{
	config_unref(&l->config);
	userlist_free(&l->users);
	access_done(&l->access);
	tls_setup_free(&l->tls);
	buf_done(&l->warnings);
}

/* ---- telling ---- */

void reload_log_error(struct log *log, const struct err *err)
{
	struct buf line;
	const char *at = err->text;

	buf_init(&line, 0);
	while (*at) {
		size_t len = strcspn(at, "\n");

		buf_put(&line, at, len);
		at += len + (at[len] == '\n');
		if (*at == '\t') {
			/* it belongs to the line before; the log indents it again */
			buf_put_u8(&line, '\n');
			at++;
			continue;
		}
		log_error(log, "%s", buf_text(&line));
		buf_clear(&line);
	}
	buf_done(&line);
}

/* The line that log watchers know comes first, then the place and what to do. */
static void log_broken_list(struct log *log, const struct err *broken)
{
	static const char *const known[] = {"username too long in auth file",
	    "password too long in auth file", "broken auth file"};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strstr(broken->text, known[i])) {
			log_error(log, "%s\n%s", known[i], broken->text);
			return;
		}
	log_error(log, "%s", broken->text);
}

static void log_warnings(struct log *log, const struct buf *warnings)
{
	const char *at = (const char *)warnings->bytes;
	const char *end = at + warnings->len;

	for (; at && at < end; at += strlen(at) + 1)
		log_warning(log, "%s", at);
}

static bool is_equal(const struct buf *a, const struct buf *b)
{
	return a->len == b->len &&
	       (a->len == 0 || memcmp(a->bytes, b->bytes, a->len) == 0);
}

void reload_tell(struct daemon *d, const struct loaded *l)
{
	struct log *log = d->site.log;

	if (!is_equal(&d->warnings, &l->warnings)) {
		log_warnings(log, &l->warnings);
		buf_clear(&d->warnings);
		if (l->warnings.len)
			buf_put(&d->warnings, l->warnings.bytes, l->warnings.len);
	}
	if (l->unreadable.text[0])
		log_error(log, "%s", l->unreadable.text);
	if (l->broken.text[0])
		log_broken_list(log, &l->broken);
	access_tell(&l->access, log);
}

/* ---- taking over ---- */

/* A value of the file or of SET replaces the count of -v. */
static int verbose_of(const struct daemon *d, const struct settings *settings)
{
	char text[32];

	if (setting_print(setting_find("verbose"), settings, text, sizeof(text)))
		return settings->verbose;
	return d->options->verbose;
}

void reload_configure_log(struct daemon *d, const struct settings *s)
{
	struct log_config config = {
	    .file = s->logfile,
	    .syslog = s->syslog,
	    .syslog_ident = s->syslog_ident,
	    .syslog_facility = s->syslog_facility,
	    .verbose = verbose_of(d, s),
	};

	log_configure(d->site.log, &config);
}

static void note_change(void *ctx, const char *text)
{
	struct daemon *d = ctx;

	log_warning(d->site.log, "%s", text);
}

void reload_adopt(struct daemon *d, struct config *config, const struct userlist *users,
    struct rules *rules)
{
	struct site *site = &d->site;
	const struct settings *s = &config->settings;

	reload_configure_log(d, s);
	log_debug(site->log, "configuration of %s: %zu databases, %zu users, %zu peers",
	    config->file, config->database_count, config->user_count,
	    config->peer_count);
	catalog_adopt(site->catalog, config, users, note_change, d);
	rules_ref(rules);
	rules_unref(&site->rules);
	site->rules = rules;
	site->net.rounds = s->sbuf_loopcnt;
	dns_configure(site->dns, s->dns_max_ttl, s->dns_nxdomain_ttl);
	listen_apply_settings(site);
	session_review(site);
	if (s->tls_reload_period)
		deadline_set(site->loop, &d->tls_due,
		    loop_now(site->loop) + s->tls_reload_period);
	else
		deadline_clear(site->loop, &d->tls_due);
	/* limits of idleness may have become shorter */
	deadline_set(site->loop, &d->tidy_due, loop_now(site->loop));
}

static void log_bad_tls(struct log *log, const struct err *err)
{
	log_error(log, "%s", err->text);
	log_error(
	    log, "TLS configuration could not be reloaded, keeping old configuration");
}

void reload_adopt_tls(struct daemon *d, struct tls_setup **tls)
{
	struct site *site = &d->site;
	struct tls_setup *old = site->tls;

	if (!*tls)
		return;
	site->tls = *tls;
	*tls = NULL;
	if (old && tls_setup_is_obsoleting(old, site->tls))
		catalog_mark_dirty(site->catalog, NULL);
	tls_setup_free(&old);
}

void reload_changed_tls(struct daemon *d)
{
	struct tls_setup *tls;
	struct err err;

	if (!tls_setup_is_stale(d->site.tls))
		return;
	tls = tls_setup_new(d->site.catalog->config, &err);
	if (tls) {
		log_info(d->site.log, "certificate files have changed, using them");
		reload_adopt_tls(d, &tls);
		return;
	}
	log_bad_tls(d->site.log, &err);
	tls_setup_touch(d->site.tls);
}

/* ---- the verbs ---- */

/* All stays as it was. */
static int refused(struct daemon *d, struct loaded *l, struct err *err)
{
	log_warning(d->site.log, "config file loading failed");
	reload_configure_log(d, site_settings(&d->site));
	if (l)
		loaded_done(l);
	return err_set_code(
	    err, "F0000", "RELOAD failed, see logs for additional details");
}

/* What the configuration names must be there, too.  -1: the log says what is not. */
static int read_named(struct log *log, struct loaded *l)
{
	struct err why;

	if (l->broken.text[0])
		log_broken_list(log, &l->broken);
	else if (log_check_file(l->config->settings.logfile, &why) < 0)
		log_error(log, "%s", why.text);
	else if (!access_is_complete(&l->access))
		access_tell(&l->access, log);
	else if (loaded_read_tls(l, &why) < 0)
		log_bad_tls(log, &why);
	else
		return 0;
	return -1;
}

int reload_all(struct site *site, struct err *err)
{
	struct daemon *d = site_daemon(site);
	const struct config *running = site->catalog->config;
	struct loaded l;
	struct err why;

	if (loaded_read(&l, running->settings.conffile, running, &why) < 0) {
		reload_log_error(site->log, &why);
		return refused(d, NULL, err);
	}
	if (read_named(site->log, &l) < 0)
		return refused(d, &l, err);
	reload_adopt(d, l.config, l.users, l.access.rules);
	derive_forget_all(site);
	reload_adopt_tls(d, &l.tls);
	reload_tell(d, &l);
	loaded_done(&l);
	return 0;
}

/* Rules are read again when SET says that others are wanted. */
static int set_access(struct site *site, const struct settings *old,
    const struct settings *new, struct access *access, struct err *err)
{
	if (!access_is_other(old, new)) {
		memset(access, 0, sizeof(*access));
		buf_init(&access->notes, 0);
		access->rules = rules_ref(site->rules);
		return 0;
	}
	access_read(access, new);
	access_tell(access, site->log);
	if (access_is_complete(access))
		return 0;
	access_done(access);
	return err_set(err, "the rules of auth_type=hba cannot be read");
}

/* Values that make no sense yet may with the next SET: they are kept, without effect.
 */
static int set_tls(struct site *site, const struct config *config, struct err *notice)
{
	struct tls_setup *tls = tls_setup_new(config, notice);

	if (!tls) {
		log_error(site->log, "%s", notice->text);
		err_set(notice, "TLS settings could not be applied, still using old "
				"configuration");
		return 1;
	}
	reload_adopt_tls(site_daemon(site), &tls);
	return 0;
}

static bool is_of_tls(const char *name)
{
	return strstr(name, "_tls_") || strstr(name, "_tls13_");
}

int reload_set(struct site *site, const char *name, const char *value, struct err *err)
{
	const struct config *running = site->catalog->config;
	struct config *config = config_with(running, name, value, err);
	struct access access;
	int rc = 0;

	if (!config)
		return -1;
	if ((setting_find(name) == setting_find("logfile") &&
		log_check_file(config->settings.logfile, err) < 0) ||
	    set_access(site, &running->settings, &config->settings, &access, err) < 0) {
		config_unref(&config);
		return -1;
	}
	if (is_of_tls(name))
		rc = set_tls(site, config, err);
	if (setting_is_unmet(setting_find(name), &config->settings))
		log_warning(
		    site->log, "setting \"%s\" has no effect in this version", name);
	reload_adopt(site_daemon(site), config, NULL, access.rules);
	access_done(&access);
	config_unref(&config);
	return rc;
}
