#include "daemon/loaded_config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "auth/kerberos.h"
#include "auth/ldap_options.h"
#include "auth/oauth_keys.h"
#include "base/text.h"
#include "conf/setting_row.h"

void loaded_config_init(struct loaded_config *c)
{
	memset(c, 0, sizeof(*c));
	diagnostics_init(&c->diagnostics);
}

void loaded_config_done(struct loaded_config *c)
{
	config_unref(&c->config);
	userlist_unref_slowly(&c->users, c->throttle);
	access_rules_unref(&c->rules);
	tls_setup_unref(&c->tls);
	diagnostics_done(&c->diagnostics);
}

static void found(
    struct loaded_config *c, enum diagnostic kind, const char *where, const char *text)
{
	diagnostics_add(&c->diagnostics, kind, where, text);
}

/* ---- the ini file ---- */

static void take_warning(void *ctx, const char *where, const char *text)
{
	struct err line;

	/* lines about the ini file begin with the place */
	err_set(&line, "%s%s%s", where, *where ? ": " : "", text);
	found(ctx, DIAGNOSTIC_WARNING, "", line.text);
}

/* A problem of the ini file behind the first one, at which loading has stopped. */
struct further {
	struct loaded_config *c;
	bool has_first;
};

static void take_further(void *ctx, const char *where, const char *text)
{
	struct further *further = ctx;
	struct err line;

	err_set(&line, "%s: %s", where, text);
	if (further->has_first)
		found(further->c, DIAGNOSTIC_ERROR, "", line.text);
	further->has_first = true;
}

static int load_ini(
    struct loaded_config *c, const char *path, const struct loaded_config *running)
{
	const struct config *old = running ? running->config : NULL;
	struct err err;

	if (old && strcmp(old->file, path) == 0 && config_is_current(old)) {
		c->config = config_ref((struct config *)(uintptr_t)old);
		return 0;
	}
	c->config = config_load(path, old, c->throttle, take_warning, c, &err);
	if (c->config)
		return 0;
	found(c, DIAGNOSTIC_ERROR, "", err.text);
	/* Whoever reloads has all of them to mend.  A pipe cannot be read again. */
	struct further further = {.c = c};
	struct config *ignored = NULL;
	bool may_read = old != NULL;
	struct stat st;
	for (const struct config_file *f = old ? old->files : NULL; f; f = f->next)
		may_read = may_read && stat(f->path, &st) == 0 && S_ISREG(st.st_mode);
	if (may_read && stat(path, &st) == 0 && S_ISREG(st.st_mode))
		config_check(path, take_further, NULL, &further, &ignored);
	config_unref(&ignored);
	return -1;
}

/* Checks that a reload can write the log file.  A start may still run as root, and
 * opens its log file later. */
static void check_log_file(struct loaded_config *c)
{
	struct err err;

	if (log_check_file(c->config->settings.logfile, &err) < 0)
		found(c, DIAGNOSTIC_ERROR, "", err.text);
}

/* ---- who may log in ---- */

static void take_report(
    void *ctx, enum diagnostic kind, const char *where, const char *text)
{
	found(ctx, kind, where, text);
}

/* A start continues without the users in lines that cannot be read; a reload is
 * refused. */
static void take_list_report(
    void *ctx, enum diagnostic kind, const char *where, const char *text)
{
	found(ctx, kind == DIAGNOSTIC_ERROR ? DIAGNOSTIC_LOSS : kind, where, text);
}

static bool is_list_needed(const struct settings *s)
{
	return s->auth_type != AUTH_ANY && s->auth_type != AUTH_PAM && s->auth_file &&
	       s->auth_file[0];
}

static bool has_same_list(
    const struct loaded_config *c, const struct loaded_config *running)
{
	const struct settings *new = &c->config->settings, *old;

	if (!running)
		return false;
	old = &running->config->settings;
	return is_list_needed(old) && strcmp(old->auth_file, new->auth_file) == 0 &&
	       file_id_is_same(&c->users_file_id, &running->users_file_id);
}

