/*
 * Loads a snapshot step by step.  conf/ and auth/ read the files; reload.c applies a
 * new snapshot to databases, clients and servers.
 */
#include "daemon/configuration.h"

#include <stdio.h>
#include <string.h>

#include "auth/ldap_options.h"
#include "base/text.h"
#include "conf/setting_row.h"

void configuration_init(struct configuration *c)
{
	memset(c, 0, sizeof(*c));
	findings_init(&c->findings);
}

void configuration_done(struct configuration *c)
{
	config_unref(&c->config);
	userlist_unref_slowly(&c->users, c->throttle);
	rules_unref(&c->rules);
	tls_setup_unref(&c->tls);
	findings_done(&c->findings);
}

static void found(
    struct configuration *c, enum finding kind, const char *where, const char *text)
{
	findings_add(&c->findings, kind, where, text);
}

/* ---- the ini file ---- */

static void take_warning(void *ctx, const char *where, const char *text)
{
	struct err line;

	/* lines about the ini file begin with the place */
	err_set(&line, "%s%s%s", where, *where ? ": " : "", text);
	found(ctx, FINDING_WARNING, "", line.text);
}

static int load_ini(
    struct configuration *c, const char *path, const struct configuration *running)
{
	const struct config *old = running ? running->config : NULL;
	struct err err;

	if (old && strcmp(old->file, path) == 0 && config_is_current(old)) {
		c->config = config_ref((struct config *)(uintptr_t)old);
		return 0;
	}
	c->config = config_load(path, old, c->throttle, take_warning, c, &err);
	if (!c->config)
		found(c, FINDING_ERROR, "", err.text);
	return c->config ? 0 : -1;
}

/* Checks that a reload can write the log file.  A start may still run as root, and
 * opens its log file later. */
static void check_log_file(struct configuration *c)
{
	struct err err;

	if (log_check_file(c->config->settings.logfile, &err) < 0)
		found(c, FINDING_ERROR, "", err.text);
}

/* ---- who may log in ---- */

static enum finding remark_finding(enum remark kind)
{
	static const enum finding kinds[] = {
	    [REMARK_WARNING] = FINDING_WARNING,
	    [REMARK_FAULT] = FINDING_ERROR,
	    [REMARK_KNOWN] = FINDING_KNOWN,
	};

	return kinds[kind];
}

static void take_remark(
    void *ctx, enum remark kind, const char *where, const char *text)
{
	found(ctx, remark_finding(kind), where, text);
}

/* A start continues without the users in lines that cannot be read; a reload is
 * refused. */
static void take_list_remark(
    void *ctx, enum remark kind, const char *where, const char *text)
{
	found(ctx, kind == REMARK_FAULT ? FINDING_LOSS : remark_finding(kind), where,
	    text);
}

static bool is_list_needed(const struct settings *s)
{
	return s->auth_type != AUTH_ANY && s->auth_type != AUTH_PAM && s->auth_file &&
	       s->auth_file[0];
}

static bool has_same_list(
    const struct configuration *c, const struct configuration *running)
{
	const struct settings *new = &c->config->settings, *old;

	if (!running)
		return false;
	old = &running->config->settings;
	return is_list_needed(old) && strcmp(old->auth_file, new->auth_file) == 0 &&
	       mark_is_same(&c->users_mark, &running->users_mark);
}

static void load_users(struct configuration *c, const struct configuration *running)
{
	const struct settings *s = &c->config->settings;
	struct err err;

	if (!is_list_needed(s))
		return;
	mark_take(&c->users_mark, s->auth_file);
	if (has_same_list(c, running))
		return;
	c->users = userlist_load(s->auth_file, c->throttle, take_list_remark, c, &err);
	if (!c->users)
		found(c, FINDING_ABSENT, "auth_file", err.text);
	else if (running && running->users)
		userlist_remember(c->users, running->users, c->throttle);
}

static void check_ldap(struct configuration *c)
{
	const char *options = c->config->settings.auth_ldap_options;
	struct ldap_options parsed;
	struct err err;

	if (!options) {
		found(c, FINDING_ERROR, "auth_ldap_options",
		    "auth_type=ldap needs it: nobody could log in");
	} else if (ldap_options_parse(&parsed, options, &err) == 0) {
		if (parsed.warning)
			found(c, FINDING_WARNING, "auth_ldap_options", parsed.warning);
		ldap_options_done(&parsed);
	} else {
		found(c, FINDING_ERROR, "auth_ldap_options", err.text);
	}
}

/* Without client_tls_ca_file, a certificate from any public authority would be
 * accepted. */
static void check_cert_rules(struct configuration *c, const struct hba *hba)
{
	const struct hba_rule *rule = hba_find_method(hba, HBA_CERT);
	const struct settings *s = &c->config->settings;
	char place[512];

	/* without TLS no client has a certificate */
	if (!rule || s->client_tls_sslmode == TLS_DISABLE ||
	    text_or_null(s->client_tls_ca_file))
		return;
	snprintf(place, sizeof(place), "%s:%u", rule->file, rule->line);
	found(c, FINDING_ERROR, place, "the method cert requires client_tls_ca_file");
}

