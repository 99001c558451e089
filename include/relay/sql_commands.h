/*
 * The commands PREPARE, EXECUTE and DEALLOCATE of clients that get another server for
 * each transaction (track_sql_prepare): which statement they name, what is sent in
 * their place, what must be sent before, and what changes when they succeed.  As in
 * PostgreSQL, they share their names with the statements of the protocol; EXECUTE and
 * DEALLOCATE of those work with session_state=keep, too.  Commands in
 * a Query are handled in sql_statements.h, those in Parse, Bind and Execute in
 * statements.h.  A result of -1 always means: no memory.
 */
#ifndef RELAY_SQL_COMMANDS_H
#define RELAY_SQL_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

#include "relay/server_prepared.h"
#include "session/client.h"
#include "session/server.h"
#include "wire/prepared_sql.h"

/* One such command, and the text that its name stands for. */
struct sql_command {
	struct prepared_sql sql; /* COMMAND_NONE: it is another command */
	/* one reference: the text that is run, or prepared; NULL: there is none */
	struct prepared_text *text;
	uint32_t generation; /* in which the client has prepared it */
	struct prepared_sql_move move;
	char ours[PREPARED_NAME_SIZE]; /* the pooler's name */
};

/* Are all such commands followed? */
bool sql_is_on(const struct server *server);
/* Does the pooler give statements other names, so that some of these commands must be
 * rewritten?  Without sql_is_on, with session_state=keep, those are EXECUTE and
 * DEALLOCATE of a statement of the protocol; one that PREPARE has made is the server's
 * own.  Those of a statement that PREPARE has made while sql_is_on are always. */
bool sql_renames(const struct server *server);
/* Reads the command in a text with these effects. */
int sql_command_init(struct sql_command *c, const struct client *client,
    const struct server *server, const char *text, const struct sql_effects *effects);
void sql_command_done(struct sql_command *c);
/* Appends the text with the pooler's name in it, without a NUL. */
void sql_command_put(
    const struct sql_command *c, const char *text, size_t len, struct buf *out);
/* The shared text of the Parse that is sent in place of the client's; one reference for
 * the caller.  NULL: no memory. */
struct prepared_text *sql_command_text(const struct sql_command *c,
    const struct server *server, const struct prepared_text *text);
/* Sends what must precede a Parse, Bind or Describe of the command. */
int sql_command_before(const struct sql_command *c, struct server *server);

/* Sends this Parse for the client.  In errors the client reads names and positions of
 * its own text. */
int sql_command_send(struct server *server, const struct sql_command *c,
    const struct buf *parse, uint32_t tag);

/* Sends what must precede the command when it runs. */
int sql_before_run(const struct client *client, struct server *server,
    enum command_kind kind, const char *name, struct prepared_text *text);
/* m is CommandComplete: applies the changes of the command if it is that one's. */
int sql_completed(struct client *client, struct server *server, const struct message *m,
    enum command_kind kind, const char *name, struct prepared_text *text);
/* The command has failed: is the statement unknown to the server, or can it not run any
 * more?  Then it is prepared again before its next use. */
bool sql_has_lost(struct server *server, const struct message *m,
    enum command_kind kind, struct prepared_text *text);

/* ---- portals of such commands, until the transaction ends ---- */

struct sql_portal {
	struct node node; /* in link.portals */
	enum command_kind kind;
	struct prepared_text *text; /* one reference, or NULL */
	struct prepared_sql_move move;
	char ours[PREPARED_NAME_SIZE];
	char theirs[PREPARED_SQL_NAME];
	char name[];
};

/* NULL: the portal is not of such a command. */
struct sql_portal *sql_portal_find(const struct server *server, const char *name);
void sql_portal_drop(struct server *server, const char *name);
/* May a portal be made now?  It belongs to the transaction in which the server reads
 * its Bind, which must be known. */
bool sql_portal_may_be_made(const struct server *server);
/* A whole Bind of the command (NULL: of another statement) goes to the server. */
int sql_portal_note(
    struct server *server, const struct message *m, const struct sql_command *c);
void sql_portals_clear(struct server *server);

#endif
