/*
 * Walks over messages that follow one another in one block and concern only the ledger.
 * A walk begins with the message that is being shown, decides once for all of them what
 * such messages may be, and enters them in one loop.
 */
#ifndef RELAY_BATCH_H
#define RELAY_BATCH_H

#include "session/client.h"
#include "session/server.h"

/* May a message of the client concern only the ledger at the moment? */
bool batch_is_possible(const struct client *client, const struct server *server);
/* Enters the client's messages in the ledger, at most so many.  Returns how many bytes
 * they are; those behind m are taken, and the caller forwards all as they are.  0: m
 * may concern more than the ledger, and nothing has changed. */
size_t batch_requests(
    struct client *client, struct server *server, const struct message *m, size_t most);
/* Checks the server's answers against the ledger as long as they are for the client,
 * and returns how many bytes they are. */
size_t batch_answers(
    struct server *server, struct client *client, const struct message *m);

/* CommandComplete of SELECT, INSERT, UPDATE, DELETE, BEGIN, COMMIT and others that
 * leave nothing behind and bring nothing back. */
bool batch_has_plain_tag(const uint8_t *message, size_t have);

#endif