static void load_users(struct loaded_config *c, const struct loaded_config *running)
{
	const struct settings *s = &c->config->settings;
	struct err err;

	if (!is_list_needed(s))
		return;
	file_id_take(&c->users_file_id, s->auth_file);
	if (has_same_list(c, running))
		return;
	c->users = userlist_load(s->auth_file, c->throttle, take_list_report, c, &err);
	if (!c->users)
		found(c, DIAGNOSTIC_ABSENT, "auth_file", err.text);
	else if (running && running->users)
		userlist_remember(c->users, running->users, c->throttle);
}

static void check_ldap(struct loaded_config *c)
{
	const char *options = c->config->settings.auth_ldap_options;
	struct ldap_options parsed;
	struct err err;

	if (!options) {
		found(c, DIAGNOSTIC_ERROR, "auth_ldap_options",
		    "auth_type=ldap needs it: nobody could log in");
	} else if (ldap_options_parse(&parsed, options, &err) == 0) {
		if (parsed.warning)
			found(
			    c, DIAGNOSTIC_WARNING, "auth_ldap_options", parsed.warning);
		ldap_options_done(&parsed);
	} else {
		found(c, DIAGNOSTIC_ERROR, "auth_ldap_options", err.text);
	}
}

/* What rules need besides themselves.  Without client_tls_ca_file, a certificate from
 * any public authority would be accepted; without keys, nobody could log in by
 * Kerberos. */
static void check_rules(struct loaded_config *c, const struct hba *hba)
{
	const struct hba_rule *rule = hba_find_method(hba, HBA_CERT);
	const struct settings *s = &c->config->settings;
	const char *keytab = kerberos_keytab_path(s->krb_server_keyfile);
	struct err text;

	/* without TLS no client has a certificate */
	if (rule && s->client_tls_sslmode != TLS_DISABLE &&
	    !text_or_null(s->client_tls_ca_file)) {
		err_set(&text, "%s:%u", rule->file, rule->line);
		found(c, DIAGNOSTIC_ERROR, text.text,
		    "the method cert requires client_tls_ca_file");
	}
	rule = hba_find_method(hba, HBA_GSS);
	if (rule && keytab && access(keytab, R_OK) < 0) {
		err_set(&text, "cannot read %s, which the method gss needs (%s:%u): %s",
		    keytab, rule->file, rule->line, strerror(errno));
		found(c, DIAGNOSTIC_ERROR, "krb_server_keyfile", text.text);
	}
}

/* Reports a file that could not be opened.  The errors in a file that was read have
 * been reported already. */
static void found_missing(struct loaded_config *c, const char *setting,
    unsigned errors_before, const struct err *err)
{
	if (err->text[0] && c->diagnostics.counts[DIAGNOSTIC_ERROR] == errors_before)
		found(c, DIAGNOSTIC_LOSS, setting, err->text);
}

static void load_rules(struct loaded_config *c)
{
	const struct settings *s = &c->config->settings;
	unsigned errors = c->diagnostics.counts[DIAGNOSTIC_ERROR];
	struct err err = {.text = ""};
	struct ident *ident = NULL;
	struct hba *hba;

	if (text_or_null(s->auth_ident_file)) {
		ident = ident_load(s->auth_ident_file, take_report, c, &err);
		if (!ident)
			found_missing(c, "auth_ident_file", errors, &err);
	}
	errors = c->diagnostics.counts[DIAGNOSTIC_ERROR];
	hba = hba_load(s->auth_hba_file, ident, take_report, c, &err);
	if (hba) {
		check_rules(c, hba);
	} else {
		found_missing(c, "auth_hba_file", errors, &err);
		/* without rules every client is rejected */
		hba = hba_parse(s->auth_hba_file, "", 0, ident, NULL, NULL, &err);
	}
	c->rules = access_rules_new(hba, ident);
}

/* What tokens need besides their rules (NULL: auth_type=oauth has none).  Refuses what
 * cannot work, and what would let in too many. */
