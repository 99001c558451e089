/*
 * Sends the console's answers.  Each function ends one command with ReadyForQuery. They
 * send nothing to a client that is being closed.
 */
#ifndef ADMIN_REPLY_H
#define ADMIN_REPLY_H

#include "base/buf.h"
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

/* ---- SHOW HELP ---- */

/* Appends the whole answer. */
void reply_put_help(struct buf *out);

/* ---- SHOW and SET of drivers ---- */

struct driver_param {
	const char *name;
	const char *value;
};

/* Finds a parameter by its name, in upper or lower case; NULL: it is none of them. */
const struct driver_param *driver_param_find(const char *name);
/* Appends the whole answer to SHOW of the parameter: one column with one row. */
void driver_param_put(const struct driver_param *param, struct buf *out);

#endif
