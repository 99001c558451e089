/*
 * Who has sent a notification.  PostgreSQL names the process of the server; the clients
 * that get it know each other by the process ids that the pooler has told them.  So the
 * table has, for each server, the client that was linked to it last, and the one
 * before.  All workers share it, without a lock.
 *
 * A notification arrives a moment after the transaction that has sent it, when the
 * server may be another client's already.  A link that has just begun is therefore not
 * taken for the sender.  A wrong answer is possible if a server changes clients at the
 * same moment; a process id that no client of this pooler has stays as it is.
 */
#ifndef RELAY_LISTEN_SENDER_H
#define RELAY_LISTEN_SENDER_H

#include "session/client.h"
#include "session/server.h"

/* The table is made with the first connection that listens, and is NULL before. */
void listen_sender_want(const struct pool *pool);

void listen_sender_link(const struct server *server, const struct client *client);
void listen_sender_unlink(const struct server *server);
/* The process id of the sender as its client knows it; pid if that is not known. */
uint32_t listen_sender_find(const struct pool *pool, uint32_t pid, uint64_t now_us);

#endif
