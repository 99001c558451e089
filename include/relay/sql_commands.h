/*
 * The commands PREPARE, EXECUTE and DEALLOCATE of clients whose server changes under
 * them (track_sql_prepare): what they are about, what is sent instead, what must stand
 * before it, and what their success changes.  Names are those of the protocol, too, as
 * PostgreSQL has it.  How a command comes and goes is sql_statements.h's (Query) and
 * statements.h's (Parse, Bind, Execute).  What -1 means is always: no memory.
 */
#ifndef RELAY_SQL_COMMANDS_H
#define RELAY_SQL_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

#include "relay/server_prepared.h"
#include "session/client.h"
#include "session/server.h"
#include "wire/prepared_sql.h"

/* One such command, and what its name stands for now. */
struct sql_command {
	struct prepared_sql sql; /* COMMAND_NONE: it is no such command */
	/* one reference: what is run, or made; NULL: there is none */
	struct prepared_text *text;
	struct prepared_sql_move move;
	char ours[sizeof(((struct prepared_text *)0)->name)]; /* instead of the name */
};

bool sql_is_on(const struct server *server);
/* For a text with these effects. */
int sql_command_init(struct sql_command *c, const struct client *client,
    const struct server *server, const char *text, const struct sql_effects *effects);
void sql_command_done(struct sql_command *c);
/* Append the text under our name, without a NUL. */
void sql_command_put(
    const struct sql_command *c, const char *text, size_t len, struct buf *out);
/* The text of a Parse in its place, shared; one reference for the caller.  NULL: no
 * memory. */
struct prepared_text *sql_command_text(const struct sql_command *c,
    const struct server *server, const struct prepared_text *text);
/* Send what must stand before a Parse, Bind or Describe of it. */
int sql_command_before(const struct sql_command *c, struct server *server);

/* Send this Parse of it for the client; errors are about the client's text. */
int sql_command_send(struct server *server, const struct sql_command *c,
    const struct buf *parse, uint32_t tag);

/* Send what must stand before it is run. */
int sql_before_run(const struct client *client, struct server *server,
    enum command_kind kind, const char *name, struct prepared_text *text);
/* It was completed. */
int sql_completed(struct client *client, struct server *server, enum command_kind kind,
    const char *name, struct prepared_text *text);
/* It failed: does the server not have the statement, or cannot run it any more?  It is
 * made again before its next use then. */
bool sql_has_lost(struct server *server, const struct message *m,
    enum command_kind kind, struct prepared_text *text);

/* ---- portals of such commands, until the transaction ends ---- */

struct sql_portal {
	struct node node; /* in link.portals */
	enum command_kind kind;
	struct prepared_text *text; /* one reference, or NULL */
	struct prepared_sql_move move;
	char ours[sizeof(((struct prepared_text *)0)->name)];
	char theirs[PREPARED_SQL_NAME];
	char name[];
};

/* NULL: the portal is not of such a command. */
struct sql_portal *sql_portal_find(const struct server *server, const char *name);
void sql_portal_drop(struct server *server, const char *name);
/* A portal belongs to the transaction that is the server's when its Bind comes: not
 * before that is known. */
bool sql_portal_may_be_made(const struct server *server);
/* A whole Bind of the command (NULL: of something else) goes to the server. */
int sql_portal_note(
    struct server *server, const struct message *m, const struct sql_command *c);
void sql_portals_clear(struct server *server);

#endif
