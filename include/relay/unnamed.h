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

struct prepared_text;
struct text_facts;

/* Makes site->unnamed_slab. */
struct slab *unnamed_slab(struct mem *mem);

/* Enters a Parse of the unnamed statement in the ledger.  text_at: offset of its text
 * in the message.  0: send the message as it is; 1: a rewritten form was sent. */
int unnamed_parse(struct client *client, struct server *server, const struct message *m,
    size_t text_at, const struct text_facts *facts);
/* The shared text stands for the client's unnamed statement from now on; nothing is in
 * flight.  tag: that of the Parse that is about to be sent for it; 0: none is. */
int unnamed_share(struct client *client, struct server *server,
    struct prepared_text *text, uint32_t tag);
/* That text, borrowed, the generation in which the client has parsed it, and the tag of
 * a Parse that is not answered yet.  NULL: none stands for the statement. */
struct prepared_text *unnamed_shared(
    const struct client *client, uint32_t *generation, uint32_t *tag);
/* The text of the statement of a client without a server; NULL: it has none, or one
 * that is not tracked. */
const char *unnamed_text(const struct client *client);
/* The Parse that the client sent last, if its text has no effects to be noted: the same
 * bytes need not be examined again.  NULL: they have to be. */
const uint8_t *unnamed_repeatable(
    const struct client *client, const struct server *server, size_t *size);
/* Enters such a Parse in the ledger; the caller sends it as it is. */
int unnamed_parse_again(struct client *client, struct server *server);
/* Does the server have the statement, and does a Bind or Describe of it concern only
 * the ledger? */
bool unnamed_is_quiet(const struct client *client, const struct server *server);
/* Enters a Query or Close, which ends the statement, in the ledger; the caller sends it
 * as it is. */
int unnamed_end(struct client *client, struct server *server, const struct message *m);
/* The message entered last stands for the client's Query or unnamed Parse (type): if it
 * runs, it ends the statement. */
void unnamed_replaced(struct client *client, struct server *server, uint8_t type);
/* The message of this tag, which may be any message, has succeeded. */
void unnamed_parsed(struct client *client, struct server *server, uint32_t tag);
/* The message of this tag has failed: there is no unnamed statement any more. */
void unnamed_failed(struct client *client, uint32_t tag);
/* The message of this tag was skipped: the earlier statement still exists. */
void unnamed_skipped(struct client *client, uint32_t tag);
/* Is what the next message finds as the unnamed statement certainly not another
 * client's, or is that message skipped? */
static inline bool unnamed_is_on_server(const struct server *server)
{
	return server->link.unnamed.is_owned || server->link.unnamed.is_sent;
}
/* Makes sure that the server has the statement before a Bind or Describe of it, which
 * the caller sends as it is.  1: the client must wait until no ReadyForQuery is owed.
 */
int unnamed_bring(
    struct client *client, struct server *server, const struct message *m);

/*
 * Where statements are not tracked: no text is kept, but nobody gets another
 * client's statement.
 */

/* Enters a Parse or Close of the unnamed statement in the ledger; the caller sends it
 * as it is. */
int unnamed_parse_untracked(struct server *server, const struct message *m);
/* Before a Bind or Describe while !unnamed_is_on_server: ends a statement that may be
 * another client's.  1: as unnamed_bring. */
int unnamed_bring_untracked(struct server *server);
/* A client without a server and without a statement has sent this whole Parse, whose
 * text has no effects to be noted.  -1: no memory. */
int unnamed_parsed_at_rest(struct client *client, const uint8_t *parse, size_t size);
/* For a takeover: is it certain at the moment which statement the client has? */
bool unnamed_is_certain(const struct client *client);
void unnamed_describe(const struct client *client, struct record_client *out);
/* -1: no memory, or the description is not valid. */
int unnamed_restore(struct client *client, const struct record_client *from);
/* For service_moves.pack and unpack. */
void *unnamed_pack(struct client *client);
void unnamed_unpack(struct client *client, void *packed);
/* The client certainly has no unnamed statement. */
void unnamed_forget(struct client *client);

#endif
