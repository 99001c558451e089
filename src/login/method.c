/*
 * Chooses the method of a login.  auth/hba matches the rules; net/dns looks up the
 * names of hosts, for a limited time.
 */
#include "login/method.h"

#include <string.h>

#include "auth/external_auth.h"
#include "auth/oauth_keys.h"
#include "login/login_state.h"

/* The limit of a look-up: the resolver itself would wait longer for a name server that
 * does not answer. */
enum { NAME_WAIT_US = 5000000 };

static enum auth_type method_of_rule(const struct hba_rule *rule)
{
	switch (rule->method) {
	case HBA_TRUST:
		return AUTH_TRUST;
	case HBA_REJECT:
		return AUTH_REJECT;
	case HBA_MD5:
		return AUTH_MD5;
	case HBA_PLAIN:
		return AUTH_PLAIN;
	case HBA_PEER:
		return AUTH_PEER;
	case HBA_CERT:
		return AUTH_CERT;
	case HBA_SCRAM:
		return AUTH_SCRAM;
	case HBA_LDAP:
		return AUTH_LDAP;
	case HBA_PAM:
		return AUTH_PAM;
	case HBA_OAUTH:
		return AUTH_OAUTH;
	case HBA_GSS:
		return AUTH_GSS;
	}
	return AUTH_NONE;
}

bool method_may_succeed(enum auth_type method)
{
	return method != AUTH_REJECT && method != AUTH_NONE;
}

bool method_is_external(enum auth_type method)
{
	return method == AUTH_LDAP || method == AUTH_PAM || method == AUTH_OAUTH ||
	       method == AUTH_GSS;
}

enum error_id method_failure(enum auth_type method)
{
	switch (method) {
	case AUTH_TRUST:
		return ERROR_TRUST_FAILED;
	case AUTH_SCRAM:
		return ERROR_SASL_FAILED;
	case AUTH_PLAIN:
	case AUTH_MD5:
		return ERROR_PASSWORD_FAILED;
	case AUTH_CERT:
		return ERROR_CERT_FAILED;
	case AUTH_PEER:
		return ERROR_PEER_FAILED;
	case AUTH_LDAP:
		return ERROR_LDAP_FAILED;
	case AUTH_PAM:
		return ERROR_PAM_FAILED;
	case AUTH_OAUTH:
		return ERROR_OAUTH_FAILED;
	case AUTH_GSS:
		return ERROR_GSS_FAILED;
	case AUTH_REJECT:
		return ERROR_LOGIN_REJECTED;
	default:
		return ERROR_METHOD_UNAVAILABLE;
	}
}

enum error_id method_missing_external(
    enum auth_type method, const struct hba_rule *rule, const struct settings *settings)
{
	if (method == AUTH_PAM && !external_auth_has_pam())
		return ERROR_PAM_UNSUPPORTED;
	if (method == AUTH_LDAP && !external_auth_has_ldap())
		return ERROR_LDAP_UNSUPPORTED;
	if (method == AUTH_OAUTH && !oauth_is_supported())
		return ERROR_OAUTH_UNSUPPORTED;
	if (method == AUTH_LDAP && !rule && !settings->auth_ldap_options)
		return ERROR_LDAP_OPTIONS_UNSET;
	return ERROR_COUNT;
}

bool method_requires_binding(
    const struct sock_addr *remote, const struct settings *settings)
{
	return remote->family != AF_UNIX &&
	       settings->client_channel_binding == CHANNEL_BINDING_REQUIRE;
}

bool method_asks_scram(
    enum auth_type method, enum secret_kind kind, bool is_mostly_scram)
{
	if (method != AUTH_MD5)
		return method == AUTH_SCRAM;
	switch (kind) {
	case SECRET_SCRAM:
		return true;
	case SECRET_PLAIN:
	case SECRET_MD5:
		return false;
	case SECRET_NONE:
	case SECRET_MALFORMED:
		break;
	}
	return is_mostly_scram;
}

enum hba_result method_by_rules(const struct access_rules *rules,
    const struct hba_peer *peer, const struct hba_rule **rule, enum auth_type *method)
{
	enum hba_result result =
	    rules ? hba_match(rules->hba, peer, rule) : HBA_NO_MATCH;

	if (result == HBA_MATCH)
		*method = method_of_rule(*rule);
	else if (result == HBA_NO_MATCH)
		*method = AUTH_NONE;
	else if (result == HBA_OTHER_SPELLING)
		*method = AUTH_REJECT;
	if (result == HBA_NO_MATCH)
		*rule = NULL;
	return result;
}

