/*
 * The unnamed statement of a client that gets another server for each transaction.  A
 * result of -1 always means: no memory.
 */
#ifndef RELAY_UNNAMED_H
#define RELAY_UNNAMED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "session/client.h"
#include "session/server.h"

struct text_facts;

/* For site->unnamed_slab. */
struct slab *unnamed_slab(struct mem *mem);

/* Enters a Parse of it in the ledger. 0: the message is to be sent as it is; 1: it was
 * sent in other words.  Its text is at that offset. */
int unnamed_parse(struct client *client, struct server *server, const struct message *m,
    size_t text_at, const struct text_facts *facts);
/* Is it, byte for byte, the Parse that the client sent last, in whose text is nothing
 * that needs to be noted?  That costs no look at the text. */
bool unnamed_is_again(
    const struct client *client, const struct server *server, const struct message *m);
/* Enters such a Parse in the ledger; it is to be sent as it is. */
int unnamed_parse_again(struct client *client, struct server *server);
/* Does the server have the statement, and does its Bind or Describe mean nothing to
 * anybody else? */
bool unnamed_is_quiet(const struct client *client, const struct server *server);
/* Enters a Query or Close, which ends the statement; the message is to be sent as it
 * is. */
int unnamed_end(struct client *client, struct server *server, const struct message *m);
/* The message of this tag succeeded; it may be any message. */
void unnamed_parsed(struct client *client, uint32_t tag);
/* It failed: there is no unnamed statement any more. */
void unnamed_failed(struct client *client, struct server *server, uint32_t tag);
/* It was skipped: the earlier statement is still there. */
void unnamed_skipped(struct client *client, struct server *server, uint32_t tag);
/* Makes sure that the server has the statement before a Bind or Describe of it, which
 * is to be sent as it is. 1: wait until no ReadyForQuery is owed. */
int unnamed_bring(
    struct client *client, struct server *server, const struct message *m);
/* For a takeover: can it be told what it is just now? */
bool unnamed_is_certain(const struct client *client);
void unnamed_describe(const struct client *client, struct parcel_client *out);
/* -1: no memory, or no such statement ever was. */
int unnamed_restore(struct client *client, const struct parcel_client *from);
/* The statement is certainly gone. */
void unnamed_forget(struct client *client);

#endif
