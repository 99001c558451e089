/*
 * An unnamed statement that a shared one stands for (prepare_unnamed): no Parse is sent
 * to a server that has that statement.  A result of -1 always means: no memory.
 */
#ifndef RELAY_SHARED_UNNAMED_H
#define RELAY_SHARED_UNNAMED_H

#include <stddef.h>

#include "session/client.h"
#include "session/server.h"
#include "wire/prepared.h"

/* A whole unnamed Parse, for which common_texts_find has found this text: answers it,
 * or sends it under the text's name. */
int shared_unnamed_parse(struct client *client, struct server *server,
    const struct message *m, struct prepared_text *text);
enum {
	SHARED_UNNAMED_SENT, /* the bytes from *rest on have to be sent */
	SHARED_UNNAMED_WAIT, /* it has to wait until no ReadyForQuery is owed */
	SHARED_UNNAMED_MORE, /* show it again when it is whole */
	SHARED_UNNAMED_NONE, /* no shared one stands for the statement */
};
/* Sends a Bind or Describe of the client's unnamed statement up to the statement's
 * name, if a shared one stands for it. */
int shared_unnamed_use(struct client *client, struct server *server,
    const struct message *m, size_t *rest);

#endif