static void load_oauth(struct loaded_config *c, const struct hba *hba)
{
	const struct settings *s = &c->config->settings;
	const struct hba_rule *rule = hba ? hba_find_method(hba, HBA_OAUTH) : NULL;
	bool has_program = text_or_null(s->oauth_validator_command);
	char place[512] = "auth_type";
	struct err err;

	if (hba && !rule)
		return;
	if (rule)
		snprintf(place, sizeof(place), "%s:%u", rule->file, rule->line);
	if (!oauth_is_supported())
		found(c, DIAGNOSTIC_ERROR, place, error_text(ERROR_OAUTH_UNSUPPORTED));
	if (s->client_tls_sslmode == TLS_DISABLE)
		found(c, DIAGNOSTIC_ERROR, place,
		    "the method oauth needs client_tls_sslmode: tokens are accepted "
		    "only inside TLS");
	if (!rule && (!text_has_prefix(s->oauth_issuer, "https://") ||
			 !text_or_null(s->oauth_scope)))
		found(c, DIAGNOSTIC_ERROR, place,
		    "auth_type=oauth needs oauth_issuer, which begins with https://, "
		    "and oauth_scope");
	if (!has_program && !text_or_null(s->oauth_audience))
		found(c, DIAGNOSTIC_ERROR, place,
		    "the method oauth needs oauth_audience: otherwise tokens for other "
		    "services would be accepted");
	if (!has_program && text_or_null(s->oauth_keys_file) && oauth_is_supported()) {
		c->rules->oauth_keys = oauth_keys_load(s->oauth_keys_file, &err);
		if (!c->rules->oauth_keys)
			found(c, DIAGNOSTIC_ERROR, "oauth_keys_file", err.text);
	}
	for (size_t i = 0; hba && (rule = hba_rule_at(hba, i)); i++) {
		if (!rule->is_delegated || has_program)
			continue;
		snprintf(place, sizeof(place), "%s:%u", rule->file, rule->line);
		found(c, DIAGNOSTIC_ERROR, place,
		    "delegate_ident_mapping needs oauth_validator_command: a signed "
		    "token does not tell which users it is for");
	}
}

static void load_access(struct loaded_config *c)
{
	struct err ignored;

	switch (c->config->settings.auth_type) {
	case AUTH_HBA:
		load_rules(c);
		load_oauth(c, c->rules->hba);
		break;
	case AUTH_OAUTH:
		c->rules = access_rules_new(
		    hba_parse("", "", 0, NULL, NULL, NULL, &ignored), NULL);
		load_oauth(c, NULL);
		break;
	case AUTH_LDAP:
		check_ldap(c);
		break;
	default:
		break;
	}
}

/* ---- TLS ---- */

/* How long before its end a certificate is warned of. */
enum { EXPIRES_SOON_S = 30 * 24 * 3600 };

static void found_dates(
    void *ctx, const char *setting, const char *path, const struct tls_dates *dates)
{
	int64_t now_s = time(NULL);
	bool begins_later = now_s < dates->begins_s;
	time_t decides = (time_t)(begins_later ? dates->begins_s : dates->ends_s);
	char when[32];
	struct err text;
	struct tm tm;

	if (!begins_later && now_s + EXPIRES_SOON_S < dates->ends_s)
		return;
	bool is_valid = !begins_later && now_s < dates->ends_s;
	strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", gmtime_r(&decides, &tm));
	err_set(&text, "certificate %s in %s %s %s: %s", dates->subject, path,
	    begins_later ? "is not valid before"
	    : is_valid   ? "expires on"
			 : "has expired on",
	    when,
	    is_valid ? "replace it in time"
		     : "TLS connections that need it are refused; replace it");
	found(ctx, is_valid ? DIAGNOSTIC_WARNING : DIAGNOSTIC_EXPIRED, setting,
	    text.text);
}

