/*
 * The statement without a name of a client whose server changes under it.  What -1
 * means is always: no memory.
 */
#ifndef RELAY_UNNAMED_H
#define RELAY_UNNAMED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "session/client.h"
#include "session/server.h"

/* A Parse of it is entered; 0: it is to be sent as it is, 1: it was sent in other
 * words.  Its text is at that offset. */
int unnamed_parse(struct client *client, struct server *server, const struct message *m,
    size_t text_at, const struct sql_effects *effects);
/* A Query or Close, which ends the statement, is entered: it is to be sent as it is. */
int unnamed_end(struct client *client, struct server *server, const struct message *m);
/* The message of this tag was answered well, if it is one of those. */
void unnamed_parsed(struct client *client, uint32_t tag);
/* It failed: there is none any more. */
void unnamed_failed(struct client *client, struct server *server, uint32_t tag);
/* It was not looked at: what there was is still there. */
void unnamed_skipped(struct client *client, struct server *server, uint32_t tag);
/* A Bind or Describe of it is to be sent as it is: the server has it then.  1: not
 * before no ReadyForQuery is owed. */
int unnamed_bring(
    struct client *client, struct server *server, const struct message *m);
/* It is gone for certain. */
void unnamed_forget(struct client *client);

#endif
