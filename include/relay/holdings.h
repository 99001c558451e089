/*
 * The prepared statements that a server connection holds under names of ours: made when
 * they are needed, closed when there are too many, each change in the journal until it
 * is answered.  And the aliases: what an answer in flight is to be called for the
 * client.  What -1 means is always: no memory.
 */
#ifndef RELAY_HOLDINGS_H
#define RELAY_HOLDINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "session/server.h"
#include "wire/effects.h"
#include "wire/prepared.h"
#include "wire/prepared_sql.h"

/* A server-side name that no text ever gets: what is unknown stays unknown. */
extern const char holdings_no_statement[];

/* max_prepared_statements */
int holdings_limit(const struct server *server);
uint32_t holdings_next_tag(struct server *server);
int holdings_owe(struct server *server, uint8_t type, enum owed_to to, uint32_t tag);
int holdings_note(struct server *server, uint32_t tag, enum prepared_change change,
    const char *name, struct prepared_text *text);
/* Send a Close of ours. */
int holdings_close(struct server *server, const char *name, uint32_t tag);

/* The shared text for these bytes as the server would read them now; a text of its own
 * where that is not known, or depends on the time.  One reference for the caller. NULL:
 * no memory. */
struct prepared_text *holdings_intern(const struct server *server,
    struct prepared_registry *r, const uint8_t *key, size_t len,
    const struct sql_effects *effects);
/* The text to prepare on the server for one that may have been read under other
 * parameters; one reference for the caller.  NULL: no memory. */
struct prepared_text *holdings_variant(
    const struct server *server, struct prepared_text *text);

/* Does the server have the text, and as it was parsed? */
bool holdings_is_held(const struct server *server, const struct prepared_text *text);
/* The server holds one more text from the message of this tag on. */
int holdings_add(struct server *server, struct prepared_text *text, uint32_t tag);
/* The oldest ones go until there is room for so many more; to be called behind the
 * message that made it necessary. */
int holdings_make_room(struct server *server, size_t room);
/* What is of no use any more is closed first, so that a Parse cannot clash. */
int holdings_close_spoilt(struct server *server, struct prepared_text *text);
/* A Parse of it is not to clash with what the server holds (it does when ParseComplete
 * cannot be made up: in an aborted transaction). */
int holdings_drop(struct server *server, struct prepared_text *text);
/* Make sure that the server holds the text when it comes to the next message. */
int holdings_ensure(struct server *server, struct prepared_text *text);
/* Statements may be gone from the server, and the pooler did not see which: what it
 * held is made anew before its next use. */
void holdings_doubt(struct server *server);
/* Make sure that a statement of the text's name clashes. */
int holdings_block(struct server *server, struct prepared_text *text);

/* An answer that is due in other words. */
struct alias {
	struct node node;
	uint32_t tag;
	struct prepared_sql_move move; /* of the place of an error; 0: it has not */
	/* of a Parse that is to fail because the name is taken: what the name stands
	 * for if it does not fail; one reference, or NULL */
	struct prepared_text *parsed;
	/* of the Execute of such a command: what its success changes */
	enum command_kind kind;
	struct prepared_text *text; /* one reference, or NULL */
	char ours[sizeof(((struct prepared_text *)0)->name)];
	char theirs[];
};
/* NULL: no memory. */
struct alias *holdings_alias_new(
    struct server *server, uint32_t tag, const char *ours, const char *theirs);
/* NULL: there is none. */
struct alias *holdings_alias(const struct server *server, uint32_t tag);
void holdings_alias_end(struct server *server, uint32_t tag);
void holdings_alias_clear(struct server *server);

#endif
