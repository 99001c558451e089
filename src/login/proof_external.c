#include "login/proof_external.h"

#include <errno.h>
#include <pwd.h>
#include <unistd.h>

#include "auth/external_auth.h"
#include "auth/helpers.h"
#include "login/login_state.h"

/* The limit of the buffer for an entry of the account database. */
enum { ACCOUNT_ENTRY_MAX = 1024 * 1024 };

int proof_external_submit(struct client *client, struct helpers_job *job)
{
	struct login *login = client->login;
	struct err err;

	if (helpers_submit(client->conn.site->helpers, job, &err) < 0) {
		client_fatal_text(client, err.sqlstate, err.text);
		return -1;
	}
	login->job = job;
	login_await(login);
	return 0;
}

void proof_external_end(struct client *client, enum proof proof)
{
	struct login *login = client->login;

	login->job = NULL;
	login_await_end(login);
	if (!client->conn.is_doomed)
		login->proven(client, proof);
}

/* ---- the account behind a unix socket ---- */

struct account_job {
	struct helpers_job job;
	struct client *client; /* borrowed, for done() */
	unsigned uid;
	char *name; /* owned: the account's name; NULL: it was not found */
};

/* The buffer grows until the entry fits: how long it is depends on where accounts are
 * kept. */
static void account_run(struct helpers_job *job)
{
	struct account_job *account = container_of(job, struct account_job, job);
	struct passwd entry, *found = NULL;
	size_t size = 1024;
	char *room = mem_alloc(size);

	while (getpwuid_r((uid_t)account->uid, &entry, room, size, &found) == ERANGE &&
	       size < ACCOUNT_ENTRY_MAX) {
		size *= 2;
		room = mem_resize(room, size);
	}
	if (found)
		account->name = mem_strdup(entry.pw_name);
	mem_free(room);
}

static void account_done(struct helpers_job *job)
{
	struct account_job *account = container_of(job, struct account_job, job);
	struct client *client = account->client;
	const struct login *login = client->login;
	bool is_his = false;
	char word[LOG_WORD];

	if (account->name)
		is_his = ident_may(login->rules->ident, login->rule->map, account->name,
		    login->startup.user);
	if (!is_his && login->rule->map)
		conn_log(&client->conn, LEVEL_ERROR | KIND_AUTH,
		    "ident map %s cannot be matched", login->rule->map);
	if (!is_his)
		conn_log(&client->conn, LEVEL_WARNING | KIND_AUTH,
		    "account %s (uid %u) may not log in as %s",
		    account->name ? account->name : "without a name", account->uid,
		    conn_log_word(&client->conn, word, login->startup.user));
	proof_external_end(client, is_his ? PROOF_DONE : PROOF_FAILED);
}

static void account_discard(struct helpers_job *job)
{
	struct account_job *account = container_of(job, struct account_job, job);

	mem_free(account->name);
	mem_free(account);
}

enum proof proof_external_ask_account(struct client *client)
{
	struct account_job *account;
	unsigned uid;
	int pid;

	if (client->conn.remote.family != AF_UNIX || client->is_proxied ||
	    sock_peer(client->conn.stream.fd, &pid, &uid) < 0)
		return PROOF_FAILED;
	account = mem_zero(sizeof(*account));
	account->job.kind = HELPERS_ACCOUNT;
	account->job.run = account_run;
	account->job.done = account_done;
	account->job.discard = account_discard;
	account->client = client;
	account->uid = uid;
	if (proof_external_submit(client, &account->job) == 0)
		return PROOF_MORE;
	account_discard(&account->job);
	return PROOF_REFUSED;
}

/* ---- a password ---- */

static void password_done(struct external_auth *answer)
{
	struct client *client = answer->owner;
	struct login *login = client->login;

	if (answer->result < 0)
		conn_log(
		    &client->conn, LEVEL_WARNING | KIND_AUTH, "%s", answer->err.text);
	else
		login->password = mem_strdup(answer->password);
	proof_external_end(client, answer->result == 0 ? PROOF_DONE : PROOF_FAILED);
}

static struct external_auth *password_question(
    struct client *client, const char *password)
{
	const struct login *login = client->login;
	const char *options = site_settings(client->conn.site)->auth_ldap_options;
	char host[SOCK_ADDR_TEXT];

	if (login->method == AUTH_PAM)
		return external_auth_new_pam(login->startup.user, password,
		    sock_addr_ip(&client->conn.remote, host), password_done, client);
	if (login->rule)
		options = login->rule->options;
	return external_auth_new_ldap(login->startup.user, password,
	    options ? options : "", password_done, client);
}

enum proof proof_external_ask_password(struct client *client, const char *password)
{
	struct external_auth *question = password_question(client, password);

	if (!question) {
		client_fatal(client, ERROR_OUT_OF_MEMORY);
		return PROOF_REFUSED;
	}
	if (proof_external_submit(client, &question->job) == 0)
		return PROOF_MORE;
	external_auth_discard(question);
	return PROOF_REFUSED;
}
