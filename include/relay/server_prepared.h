/*
 * The prepared statements that a server connection has under the pooler's names.  They
 * are made when they are needed and closed when there are too many; each change is in
 * the journal until it is answered.  A result of -1 always means: no memory.
 */
#ifndef RELAY_SERVER_PREPARED_H
#define RELAY_SERVER_PREPARED_H

#include <stdbool.h>
#include <stdint.h>

#include "session/server.h"
#include "wire/effects.h"
#include "wire/prepared.h"

/* max_prepared_statements */
int server_prepared_limit(const struct server *server);
int server_prepared_note(struct server *server, uint32_t tag,
    enum prepared_change change, const char *name, struct prepared_text *text);
/* Sends a Close of the pooler. */
int server_prepared_close(struct server *server, const char *name, uint32_t tag);

/* The shared text for these bytes, as the server would read them with its present
 * parameters; one reference for the caller.  NULL: there is none yet. */
struct prepared_text *server_prepared_shared(
    const struct server *server, const uint8_t *key, size_t len);
/* As server_prepared_shared, but makes the text if there is none: one that is not
 * shared if the server's parameters are not known or the text depends on the time.  A
 * new text gets these effects; a shared one keeps its own.  One reference for the
 * caller.  NULL: no memory. */
struct prepared_text *server_prepared_intern(const struct server *server,
    struct prepared_registry *r, const uint8_t *key, size_t len,
    const struct sql_effects *effects);
/* The text to prepare on this server for a text that may have been prepared under other
 * parameters; one reference for the caller.  NULL: no memory. */
struct prepared_text *server_prepared_variant(
    const struct server *server, struct prepared_text *text);

/* Does the server certainly have the statement of this text, prepared in this
 * generation (see server_generation) or later? */
bool server_prepared_is_held(
    const struct server *server, const struct prepared_text *text, uint32_t generation);
/* The server has one more statement from the message of this tag on. */
int server_prepared_add(
    struct server *server, struct prepared_text *text, uint32_t tag);
/* Closes the statements that were not used for longest until there is room for `room`
 * more.  Call it after the message that made it necessary was sent. */
int server_prepared_make_room(struct server *server, size_t room);
/* Closes the statement if it is uncertain, so that a Parse cannot fail because of it.
 */
int server_prepared_close_spoilt(struct server *server, struct prepared_text *text);
/* Closes the statement before a Parse of it is sent, which would fail otherwise.  (Such
 * a Parse is needed in an aborted transaction, where the pooler cannot make up a
 * ParseComplete although the server has the statement.) */
int server_prepared_drop(struct server *server, struct prepared_text *text);
/* Makes sure that the server has the statement when it reads the next message, prepared
 * in this generation or later.  (A client's statement means what it meant when the
 * client prepared it, or something newer.) */
int server_prepared_ensure(
    struct server *server, struct prepared_text *text, uint32_t generation);
/* For a server that has just logged in, and is to take the place of another: sends a
 * Parse of the statements of the model that clients use most, as many as take
 * milliseconds, and a Sync.  See site->prepare_like. */
void server_prepared_copy(struct server *server, const struct server *model);
/* The server may have lost statements, but it is not known which: each is prepared
 * again before its next use. */
void server_prepared_doubt(struct server *server);
/* Makes sure that the server has a statement of the text's name, so that a Parse of
 * this name fails. */
int server_prepared_block(struct server *server, struct prepared_text *text);

#endif
