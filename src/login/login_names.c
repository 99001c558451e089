#include "login/login_names.h"

#include <string.h>

#include "login/login_state.h"

void login_names_find_database(struct client *client)
{
	struct login *login = client->login;
	struct catalog *catalog = client->conn.site->catalog;
	bool is_new = false;
	char word[LOG_WORD];
	struct database *db =
	    catalog_database(catalog, login->startup.database, &is_new);

	if (is_new)
		conn_log(&client->conn, LEVEL_LOG | KIND_POOLS,
		    "registered new auto-database: %s",
		    conn_log_word(&client->conn, word, login->startup.database));
	login->is_fake_db = db == NULL;
	if (!db)
		return;
	client->database = db;
	database_hold(db);
}

/* auth_type=any: every client logs in as the database's forced user. */
static enum authquery find_any_user(struct client *client)
{
	struct database *db = client->database;
	if (!db)
		return AUTHQUERY_FOUND;
	if (!db->forced_user) {
		conn_log(&client->conn, LEVEL_ERROR | KIND_AUTH,
		    "auth_type=any requires forced user");
		client_fatal(client, ERROR_CONFIG_ERROR);
		return AUTHQUERY_REFUSED;
	}
	client->user = db->forced_user;
	return AUTHQUERY_FOUND;
}

/* NULL: the user is not in auth_file. */
static struct user *static_user(const struct client *client)
{
	struct user *user =
	    catalog_find_user(client->conn.site->catalog, client->login->startup.user);

	/* the user "pgbouncer" of the console is in no list */
	bool is_known =
	    user && (user->has_secret || strcmp(user->name, "pgbouncer") == 0);
	return is_known ? user : NULL;
}

static void find_own_user(struct client *client)
{
	struct login *login = client->login;
	char word[LOG_WORD];

	client->user = static_user(client);
	if (!client->user && login->method == AUTH_TRUST) {
		/* who has left auth_file has no secret any more, which trust does not
		 * ask for */
		struct user *user = catalog_find_user(
		    client->conn.site->catalog, client->login->startup.user);
		client->user = user && user->is_listed ? user : NULL;
	}
	if (client->user)
		return;
	conn_log(&client->conn, LEVEL_LOG | KIND_AUTH, "no such user: %s",
	    conn_log_word(&client->conn, word, login->startup.user));
	login->is_mock = true;
}

/* With LDAP, PAM, GSSAPI and tokens, an unknown user is added when the proof has
 * succeeded. */
static enum authquery find_external_user(struct client *client)
{
	const struct database *db = client->database;

	bool has_password =
	    client->login->method == AUTH_LDAP || client->login->method == AUTH_PAM;

	if (has_password && db && db->config && db->config->own.auth_user) {
		conn_log(&client->conn, LEVEL_ERROR | KIND_AUTH,
		    "%s can't be used together with database authentication",
		    client->login->method == AUTH_PAM ? "PAM" : "LDAP");
		client_fatal(client, ERROR_CONFIG_ERROR);
		return AUTHQUERY_REFUSED;
	}
	client->user =
	    catalog_find_user(client->conn.site->catalog, client->login->startup.user);
	return AUTHQUERY_FOUND;
}

enum authquery login_names_find_user(
    struct client *client, void (*on_found)(struct client *client))
{
	struct login *login = client->login;
	struct database *stand_in = client->conn.site->catalog->stand_in;
	enum authquery found;

	/* with trust everybody may learn which databases exist */
	if (login->is_fake_db && stand_in && !stand_in->disabled &&
	    login->method != AUTH_TRUST) {
		login->stand_in = stand_in;
		database_hold(stand_in);
	}
	if (login->method == AUTH_ANY)
		return find_any_user(client);
	if (method_is_external(login->method))
		return find_external_user(client);
	if (!method_may_succeed(login->method) || !authquery_is_for(client) ||
	    static_user(client)) {
		find_own_user(client);
		return AUTHQUERY_FOUND;
	}
	found = authquery_begin(client, false, on_found);
	if (found == AUTHQUERY_FOUND) {
		client->user = login->found_user;
		login->phase = LOGIN_PASSWORD;
	}
	return found;
}
