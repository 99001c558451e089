/*
 * What clients do to the schema of their database: CREATE, ALTER, DROP, SELECT INTO and
 * changes of rights make what was prepared before out of date, in all pools of the
 * database.  Such a statement is known from its text when it is sent, or from its tag,
 * where the text was too long to be examined, has hidden it, or need not be looked
 * at.  From then on server->changes_schema is set, until
 * the transaction is over (server_settle_schema), whether it was rolled back or not.
 */
#ifndef RELAY_SCHEMA_H
#define RELAY_SCHEMA_H

#include "session/conn.h"
#include "session/server.h"
#include "wire/effects.h"

/* A text of these effects went to the server, or a Bind of one. */
void schema_expect(struct server *server, const struct sql_effects *effects);
/* A CommandComplete has come. */
void schema_note_tag(struct server *server, const struct message *m);
/* A ReadyForQuery outside of a block has come, which is still in the ledger. */
void schema_note_ready(struct server *server);
/* Everything that was sent is answered. */
void schema_settle(struct server *server);
/* Does a text mean what it has always meant in this generation, for all that is known?
 * Not in a transaction block, where an error could not be healed, not behind a
 * statement that may begin one or change something, and not where a search_path may
 * have been left behind that the server does not report. */
bool schema_is_quiet(const struct server *server);

#endif
