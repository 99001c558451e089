/*
 * EXPLAIN LOGIN: goes through the steps of a login with what is known now, and prints
 * the decision of each.  It asks no name server, no directory and no PostgreSQL server,
 * creates nothing and shows no secret.
 */
#include "admin/explain.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/hba.h"
#include "base/text.h"
#include "login/method.h"
#include "login/proof_oauth.h"
#include "pool/hosts_role.h"
#include "session/workers.h"
#include "views/row.h"
#include "views/show.h"
#include "wire/codec.h"

static const struct column explain_columns[] = {
    {"item", &cell_text},
    {"value", &cell_text},
};

enum { EXPLAIN_COLUMNS = sizeof(explain_columns) / sizeof(explain_columns[0]) };

struct explanation {
	struct rows rows;
	enum auth_type method;
	bool is_unix, is_tls;
	struct sock_addr addr;
	const struct hba_rule *rule; /* NULL: auth_type decides */
	const char *user_name, *database_name;
	struct site *site;
	/* NULL: no database of this name exists at this site now */
	struct database *database;
	/* only other workers have it; they have made it from the fallback entry */
	bool is_elsewhere;
	struct user *user; /* NULL: no user of this name is known */
	/* the database's entry, or the fallback entry that it would be made from; NULL:
	 * no database of this name exists or can be made */
	const struct database_config *config;
	/* owned: memory of config, if it was made here; else NULL */
	struct arena *arena;
	const char *forced_name;      /* NULL: servers log in as the client's user */
	enum secret_kind forced_kind; /* the kind of the secret in password= */
};

static void __attribute__((format(printf, 3, 4)))
explain(struct explanation *e, const char *item, const char *fmt, ...)
{
	char *value;
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vasprintf(&value, fmt, ap);
	va_end(ap);
	row_begin(&e->rows);
	row_text(&e->rows, item);
	row_text(&e->rows, len < 0 ? NULL : value);
	row_end(&e->rows);
	if (len >= 0)
		free(value);
}

/* ---- address and database ---- */

static void look_for_database(struct site *site, void *ctx)
{
	struct explanation *e = ctx;

	if (catalog_find_database(site->catalog, e->database_name))
		e->is_elsewhere = true;
}

static void explain_read_database(struct explanation *e)
{
	struct catalog *catalog = e->site->catalog;
	struct database *db = catalog_find_database(catalog, e->database_name);
	struct secret secret;

	e->database = db;
	e->config = db ? db->config : NULL;
	if (!db && catalog_may_make(catalog, e->database_name)) {
		e->arena = arena_new();
		e->config = catalog_read_template(catalog, e->database_name, e->arena);
		(void)workers_each(e->site, look_for_database, e);
	}
	if (!e->config)
		return;
	e->forced_name =
	    db && db->forced_user ? db->forced_user->name : e->config->user;
	secret_init(&secret, e->config->password);
	e->forced_kind = db ? db->forced_secret.kind : secret.kind;
	secret_done(&secret);
}

static void explain_database(struct explanation *e)
{
	const struct database *db = e->database;

	if (db && db->is_admin)
		explain(e, "database", "the console");
	else if (db && db->disabled)
		explain(e, "database", "%s, which is disabled", db->name);
	else if (db || (e->config && e->is_elsewhere))
		explain(e, "database", "%s", e->database_name);
	else if (e->config)
		explain(e, "database", "%s, to be made from the fallback entry *",
		    e->database_name);
	else
		explain(e, "database",
		    "none of this name: told only after the client has proven itself");
}

/* ---- the method ---- */

static void explain_match(struct explanation *e, bool is_tls)
{
	const struct access_rules *rules = e->site->rules;
	struct hba_peer peer = {
	    .is_unix = e->is_unix,
	    .is_tls = is_tls,
	    .family = e->addr.family,
	    .database = e->database_name,
	    .user = e->user_name,
	};
	enum hba_result result;

	memcpy(peer.ip, e->addr.ip, sizeof(peer.ip));
	result = method_by_rules(rules, &peer, &e->rule, &e->method);
	if (result == HBA_NEEDS_NAME) {
		explain(e, "host name",
		    "%s:%u: %s: this rule needs the name of the host, which is not "
		    "looked up here; what follows is for a host without a name",
		    e->rule->file, e->rule->line, e->rule->text);
		peer.name = HBA_NAME_NONE;
		result = method_by_rules(rules, &peer, &e->rule, &e->method);
	}
	if (result == HBA_OTHER_SPELLING) {
		explain(e, "user",
		    "%s:%u: %s: this rule has the name in another spelling, which "
		    "LDAP, PAM and GSSAPI may not tell apart from it: the login is "
		    "rejected",
		    e->rule->file, e->rule->line, e->rule->text);
		e->rule = NULL;
	}
}

