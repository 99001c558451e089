/*
 * Gets the password of an attempt before it connects, so that a slow program holds no
 * connection open, and tells what a server has made of it.
 */
#include "broker/dial_password.h"

#include <string.h>

#include "base/errors.h"
#include "broker/dial_attempt.h"

/* How long a program may take where server_connect_timeout is 0. */
enum { PROGRAM_US = 60000000 };

static void take(struct server *server, char *password)
{
	struct dial *dial = server->dial;

	/* whatever it looks like: a hash would be of no use */
	dial->fetched = (struct secret){.kind = SECRET_PLAIN, .text = password};
	dial->next(server);
}

static void come(struct password_wait *wait, char *password, const struct err *err)
{
	struct dial *dial = container_of(wait, struct dial, password_wait);
	struct server *server = dial->server;

	if (server->conn.is_doomed) {
		mem_free_secret(password);
		return;
	}
	if (password)
		take(server, password);
	else
		dial_fail(server, DIAL_PASSWORD, err->text,
		    error_sqlstate(ERROR_NO_SERVER_PASSWORD),
		    error_text(ERROR_NO_SERVER_PASSWORD));
}

void dial_password_get(struct server *server, void (*next)(struct server *server))
{
	const struct dial_identity who = dial_identity(server);
	uint64_t limit_us = scope_server_connect_timeout(who.scope);
	struct dial *dial = server->dial;
	char *host, *password;

	if (!who.source.command && !who.source.file) {
		next(server);
		return;
	}
	/* a host of several addresses is "NAME/ADDRESS" */
	host = mem_strdup(dial_place(server));
	if (*host != '/')
		host[strcspn(host, "/")] = '\0';
	const struct password_request request = {
	    .command = who.source.command,
	    .file = who.source.file,
	    .host = host,
	    .port = server->port,
	    .user = who.user,
	    .database = who.db->dbname,
	    .limit_us = limit_us ? limit_us : PROGRAM_US,
	};
	dial->next = next;
	dial->password_wait.done = come;
	password = passwords_get(server->conn.site, &request,
	    request.file ? 0 : scope_server_password_lifetime(who.scope),
	    &dial->password_wait);
	mem_free(host);
	if (password)
		take(server, password);
}

bool dial_password_may_be_shown(const struct server *server)
{
	return !server->dial->fetched.text || server->conn.remote.family == AF_UNIX ||
	       stream_tls(&server->conn.stream);
}

bool dial_password_refused(struct server *server, const char *sqlstate)
{
	struct dial *dial = server->dial;
	bool is_about_it = strcmp(sqlstate, SQLSTATE_INVALID_PASSWORD) == 0 ||
			   strcmp(sqlstate, SQLSTATE_INVALID_AUTHORIZATION) == 0;

	return dial->fetched.text && is_about_it &&
	       passwords_refused(&dial->password_wait);
}

void dial_password_accepted(struct server *server)
{
	if (server->dial->fetched.text)
		passwords_accepted(&server->dial->password_wait);
}
