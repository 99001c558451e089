/*
 * session_state=keep: what a transaction has left in the session of its server keeps
 * the server with the client, "pinned"; but for settings, which go along with the
 * client (relay/kept.h).  Texts tell only what a transaction may have
 * left (session_state.h); so the server is asked in one query before it is given up,
 * and its answer alone counts.  It is asked again after a transaction that may have
 * ended some of it.  The client's ReadyForQuery waits for the answer.
 */
#ifndef RELAY_PIN_QUESTION_H
#define RELAY_PIN_QUESTION_H

#include <stdbool.h>

#include "session/client.h"
#include "session/server.h"

/* Has the client left or set something, or may it have? */
static inline bool pin_question_is_due(const struct server *server)
{
	return server->link.pin.made || server->link.pin.kinds || server->kept;
}
/* A transaction has ended, and nothing is owed.  Asks the server what is left, if the
 * transaction may have changed that.  has_ready: the client has got its ReadyForQuery.
 * True: it was asked, and pin_question_answered follows. */
bool pin_question_ask(struct server *server, struct client *client, bool has_ready);
/* Asks for the settings that connect_query has made, which keep nobody.  To be called
 * before a client uses the server.  True: it was asked. */
bool pin_question_ask_own(struct server *server);
/* Is the answer whose turn it is one to the question? */
bool pin_question_is_next(const struct server *server);
/* A row of the answer, and an ErrorResponse instead of it. */
void pin_question_note_row(struct server *server, const struct message *m);
void pin_question_note_error(struct server *server, const struct message *m);
/* The answer is complete: 0.  1: it was asked once more.  -1: the answer is of no use,
 * and the server is being closed. */
int pin_question_answered(struct server *server, struct client *client, bool has_ready);

/* Appends the names of these kinds, separated by commas. */
void pin_question_put_kinds(uint16_t kinds, struct buf *out);

#endif