static const char *explain_method_name(const struct explanation *e)
{
	if (!e->rule && !method_may_succeed(e->method))
		return "none";
	return e->rule ? hba_method_name(e->rule->method)
		       : setting_auth_type_name(e->method);
}

static void explain_rule(struct explanation *e, const char *item)
{
	if (e->rule)
		explain(
		    e, item, "%s:%u: %s", e->rule->file, e->rule->line, e->rule->text);
	else
		explain(e, item, "none fits");
}

static void explain_method(struct explanation *e)
{
	const struct settings *s = site_settings(e->site);

	e->method = (enum auth_type)s->auth_type;
	if (e->method != AUTH_HBA) {
		explain(e, "rule", "auth_type=%s", setting_auth_type_name(e->method));
		explain(e, "method", "%s", explain_method_name(e));
		return;
	}
	if (!e->is_unix && !e->is_tls && s->client_tls_sslmode != TLS_DISABLE) {
		explain_match(e, true);
		explain_rule(e, "rule with TLS");
		explain(e, "method with TLS", "%s", explain_method_name(e));
	}
	explain_match(e, e->is_tls);
	explain_rule(e, "rule");
	explain(e, "method", "%s", explain_method_name(e));
}

/* ---- what was tried ---- */

/* The last attempt of any worker to log in to a server or, is_lookup, to run
 * auth_query, which fails also because of the former. */
struct last_attempt {
	const char *database, *user;
	bool is_lookup;
	uint64_t at_us;
	char failure[100]; /* "": it has worked */
};

static void look_for_attempt(struct site *site, void *ctx)
{
	struct last_attempt *last = ctx;
	struct database *db = catalog_find_database(site->catalog, last->database);
	struct user *user = catalog_find_user(site->catalog, last->user);
	struct pool *pool = db && user ? catalog_find_pool_as(db, user) : NULL;
	const char *failure = NULL;
	uint64_t at_us = pool ? pool_last_attempt(pool, &failure) : 0;

	if (pool && last->is_lookup && (!failure || pool->lookup_end.at_us > at_us)) {
		at_us = pool->lookup_end.at_us;
		failure = pool->lookup_end.failure;
	}
	if (at_us <= last->at_us)
		return;
	last->at_us = at_us;
	snprintf(last->failure, sizeof(last->failure), "%s", failure ? failure : "");
}

static void explain_last(
    struct explanation *e, const char *item, struct last_attempt *last)
{
	(void)workers_each(e->site, look_for_attempt, last);
	if (last->at_us)
		explain(e, item, "%s %" PRIu64 " s ago%s%s",
		    last->failure[0] ? "failed" : "worked",
		    (loop_now(e->site->loop) - last->at_us) / 1000000,
		    last->failure[0] ? ": " : "", last->failure);
}

/* ---- user and secret ---- */

static const char *kind_name(enum secret_kind kind)
{
	switch (kind) {
	case SECRET_NONE:
		return "empty";
	case SECRET_PLAIN:
		return "plain password";
	case SECRET_MD5:
		return "md5 hash";
	case SECRET_SCRAM:
		return "SCRAM secret";
	case SECRET_MALFORMED:
		return "malformed secret, which nothing matches";
	}
	return "unknown";
}

static bool is_static(const struct explanation *e)
{
	return e->user && e->user->has_secret;
}

/* The settings of a database that may not exist yet. */
static struct scope explain_scope(const struct explanation *e)
{
	return (struct scope){
	    .database = &e->config->own, .settings = site_settings(e->site)};
}

/* The user that auth_query would run as; NULL: it would not run. */
static const char *explain_auth_user(const struct explanation *e)
{
	if (e->method == AUTH_ANY || method_is_external(e->method) ||
	    !method_may_succeed(e->method) || is_static(e) || !e->config)
		return NULL;
	return text_or_null(scope_auth_user(explain_scope(e)));
}

