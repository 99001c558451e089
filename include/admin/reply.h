/*
 * How the console answers: each of these ends one command with ReadyForQuery.  Nothing
 * is sent to a client that is being closed.
 */
#ifndef ADMIN_REPLY_H
#define ADMIN_REPLY_H

#include "session/client.h"

/* CommandComplete. */
void reply_done(struct client *client, const char *tag);
/* ErrorResponse of severity ERROR, logged; the arguments are those of the row's text.
 */
void reply_error(struct client *client, enum error_id id, ...);
/* The same for a text without arguments, with a DETAIL, which is not logged. */
void reply_error_detail(struct client *client, enum error_id id, const char *detail);
/* The error for a query that is no command; it quotes the whole query. */
void reply_invalid(struct client *client, const char *query);

#endif
