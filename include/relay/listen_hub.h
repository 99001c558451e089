/*
 * The connection that listens for all clients of a pool (session_state=keep).  The
 * server of the first client that listens becomes it, so that nothing is lost in
 * between and no further connection is needed; it is closed after the last one has
 * left.  It counts as a server in use, and as a pinned one.
 *
 * One site has it for all workers.  central_pool.listener tells which, by a number that
 * no other connection ever gets: 0: there is none.  The other sites send it questions,
 * to LISTEN to channels, and it answers when that is in force; and it sends them
 * notifications.
 */
#ifndef RELAY_LISTEN_HUB_H
#define RELAY_LISTEN_HUB_H

#include "relay/listen_table.h"

/* The number of the connection that this server would become. */
uint64_t listen_hub_number(const struct server *server);
/* The client's link with the server has ended, and central_pool.listener has the
 * server's number: it becomes the connection, which has LISTENed to the client's
 * channels. */
void listen_hub_begin(struct server *server, const struct listening *first);

/* What messages do at the site with the connection.  ask: LISTEN to these channels,
 * names with their NULs; message->answer is called at the site that asks when all that
 * the server had sent until then is on its way, or with is_refused: the connection is
 * not there any more.  drop: a site has no client any more that listens to this
 * channel. */
listen_handle_fn listen_hub_ask, listen_hub_drop;

#endif