static void explain_secret(struct explanation *e)
{
	const char *auth_user = explain_auth_user(e);

	if (e->method == AUTH_ANY || !method_may_succeed(e->method)) {
		explain(e, "client secret", "none is asked for");
	} else if (e->method == AUTH_OAUTH) {
		const struct settings *s = site_settings(e->site);
		bool has_program = text_or_null(s->oauth_validator_command);
		explain(e, "client secret",
		    "a token of the issuer %s for the scope %s, inside TLS, judged by "
		    "%s%s",
		    proof_oauth_issuer(e->rule, s), proof_oauth_scope(e->rule, s),
		    has_program                        ? "oauth_validator_command: "
		    : text_or_null(s->oauth_keys_file) ? "the keys in "
						       : "the keys of the issuer",
		    has_program ? s->oauth_validator_command : s->oauth_keys_file);
		if (e->rule && e->rule->is_delegated)
			explain(e, "client name", "oauth_validator_command decides");
		else
			explain(e, "client name", "the token's %s, %s%s",
			    has_program ? "name" : s->oauth_name_claim,
			    e->rule && e->rule->map ? "by the ident map "
						    : "equal to the user",
			    e->rule && e->rule->map ? e->rule->map : "");
	} else if (e->method == AUTH_GSS) {
		const char *keyfile =
		    text_or_null(site_settings(e->site)->krb_server_keyfile);
		explain(e, "client secret",
		    "a Kerberos ticket, read with the keys in %s",
		    keyfile ? keyfile : "the system's keytab");
	} else if (method_is_external(e->method)) {
		explain(e, "client secret", "judged by %s",
		    e->method == AUTH_PAM ? "PAM" : "the LDAP directory");
	} else if (is_static(e)) {
		explain(e, "client secret", "auth_file, %s",
		    kind_name(e->user->secret.kind));
	} else if (auth_user) {
		const char *where = text_or_null(scope_auth_dbname(explain_scope(e)));
		explain(e, "client secret",
		    "auth_query as user %s in database %s, of the kind it finds",
		    auth_user, where ? where : e->database_name);
		explain_last(e, "auth_query",
		    &(struct last_attempt){.database = where ? where : e->database_name,
			.user = auth_user,
			.is_lookup = true});
	} else {
		explain(e, "client secret", "none: the user is not known");
	}
}

/* Is it certain that the client cannot prove who it is? */
static bool must_fail(const struct explanation *e)
{
	enum secret_kind kind = is_static(e) ? e->user->secret.kind : SECRET_PLAIN;

	if (!is_static(e) && !explain_auth_user(e))
		return true;
	switch (e->method) {
	case AUTH_TRUST:
		return false;
	case AUTH_CERT:
		return !e->is_tls && e->rule;
	case AUTH_PEER:
		return !e->is_unix;
	default:
		return kind == SECRET_NONE || kind == SECRET_MALFORMED ||
		       (kind == SECRET_MD5 && e->method == AUTH_SCRAM);
	}
}

/* The error that the client gets, whatever its proof; ERROR_COUNT: a proof may
 * succeed. */
static enum error_id method_obstacle(const struct explanation *e)
{
	if (e->method == AUTH_ANY)
		return e->config && !e->forced_name ? ERROR_CONFIG_ERROR : ERROR_COUNT;
	if (e->method == AUTH_OAUTH && e->is_unix)
		return ERROR_OAUTH_NEEDS_TLS;
	if (method_is_external(e->method))
		return e->method != AUTH_OAUTH && e->method != AUTH_GSS && e->config &&
			       e->config->own.auth_user
			   ? ERROR_CONFIG_ERROR
			   : method_missing_external(
				 e->method, e->rule, site_settings(e->site));
	return !method_may_succeed(e->method) || must_fail(e)
		   ? method_failure(e->method)
		   : ERROR_COUNT;
}

/* Is the client asked for SCRAM? */
static bool is_scram(const struct explanation *e)
{
	return method_asks_scram(
	    e->method, is_static(e) ? e->user->secret.kind : SECRET_NONE, false);
}