/* Reports a file that could not be opened.  The errors in a file that was read have
 * been reported already. */
static void found_missing(struct configuration *c, const char *setting,
    unsigned errors_before, const struct err *err)
{
	if (err->text[0] && c->findings.counts[FINDING_ERROR] == errors_before)
		found(c, FINDING_LOSS, setting, err->text);
}

static void load_rules(struct configuration *c)
{
	const struct settings *s = &c->config->settings;
	unsigned errors = c->findings.counts[FINDING_ERROR];
	struct err err = {.text = ""};
	struct ident *ident = NULL;
	struct hba *hba;

	if (text_or_null(s->auth_ident_file)) {
		ident = ident_load(s->auth_ident_file, take_remark, c, &err);
		if (!ident)
			found_missing(c, "auth_ident_file", errors, &err);
	}
	errors = c->findings.counts[FINDING_ERROR];
	hba = hba_load(s->auth_hba_file, ident, take_remark, c, &err);
	if (hba) {
		check_cert_rules(c, hba);
	} else {
		found_missing(c, "auth_hba_file", errors, &err);
		/* without rules every client is rejected */
		hba = hba_parse(s->auth_hba_file, "", 0, ident, NULL, NULL, &err);
	}
	c->rules = rules_new(hba, ident);
}

static void load_access(struct configuration *c)
{
	switch (c->config->settings.auth_type) {
	case AUTH_HBA:
		load_rules(c);
		break;
	case AUTH_LDAP:
		check_ldap(c);
		break;
	default:
		break;
	}
}

/* ---- TLS ---- */

static void load_tls(struct configuration *c, const struct configuration *running)
{
	struct err err;

	if (running && running->config == c->config &&
	    !tls_setup_looks_stale(running->tls))
		return;
	/* what does not go together was told with the ini file */
	if (!running && settings_check(&c->config->settings, &err) < 0)
		return;
	c->tls = tls_setup_new(c->config, &err);
	if (c->tls)
		return;
	c->has_broken_tls = c->findings.counts[FINDING_ERROR] == 0;
	/* A text about an entry has its place in front */
	const struct config_place *at = config_place_blamed(c->config, err.text);
	struct err place = {.text = ""};
	if (at && !text_has_prefix(err.text, c->config->file))
		err_set(&place, "%s:%u", at->file, at->line);
	found(c, FINDING_ERROR, place.text, err.text);
	if (running)
		found(c, FINDING_KNOWN, "",
		    "TLS configuration could not be reloaded, keeping old "
		    "configuration");
}

/* ---- all steps in order ---- */

static int verdict_on(const struct configuration *c, enum strictness strictness)
{
	if (c->findings.counts[FINDING_ERROR] > 0)
		return -1;
	return strictness == STRICT && c->findings.counts[FINDING_LOSS] > 0 ? -1 : 0;
}

int configuration_load_named(struct configuration *c,
    const struct configuration *running, enum strictness strictness)
{
	if (strictness == STRICT)
		check_log_file(c);
	load_users(c, running);
	load_access(c);
	load_tls(c, running);
	return verdict_on(c, strictness);
}

int configuration_load(struct configuration *c, const char *path,
    const struct configuration *running, enum strictness strictness)
{
	if (load_ini(c, path, running) < 0)
		return -1;
	return configuration_load_named(c, running, strictness);
}

const char *configuration_failure(const struct configuration *c)
{
	return c->has_broken_tls ? "TLS setup failed" : "cannot load config file";
}

int configuration_load_tls(struct configuration *c, const struct configuration *running)
{
	if (!tls_setup_looks_stale(running->tls))
		return 0;
	c->config = config_ref(running->config);
	c->rules = rules_ref(running->rules);
	c->users_mark = running->users_mark;
	load_tls(c, running);
	if (c->tls)
		return 1;
	tls_setup_touch(running->tls);
	return -1;
}

/* ---- SET ---- */

int configuration_set(struct configuration *c, const struct configuration *running,
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
		c->users_mark = running->users_mark;
	if (settings_are_different(old, new, READS_RULES))
		load_access(c);
	else
		c->rules = rules_ref(running->rules);
	if (verdict_on(c, STRICT) < 0) {
		findings_first_error(&c->findings, err);
		return -1;
	}
	if (!setting_is_flagged(row, READS_TLS))
		return err->text[0] ? 1 : 0;
	/* several SETs may be needed until the TLS settings fit together: the value is
	 * kept and the contexts in force stay */
	c->tls = tls_setup_new(c->config, err);
	if (c->tls)
		return 0;
	found(c, FINDING_KNOWN, "", err->text);
	err_set(
	    err, "TLS settings could not be applied, still using old configuration");
	return 1;
}

void configuration_take(struct configuration *c, struct configuration *next)
{
	if (!next->tls) {
		next->tls = c->tls;
		c->tls = NULL;
	}
	if (!next->users) {
		next->users = c->users;
		c->users = NULL;
	}
	configuration_done(c);
	*c = *next;
	configuration_init(next);
}
