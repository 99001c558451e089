/*
 * How the console answers: each of these ends one command with ReadyForQuery.  Nothing
 * is sent to a client that is being closed.
 */
#ifndef ADMIN_REPLY_H
#define ADMIN_REPLY_H

#include "session/client.h"

/* Longest text of an error; what is longer is cut. */
enum { REPLY_TEXT_MAX = 1023 };

/* CommandComplete. */
void reply_done(struct client *client, const char *tag);
/* ErrorResponse of severity ERROR with SQLSTATE 08P01, logged. */
void reply_error(struct client *client, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The same with another SQLSTATE. */
void reply_error_code(struct client *client, const char *sqlstate, const char *text);
/* The same; the rest of text behind its first line is the DETAIL, which is not logged.
 */
void reply_error_detail(struct client *client, const char *sqlstate, const char *text);
/* The error for what is no command: quotes the whole query. */
void reply_invalid(struct client *client, const char *query);

#endif