/* Would the login fail because channel binding is required and the method has none? */
static bool is_unbound(const struct explanation *e)
{
	bool has_password = e->method == AUTH_PLAIN || e->method == AUTH_MD5 ||
			    e->method == AUTH_SCRAM || method_is_external(e->method);

	return has_password && !(is_scram(e) && e->is_tls) &&
	       method_requires_binding(&e->addr, site_settings(e->site));
}

/* Prints whether the login would succeed.  -1: it would fail. */
static int explain_outcome(struct explanation *e)
{
	enum error_id obstacle = method_obstacle(e);

	if (e->database && e->database->is_admin && e->is_unix &&
	    strcmp(e->user_name, e->database_name) == 0)
		explain(e, "own account",
		    "possible without any proof; what follows is for other accounts");
	if (obstacle == ERROR_COUNT && is_unbound(e))
		obstacle = ERROR_BINDING_REQUIRED;
	/* unknown users of the console get the error of a wrong proof instead */
	const struct settings *s = site_settings(e->site);
	if (obstacle == ERROR_COUNT && e->database && e->database->is_admin &&
	    e->method != AUTH_ANY && !text_list_has(s->admin_users, e->user_name) &&
	    !text_list_has(s->stats_users, e->user_name))
		obstacle = ERROR_NOT_ALLOWED;
	if (obstacle != ERROR_COUNT) {
		explain(e, "login", "refused: %s", error_text(obstacle));
		return -1;
	}
	/* what a client is told only after its proof */
	if (!e->config || (e->database && e->database->disabled)) {
		explain(e, "login",
		    e->config ? "refused after its proof: database \"%s\" is disabled"
			      : "refused after its proof: no such database: %s",
		    e->database_name);
		return -1;
	}
	if (e->method == AUTH_MD5 && is_scram(e))
		explain(e, "login",
		    "possible, by scram-sha-256 because of the kind of the secret");
	else
		explain(e, "login", "possible");
	return 0;
}

/* ---- the login to the server ---- */

static void explain_kind(struct explanation *e, enum secret_kind kind)
{
	static const char item[] = "server login";

	switch (kind) {
	case SECRET_NONE:
	case SECRET_MALFORMED:
		explain(e, item, "works only where the server asks for no password");
		break;
	case SECRET_PLAIN:
		explain(e, item, "works with password, md5 and scram-sha-256");
		break;
	case SECRET_MD5:
		explain(e, item,
		    "works with md5; not where the server asks for scram-sha-256 or "
		    "password");
		break;
	case SECRET_SCRAM:
		/* do the keys of the client's own proof serve? */
		if ((e->method == AUTH_SCRAM || e->method == AUTH_MD5) &&
		    !e->forced_name)
			explain(e, item,
			    "works with scram-sha-256, by the keys of the client's own "
			    "login; not where the server asks for md5 or password");
		else
			explain(e, item,
			    "works only where the server asks for no password: with a "
			    "SCRAM secret the pooler can log in only after the client "
			    "has proven by scram-sha-256 that it knows the password");
		break;
	}
}

static void explain_server_secret(struct explanation *e, const struct user *server_user)
{
	struct scope scope = explain_scope(e);

	if (server_user && server_user->config)
		scope.user = &server_user->config->own;
	struct password_source source = scope_password_source(scope);
	if (e->forced_name && e->forced_kind != SECRET_NONE) {
		explain(e, "server secret", "password= of the database, %s",
		    kind_name(e->forced_kind));
		explain_kind(e, e->forced_kind);
	} else if (source.command || source.file) {
		explain(e, "server secret", "%s, %s",
		    source.command ? "server_password_command" : "server_password_file",
		    source.command ? source.command : source.file);
		explain(e, "server login",
		    "works with md5 and scram-sha-256; with password only inside TLS "
		    "or over a unix socket");
	} else if (method_is_external(e->method) && e->method != AUTH_OAUTH &&
		   e->method != AUTH_GSS && !e->forced_name) {
		explain(e, "server secret", "the password the client logs in with");
		explain_kind(e, SECRET_PLAIN);
	} else if (server_user && server_user->remembered && !e->forced_name) {
		explain(
		    e, "server secret", "the password of the last PAM or LDAP login");
		explain_kind(e, SECRET_PLAIN);
	} else if (server_user && server_user->has_secret) {
		explain(e, "server secret", "auth_file, %s",
		    kind_name(server_user->secret.kind));
		explain_kind(e, server_user->secret.kind);
	} else if (explain_auth_user(e) && !e->forced_name) {
		explain(e, "server secret", "what auth_query finds");
		explain(e, "server login", "depends on the kind of that secret");
	} else if (text_or_null(scope_server_tls_cert_file(scope))) {
		explain(e, "server secret",
		    "none; servers are shown the certificate %s",
		    scope_server_tls_cert_file(scope));
		explain(e, "server login",
		    "works only where the server asks for no password, or for a "
		    "certificate");
	} else {
		explain(e, "server secret", "none");
		explain_kind(e, SECRET_NONE);
	}
}

