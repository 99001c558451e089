/*
 * What nextval() does unseen, in defaults, triggers and functions, is not looked for:
 * whoever was linked to a server may have left numbers there.
 */
#include "relay/sequences.h"

#include <string.h>
#include <strings.h>

#include "relay/session_state.h"
#include "relay/sql_facts.h"
#include "wire/sql_calls.h"

enum { HEADER_LEN = 5 };

void sequences_put_discard(
    struct server *server, const struct client *client, struct buf *sql)
{
	buf_put_text(sql, "DISCARD SEQUENCES;");
	server->sequences_client = client->conn.id;
}

bool sequences_is_begin(const struct message *m)
{
	static const char begin[] = "begin";
	enum { BEGIN = sizeof(begin) - 1 };

	/* a semicolon may be the last but the NUL */
	return m->type == 'Q' && message_is_whole(m) && m->have > HEADER_LEN + BEGIN &&
	       strncasecmp((const char *)m->bytes + HEADER_LEN, begin, BEGIN) == 0 &&
	       !memchr(m->bytes + HEADER_LEN, ';', m->have - HEADER_LEN - 2);
}

bool sequences_must_wait(
    struct client *client, struct server *server, const struct message *m)
{
	const char *text;
	struct buf sql;
	size_t len;

	if (client->params.reads_sequences || !session_state_are_kept(server) ||
	    !sql_facts_find(m, &text, &len) ||
	    (message_is_whole(m) && !sql_calls_read_sequences(text, len)))
		return false;
	client->params.reads_sequences = true;
	/* behind something else of this transaction they may be its own */
	if (!sequences_are_due(server, client) || server->link.params.has_run ||
	    server->status == 'E' || !pipeline_is_settled(&server->pipeline))
		return false;
	buf_init(&sql, 0);
	sequences_put_discard(server, client, &sql);
	server->link.params.is_applying = true;
	server->link.params.apply_failed = false;
	server->link.params.apply_us = conn_now(&server->conn);
	server_query_text(server, &sql);
	buf_done(&sql);
	return true;
}