/* Sets login->method and login->rule from the first rule that fits.  host_name is NULL
 * with HBA_NAME_NONE and HBA_NAME_UNKNOWN. */
static enum method method_match(
    struct client *client, enum hba_name name, const char *host_name)
{
	struct login *login = client->login;
	const struct conn *conn = &client->conn;
	static const enum hba_replication kinds[] = {
	    [REPLICATION_NONE] = HBA_REPLICATION_NONE,
	    [REPLICATION_LOGICAL] = HBA_REPLICATION_LOGICAL,
	    [REPLICATION_PHYSICAL] = HBA_REPLICATION_PHYSICAL,
	};
	/* rules for replication do not apply to the console, even if its client asks
	 * for replication */
	bool is_console = client->database && client->database->is_admin;
	struct hba_peer peer = {
	    .is_unix = conn->remote.family == AF_UNIX,
	    .is_tls = stream_tls(&conn->stream) != NULL,
	    .family = conn->remote.family,
	    .name = name,
	    .host_name = host_name,
	    .replication =
		is_console ? HBA_REPLICATION_NONE : kinds[client->replication],
	    .database = login->startup.database,
	    .user = login->startup.user,
	};

	memcpy(peer.ip, conn->remote.ip, sizeof(peer.ip));
	login->method = AUTH_NONE;
	switch (method_by_rules(login->rules, &peer, &login->rule, &login->method)) {
	case HBA_NEEDS_NAME:
		return METHOD_LATER;
	case HBA_OTHER_SPELLING:
		conn_log(conn, LEVEL_WARNING | KIND_AUTH,
		    "a rule names the user in another spelling: %s:%u",
		    login->rule->file, login->rule->line);
		login->rule = NULL;
		break;
	case HBA_MATCH:
	case HBA_NO_MATCH:
		break;
	}
	return METHOD_KNOWN;
}

/* ---- the name of the client's host ---- */

static void method_go_on(struct client *client, const char *host_name)
{
	struct login *login = client->login;

	deadline_clear(client->conn.site->loop, &login->name_due);
	if (login->name_query)
		dns_reverse_cancel(&login->name_query);
	if (client->conn.is_doomed)
		return;
	(void)method_match(
	    client, host_name ? HBA_NAME_KNOWN : HBA_NAME_NONE, host_name);
	login->method_known(client);
}

static void method_named(void *ctx, const char *name, const struct err *err)
{
	struct client *client = ctx;

	client->login->name_query = NULL;
	if (!name)
		conn_log(&client->conn, LEVEL_DEBUG | KIND_DNS, "no host name: %s",
		    err->text);
	method_go_on(client, name);
}

static void method_unnamed(struct deadline *due)
{
	struct login *login = container_of(due, struct login, name_due);

	conn_log(&login->client->conn, LEVEL_WARNING | KIND_DNS,
	    "the name of the client's host was not found out in time");
	method_go_on(login->client, NULL);
}

enum method method_choose(struct client *client, method_known_fn *known)
{
	const struct site *site = client->conn.site;
	struct login *login = client->login;

	login->method = (enum auth_type)site_settings(site)->auth_type;
	if (login->method == AUTH_HBA || login->method == AUTH_OAUTH)
		login->rules = access_rules_ref(site->rules);
	if (login->method != AUTH_HBA)
		return METHOD_KNOWN;
	if (method_match(client, HBA_NAME_UNKNOWN, NULL) == METHOD_KNOWN)
		return METHOD_KNOWN;
	login->method_known = known;
	deadline_init(&login->name_due, method_unnamed);
	deadline_set(site->loop, &login->name_due, loop_now(site->loop) + NAME_WAIT_US);
	login->name_query =
	    dns_reverse(site->dns, &client->conn.remote, method_named, client);
	return METHOD_LATER;
}

void method_done(struct client *client)
{
	struct login *login = client->login;

	if (login->name_query)
		dns_reverse_cancel(&login->name_query);
	deadline_clear(client->conn.site->loop, &login->name_due);
	access_rules_unref(&login->rules);
}
