/*
 * GSSAPI with a server: each step is a job for a helper thread, the first of which may
 * ask a KDC for a ticket.  session/tickets.c keeps tickets.
 */
#include "broker/dial_kerberos.h"

#include <string.h>

#include "auth/kerberos.h"
#include "base/errors.h"
#include "broker/dial_attempt.h"
#include "session/tickets.h"

static enum step fail(struct server *server, const struct err *err)
{
	char text[sizeof(err->text) + 32];

	conn_log(&server->conn, LEVEL_ERROR | KIND_SERVERS, "%s", err->text);
	error_print(text, sizeof(text), ERROR_SERVER_LOGIN_FAILED, err->text);
	dial_fail(server, DIAL_TICKET, text, error_sqlstate(ERROR_SERVER_LOGIN_FAILED),
	    "failed to answer authreq");
	return STEP_CLOSE;
}

/* Another attempt follows, with a new ticket. */
static void give_up_ticket(struct server *server)
{
	conn_doom(&server->conn, "server refuses the ticket");
	server->dial->owner->retried(server);
}

static void fail_at_end(struct later *l)
{
	struct server *server = container_of(l, struct dial, at_end)->server;

	/* what was read may need another step */
	if (!dial_kerberos_is_at_work(server))
		dial_fail_network(server, error_text(ERROR_SERVER_CRASHED));
}

void dial_kerberos_note_end(struct server *server)
{
	struct dial *dial = server->dial;

	dial->has_ended = true;
	dial->at_end.run = fail_at_end;
	/* the message that waits has been put on the loop before */
	if (!dial->job)
		loop_later(server->conn.site->loop, &dial->at_end);
}

static void stepped(struct kerberos_job *job)
{
	struct server *server = job->owner;
	struct dial *dial = server->dial;
	struct buf message;

	dial->job = NULL;
	dial->kerberos = job->exchange;
	job->exchange = NULL;
	tickets_note_use(server->conn.site, dial->ticket);
	if (server->conn.is_doomed)
		return;
	if (job->result == KERBEROS_FAILED && kerberos_refused(dial->kerberos)) {
		give_up_ticket(server);
		return;
	}
	if (job->result == KERBEROS_FAILED) {
		(void)fail(server, &job->err);
		return;
	}
	dial->is_authenticated = job->result == KERBEROS_DONE;
	if (job->out.len) {
		/* a GSSResponse is, as an answer to SASL, the bytes alone */
		buf_init(&message, 0);
		codec_put_sasl_response(&message, job->out.bytes, job->out.len);
		conn_send(&server->conn, &message);
		buf_wipe_done(&message);
	}
	conn_resume(&server->conn);
	conn_unpark(&server->conn);
	if (dial->has_ended)
		dial_kerberos_note_end(server);
}

static enum step submit(struct server *server, const uint8_t *data, size_t len)
{
	struct dial *dial = server->dial;
	struct kerberos_job *job = kerberos_job_new(
	    HELPERS_TICKET, &dial->kerberos, data, len, stepped, server);
	struct err err;

	if (!job)
		err_set_row(&err, ERROR_OUT_OF_MEMORY);
	else if (helpers_submit(server->conn.site->helpers, &job->job, &err) == 0) {
		dial->job = &job->job;
		/* PostgreSQL does not wait until its last token has been read: what
		 * follows, and the end of the connection, have to */
		conn_pause(&server->conn);
		return STEP_NEXT;
	} else
		kerberos_job_discard(job);
	return fail(server, &err);
}

enum step dial_kerberos_begin(struct server *server)
{
	const struct dial_identity who = dial_identity(server);
	struct dial *dial = server->dial;
	const char *host = dial_place(server);
	struct buf service;
	struct err err;

	if (dial->ticket || dial->has_scram) {
		err_set(&err, "the server asks for GSSAPI out of order");
		return fail(server, &err);
	}
	if (server->conn.remote.family == AF_UNIX) {
		err_set(&err, "GSSAPI does not work over a unix socket: the ticket is "
			      "for the name of the host");
		return fail(server, &err);
	}
	/* a host of several addresses is "NAME/ADDRESS" */
	buf_init(&service, 0);
	buf_printf(&service, "%s@%.*s", scope_server_krb_service(who.scope),
	    (int)strcspn(host, "/"), host);
	dial->ticket =
	    tickets_get(server->conn.site, scope_server_krb_keyfile(who.scope),
		scope_server_krb_principal(who.scope), buf_text(&service));
	buf_done(&service);
	dial->kerberos = kerberos_connect_new(dial->ticket);
	return submit(server, NULL, 0);
}

enum step dial_kerberos_continue(struct server *server, const uint8_t *data, size_t len)
{
	const struct dial *dial = server->dial;
	struct err err;

	if (dial->kerberos && !dial->is_authenticated)
		return submit(server, data, len);
	err_set(&err, "unexpected GSSAPI message");
	return fail(server, &err);
}

bool dial_kerberos_is_at_work(const struct server *server)
{
	return server->dial->ticket && server->dial->job;
}

bool dial_kerberos_expired(struct server *server)
{
	if (!dial_kerberos_is_at_work(server))
		return false;
	conn_log(&server->conn, LEVEL_ERROR | KIND_SERVERS, "%s",
	    error_text(ERROR_TICKET_TIMEOUT));
	dial_fail(server, DIAL_TICKET, error_text(ERROR_TICKET_TIMEOUT),
	    error_sqlstate(ERROR_TICKET_TIMEOUT), "connect timeout");
	return true;
}

bool dial_kerberos_refused(struct server *server, const char *sqlstate)
{
	const struct dial *dial = server->dial;
	bool is_refused = dial->kerberos &&
			  strcmp(sqlstate, SQLSTATE_INVALID_AUTHORIZATION) == 0 &&
			  kerberos_refused(dial->kerberos);

	if (is_refused)
		give_up_ticket(server);
	return is_refused;
}
