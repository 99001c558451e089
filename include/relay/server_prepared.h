/*
 * The prepared statements that a server connection holds under names of ours.  They are
 * made when they are needed and closed when there are too many; each change stays in
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
/* Send a Close of the pooler's own. */
int server_prepared_close(struct server *server, const char *name, uint32_t tag);

/* The text that is shared for these bytes as the server would read them now; one
 * reference for the caller.  NULL: there is none yet. */
struct prepared_text *server_prepared_shared(
    const struct server *server, const uint8_t *key, size_t len);
/* The shared text for these bytes as the server would read them now; a text of its own
 * where that is not known, or depends on the time.  A text that is made has these
 * effects; one that is shared already keeps its own.  One reference for the caller.
 * NULL: no memory. */
struct prepared_text *server_prepared_intern(const struct server *server,
    struct prepared_registry *r, const uint8_t *key, size_t len,
    const struct sql_effects *effects);
/* The text to prepare on the server for one that may have been read under other
 * parameters; one reference for the caller.  NULL: no memory. */
struct prepared_text *server_prepared_variant(
    const struct server *server, struct prepared_text *text);

/* Does the server hold the text, and is that certain? */
bool server_prepared_is_held(
    const struct server *server, const struct prepared_text *text);
/* The server holds one more text from the message of this tag on. */
int server_prepared_add(
    struct server *server, struct prepared_text *text, uint32_t tag);
/* Closes the statements unused for longest until there is room for so many more; to be
 * called behind the message that made it necessary. */
int server_prepared_make_room(struct server *server, size_t room);
/* Closes the statement if it is uncertain, so that a Parse cannot fail because of it.
 */
int server_prepared_close_spoilt(struct server *server, struct prepared_text *text);
/* Closes the statement before a Parse of it is sent, which would fail otherwise.  (A
 * Parse is sent although the server holds the text when ParseComplete cannot be made
 * up: in an aborted transaction.) */
int server_prepared_drop(struct server *server, struct prepared_text *text);
/* Make sure that the server holds the text when it reads the next message. */
int server_prepared_ensure(struct server *server, struct prepared_text *text);
/* The server may have lost statements, and it is not known which: each is prepared
 * again before its next use. */
void server_prepared_doubt(struct server *server);
/* Make sure that the server has a statement of the text's name, so that a Parse under
 * it fails. */
int server_prepared_block(struct server *server, struct prepared_text *text);

#endif
