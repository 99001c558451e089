/*
 * The commands PREPARE, EXECUTE and DEALLOCATE as simple queries: see sql_commands.h.
 * On a server only one such query is in flight at a time, together with the messages
 * that the pooler sends for it.
 */
#ifndef RELAY_SQL_STATEMENTS_H
#define RELAY_SQL_STATEMENTS_H

#include <stdbool.h>

#include "session/client.h"
#include "session/server.h"
#include "wire/effects.h"

enum sql_fate {
	SQL_FORWARD, /* not one of these commands */
	SQL_SENT,    /* a rewritten form was sent and entered in the ledger */
	SQL_WAIT,    /* show it again when nothing is owed any more */
	SQL_BROKEN,  /* client and server are being closed */
};
/* A Query of a client whose statements are tracked is about to go to the server. */
enum sql_fate sql_rewrite_query(struct client *client, struct server *server,
    const struct message *m, const struct sql_effects *effects);

/* Must this message of the server be shown to sql_answered whole? */
bool sql_wants_whole(const struct server *server, const struct message *m);

enum sql_answer {
	SQL_PASS, /* the client gets it */
	SQL_KEEP, /* it does not get it, or has got something in its place */
};
/* A message of the server that would be forwarded, and completed `done`. */
enum sql_answer sql_answered(struct client *client, struct server *server,
    const struct message *m, const struct pipeline_entry *done);
/* The link ends. */
void sql_unlink(struct server *server);

#endif
