/*
 * Peers: other pooler processes behind the same address (peer_id, [peers]).  A cancel
 * request that reaches the wrong process is forwarded to the one that has the client;
 * the key says which one that is (protocol.md 13).
 */
#ifndef CANCEL_PEERS_H
#define CANCEL_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "session/client.h"

struct peers; /* the peers that a site knows */
struct peer_conn;
struct cancel_request;

void peers_init(struct site *site);
void peers_done(struct site *site);
/* Settings have changed: drops requests for peers that no longer exist, and sends
 * others if there is room now. */
void peers_review(struct site *site);
/* Closes every connection to a peer silently, for an immediate exit. */
void peers_drop_all(struct site *site);
bool peers_are_idle(const struct site *site);

/* Writes the number of this process into a new key. */
void peers_mark_key(const struct site *site, uint8_t *key);
/* Whether the key of a CancelRequest belongs to another process.  A key of this process
 * is changed so that it can be compared. */
bool peers_is_foreign(const struct site *site, uint8_t *key, size_t len);
/* Forwards the request, which has come to this site.  At most pool_size requests per
 * peer are sent at a time; others wait in order, for at most cancel_wait_timeout. */
void peers_forward(struct cancel_request *request, const uint8_t *key, size_t len);

/* For SHOW PEER_POOLS: a peer that was used since the start. */
struct peer_view {
	int id;
	size_t active_count;  /* number of requests being sent */
	size_t waiting_count; /* number of requests that wait for their turn */
	/* number of active connections that have sent the request */
	size_t sent_count;
	size_t connecting_count;
};
typedef void peers_view_fn(void *ctx, const struct peer_view *view);
void peers_walk(const struct site *site, peers_view_fn *show, void *ctx);
size_t peers_count(const struct site *site);

#endif