static void load_tls(struct loaded_config *c, const struct loaded_config *running)
{
	struct err err;

	if (running && running->config == c->config &&
	    !tls_setup_looks_stale(running->tls)) {
		tls_setup_each_dates(running->tls, found_dates, c);
		return;
	}
	c->tls = tls_setup_new(c->config, &err);
	if (c->tls) {
		tls_setup_each_dates(c->tls, found_dates, c);
		return;
	}
	c->has_broken_tls = c->diagnostics.counts[DIAGNOSTIC_ERROR] == 0;
	/* A text about an entry has its place in front. */
	const struct config_place *at = config_place_blamed(c->config, err.text);
	struct err place = {.text = ""};
	if (at && !text_has_prefix(err.text, c->config->file))
		err_set(&place, "%s:%u", at->file, at->line);
	found(c, DIAGNOSTIC_ERROR, place.text, err.text);
	if (running)
		found(c, DIAGNOSTIC_KNOWN, "",
		    "TLS configuration could not be reloaded, keeping old "
		    "configuration");
}

/* ---- all steps in order ---- */

static int verdict_on(const struct loaded_config *c, enum strictness strictness)
{
	if (c->diagnostics.counts[DIAGNOSTIC_ERROR] > 0)
		return -1;
	return strictness == STRICT && c->diagnostics.counts[DIAGNOSTIC_LOSS] > 0 ? -1
										  : 0;
}

int loaded_config_load_named(struct loaded_config *c,
    const struct loaded_config *running, enum strictness strictness)
{
	if (strictness == STRICT)
		check_log_file(c);
	load_users(c, running);
	load_access(c);
	load_tls(c, running);
	return verdict_on(c, strictness);
}

int loaded_config_load(struct loaded_config *c, const char *path,
    const struct loaded_config *running, enum strictness strictness)
{
	if (load_ini(c, path, running) < 0)
		return -1;
	return loaded_config_load_named(c, running, strictness);
}

const char *loaded_config_failure(const struct loaded_config *c)
{
	return c->has_broken_tls ? "TLS setup failed" : "cannot load config file";
}

int loaded_config_load_tls(struct loaded_config *c, const struct loaded_config *running)
{
	if (!tls_setup_looks_stale(running->tls))
		return 0;
	c->config = config_ref(running->config);
	c->rules = access_rules_ref(running->rules);
	c->users_file_id = running->users_file_id;
	load_tls(c, running);
	if (c->tls)
		return 1;
	tls_setup_touch(running->tls);
	return -1;
}

/* ---- SET ---- */

int loaded_config_set(struct loaded_config *c, const struct loaded_config *running,
    const char *name, const char *value, struct err *err)
{
	const struct setting *row = setting_find(name);

	c->config = config_with(running->config, name, value, err);
	if (!c->config)
		return -1;
	const struct settings *old = &running->config->settings;
	const struct settings *new = &c->config->settings;
	if (row == setting_find("logfile"))
		check_log_file(c);
	if (settings_are_different(old, new, READS_USERS))
		load_users(c, running);
	else
		c->users_file_id = running->users_file_id;
	if (settings_are_different(old, new, READS_RULES))
		load_access(c);
	else
		c->rules = access_rules_ref(running->rules);
	if (verdict_on(c, STRICT) < 0) {
		diagnostics_errors(&c->diagnostics, err);
		return -1;
	}
	if (!setting_is_flagged(row, READS_TLS))
		return err->text[0] ? 1 : 0;
	/* several SETs may be needed until the TLS settings fit together: the value is
	 * kept and the contexts in force stay */
	c->tls = tls_setup_new(c->config, err);
	if (c->tls)
		return 0;
	found(c, DIAGNOSTIC_KNOWN, "", err->text);
	err_set(
	    err, "TLS settings could not be applied, still using old configuration");
	return 1;
}

void loaded_config_take(struct loaded_config *c, struct loaded_config *next)
{
	if (!next->tls) {
		next->tls = c->tls;
		c->tls = NULL;
	}
	if (!next->users) {
		next->users = c->users;
		c->users = NULL;
	}
	loaded_config_done(c);
	*c = *next;
	loaded_config_init(next);
}