/* What is wrong with the hosts of the database, if anything is. */
static void explain_trouble(struct explanation *e)
{
	bool has_trouble = false;
	struct host_verdict v;
	struct buf text;

	for (size_t i = 0; e->database && i < e->database->hosts.count; i++) {
		hosts_show(e->database, e->database->hosts.list[i], &v);
		has_trouble |=
		    v.value.state != HOST_UP && v.value.state != HOST_NOT_TRIED;
	}
	if (!has_trouble)
		return;
	buf_init(&text, 0);
	hosts_describe(e->database, &text);
	explain(e, "hosts", "%s", buf_text(&text));
	buf_done(&text);
}

static void explain_server(struct explanation *e)
{
	const struct user *server_user = e->user;
	const char *name = e->user_name;

	if (e->database && e->database->is_admin)
		return;
	if (e->forced_name) {
		name = e->forced_name;
		server_user = catalog_find_user(e->site->catalog, name);
	}
	explain(e, "pool", "database %s, user %s", e->database_name, name);
	explain(e, "server user", "%s%s", name,
	    e->forced_name ? ", forced by the database" : "");
	explain_server_secret(e, server_user);
	struct scope scope = explain_scope(e);
	if (server_user && server_user->config)
		scope.user = &server_user->config->own;
	const char *keyfile = text_or_null(scope_server_krb_keyfile(scope));
	const char *principal = text_or_null(scope_server_krb_principal(scope));
	if (keyfile || e->method == AUTH_GSS)
		explain(e, "server ticket",
		    "for %s/HOST as %s of %s, where the server asks for GSSAPI",
		    scope_server_krb_service(scope),
		    principal ? principal : "the first principal",
		    keyfile ? keyfile : "the account's credential cache");

	explain_last(e, "last attempt",
	    &(struct last_attempt){.database = e->database_name, .user = name});
	explain_trouble(e);
}

int explain_put(
    const struct client *asking, const struct command *command, struct buf *out)
{
	struct explanation e = {
	    .site = asking->conn.site,
	    .user_name = command->user,
	    .database_name = command->database,
	};
	char ip[SOCK_ADDR_TEXT];

	/* reads the address that the login would come from; "": that of the console's
	 * client */
	e.addr = asking->conn.remote;
	if (strcmp(command->value, "unix") == 0)
		e.addr.family = AF_UNIX;
	else if (*command->value && sock_addr_parse(command->value, 0, &e.addr) < 0)
		return -1;
	e.is_unix = e.addr.family == AF_UNIX;
	/* if TLS is required, the client is assumed to use it */
	e.is_tls =
	    !e.is_unix && site_settings(e.site)->client_tls_sslmode >= TLS_REQUIRE;

	explain_read_database(&e);
	e.user = catalog_find_user(e.site->catalog, e.user_name);
	show_put_columns(explain_columns, EXPLAIN_COLUMNS, out);
	rows_init(&e.rows, e.site, out, EXPLAIN_COLUMNS);
	if (e.is_unix)
		explain(&e, "connection", "unix socket");
	else
		explain(&e, "connection", "TCP from %s, %s TLS",
		    sock_addr_ip(&e.addr, ip), e.is_tls ? "with" : "without");
	explain_database(&e);
	explain_method(&e);
	explain_secret(&e);
	if (explain_outcome(&e) == 0)
		explain_server(&e);
	if (e.arena)
		arena_free(&e.arena);
	codec_put_command_complete(out, "EXPLAIN");
	return 0;
}
