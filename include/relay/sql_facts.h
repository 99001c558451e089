/*
 * The text of a Query or Parse on its way to a server.  It is examined once, for
 * everything that the settings in force need to know of it.  A text that is shared
 * already was examined when the first client sent it.  The result is passed on as an
 * argument.
 */
#ifndef RELAY_SQL_FACTS_H
#define RELAY_SQL_FACTS_H

#include <stdbool.h>

#include "session/client.h"
#include "session/server.h"
#include "wire/effects.h"
#include "wire/prepared.h"

struct text_facts {
	struct sql_effects effects;
	/* the shared text of a named Parse, or that which serves an unnamed one (see
	 * common_texts.h); one reference, or NULL */
	struct prepared_text *shared;
	/* a named Parse whose text is kept in parts: see long_text.h */
	bool is_long;
	/* of a tracked Parse of the unnamed statement: see sql_facts_asked */
	uint8_t asked;
};

/* Finds the text of a Query or Parse, or the part that has arrived.  It ends at a NUL
 * or with the message.  False: no byte of it has arrived. */
bool sql_facts_find(const struct message *m, const char **text, size_t *len);
/* Does a backslash in a string escape the next character on this server? */
bool sql_facts_has_escapes(const struct server *server);

enum {
	/* prepare_unnamed is on: each Parse is examined, so that it is counted */
	TEXTS_ASKED_COUNTED = 8,
	/* session_state is keep: see LEAK_UNSEEN */
	TEXTS_ASKED_CALLS = 16,
	TEXTS_ASKED_ELSEWHERE = 0xff, /* the text was not examined here */
};

/* What the settings in force need to know of the text of a tracked unnamed Parse, as
 * bits.  With the same bits, the same text has the same effects. */
uint8_t sql_facts_asked(const struct server *server);

/* Has enough of a Query or Parse arrived to examine it and to send it?  is_tracked: the
 * client's prepared statements are tracked. */
bool sql_facts_have_enough(
    const struct server *server, const struct message *m, bool is_tracked);
/* Is this a whole Query in which nothing has to be noted?  Most queries are. */
bool sql_facts_is_plain(const struct server *server, const struct message *query);
/* Examines the text.  The caller gives back facts.shared with prepared_unref. */
struct text_facts sql_facts_look(
    const struct server *server, const struct message *m, bool is_tracked);

#endif
