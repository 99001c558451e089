/*
 * DROP DATABASE and the like fail while others are connected to the database, and
 * servers at rest are.  With session_state=keep those of a database that has no clients
 * are closed for such a statement, at all workers.  PostgreSQL waits for 5 s until
 * nobody is connected; so the statement goes on at once, and for so long the pooler
 * looks again for servers that come to rest.
 */
#ifndef RELAY_VACATE_H
#define RELAY_VACATE_H

#include "session/server.h"

/* A text with the effect `vacates` has gone to the server, or a Bind of one. */
void vacate_begin(struct server *server, const char *text, size_t len);
/* It is answered, or its client has gone. */
void vacate_answered(struct server *server);
static inline void vacate_settle(struct server *server)
{
	if (server->link.schema.vacates)
		vacate_answered(server);
}
/* The site ends. */
void vacate_stop(struct site *site);

#endif
