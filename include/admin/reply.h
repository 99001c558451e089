/*
 * Sends the console's answers.  Each function ends one command with ReadyForQuery. They
 * send nothing to a client that is being closed.
 */
#ifndef ADMIN_REPLY_H
#define ADMIN_REPLY_H

#include "session/client.h"

/* Sends CommandComplete. */
void reply_done(struct client *client, const char *tag);
/* Sends and logs an ErrorResponse of severity ERROR; the arguments are those of the
 * error's text. */
void reply_error(struct client *client, enum error_id id, ...);
/* Sends and logs the error of a text without arguments.  Its DETAIL is sent, but not
 * logged. */
void reply_error_detail(struct client *client, enum error_id id, const char *detail);
/* Sends the error for a query that is no command; it quotes the whole query. */
void reply_invalid(struct client *client, const char *query);

#endif
