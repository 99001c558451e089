/*
 * Session state that clients leave behind on servers which others use next (transaction
 * and statement mode): counted, cleaned or refused, as session_state says.  What a text
 * or a tag leaves is wire/leak's to know.
 *
 * A refused statement is replaced by one that PostgreSQL rejects, and PostgreSQL's
 * error by the pooler's.  So the statement does not run, and PostgreSQL itself handles
 * everything around the error (a failed transaction, messages skipped up to Sync).
 */
#ifndef RELAY_SESSION_STATE_H
#define RELAY_SESSION_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "session/client.h"
#include "session/server.h"
#include "wire/effects.h"

/* Smaller tags in the ledger are those of refused statements: leak_kind + 1. */
enum { LEAK_TAG_END = LEAK_KIND_COUNT + 1 };

/* ---- SHOW STATE_LEAKS ---- */

enum { LEAK_ROWS_MAX = 1000 };

struct leak_row {
	struct node node;
	enum leak_kind kind;
	uint64_t count;
	uint64_t last_us;   /* loop clock */
	uint64_t logged_us; /* when the log last told that it keeps a server */
	const char *database, *user, *application_name;
	size_t key_len;
	char key[]; /* the kind, then the three names with their NULs */
};

struct leak_table;

/* Counts what a client leaves behind.  NULL: there is no memory for it. */
struct leak_row *session_state_count(const struct client *client, enum leak_kind kind);

struct leak_table *leak_table_new(void);
void leak_table_free(struct leak_table **table);
/* struct leak_row by .node, the latest first.  With more than LEAK_ROWS_MAX the oldest
 * rows are dropped. */
const struct list *session_state_rows(const struct leak_table *table);

/* ---- calls of the relay ---- */

/* Does what its clients leave behind keep this server with them (session_state=keep)?
 */
bool session_state_are_kept(const struct server *server);

enum leak_fate {
	LEAK_PASS,
	LEAK_REFUSED, /* the replacement was sent and entered in the ledger: drop the
			 message */
	LEAK_BROKEN,  /* client and server are being closed */
};
/* A Query or Parse of these effects is about to go to the server. */
enum leak_fate session_state_check(struct client *client, struct server *server,
    const struct message *m, const struct sql_effects *effects);
/* A FunctionCall is about to go to the server. */
void session_state_check_call(struct server *server, const struct message *m);
/* A text of these effects went to the server, or a Bind of one.  m: the message; NULL:
 * the pooler will see no Bind of it. */
void session_state_expect(struct server *server, const struct sql_effects *effects,
    const struct message *m, const char *text, size_t len);

/* Must this message of the server, which is no CommandComplete, be shown to
 * session_state_answered whole? */
bool session_state_want_whole(const struct server *server, const struct message *m);
/* A message of the server is about to go to the client, before the ledger sees it;
 * `due` is the tag at the ledger's head.  True when the client was sent something in
 * its place. */
bool session_state_answered(struct client *client, struct server *server,
    const struct message *m, uint32_t due);
/* Everything that was sent is answered. */
void session_state_settle(struct server *server);
/* The server is about to be given back. */
void session_state_release(struct server *server);

#endif
