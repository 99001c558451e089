/*
 * The text of a Query or Parse on its way to a server.  It is looked at once, for
 * whatever the settings in force need to know of it; a text that clients share already
 * was looked at when the first of them sent it.  What was found is passed on as an
 * argument.
 */
#ifndef RELAY_TEXTS_H
#define RELAY_TEXTS_H

#include <stdbool.h>

#include "session/client.h"
#include "session/server.h"
#include "wire/effects.h"
#include "wire/prepared.h"

struct text_facts {
	struct sql_effects effects;
	/* the shared text that a named Parse will be given; one reference, or NULL */
	struct prepared_text *shared;
	/* a named Parse whose text is kept in parts: see long_text.h */
	bool is_long;
	uint8_t asked; /* of a tracked Parse without a name: see texts_asked */
};

/* Finds the text of a Query or Parse, or the part that has come: it ends with the
 * message or at a NUL before that.  False: it has not begun. */
bool texts_find(const struct message *m, const char **text, size_t *len);
/* Is a backslash in a string special to this server? */
bool texts_has_escapes(const struct server *server);

enum { TEXTS_ASKED_ELSEWHERE = 0xff }; /* by another process */

/* What is to be known of the text of a tracked Parse without a name, as bits: as long
 * as they are the same, so are the effects of a text. */
uint8_t texts_asked(const struct server *server);

/* Is enough of a Query or Parse here to look at it and to send it?  is_tracked: the
 * client's prepared statements are. */
bool texts_have_enough(
    const struct server *server, const struct message *m, bool is_tracked);
/* A whole Query of which nobody needs to know anything: most of them are. */
bool texts_is_plain(const struct server *server, const struct message *query);
/* The caller gives the reference back with prepared_unref. */
struct text_facts texts_look(
    const struct server *server, const struct message *m, bool is_tracked);

#endif
