/*
 * Peers: other poolers behind the same address (peer_id, [peers]).  A cancel request
 * that reaches the wrong one is passed on to the one whose client it is about; the key
 * says which (protocol.md 13).
 */
#ifndef CANCEL_PEERS_H
#define CANCEL_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "session/client.h"

struct peers; /* of a site */
struct peer_errand;

void peers_init(struct site *site);
void peers_done(struct site *site);
/* Settings have changed: requests for peers that are gone are dropped, others may have
 * room now. */
void peers_review(struct site *site);
/* Every connection to a peer closes without a word.  For an immediate exit. */
void peers_drop_all(struct site *site);
bool peers_are_idle(const struct site *site);

/* Write into a new key which process it belongs to. */
void peers_mark_key(const struct site *site, uint8_t *key);
/* Is the key of a CancelRequest another process's?  One of our own is made fit for
 * comparison. */
bool peers_is_foreign(const struct site *site, uint8_t *key, size_t len);
/* Pass on the request: takes the client that brought it over.  Not more than
 * pool_size requests per peer are under way at once; others wait in order, for
 * cancel_wait_timeout at most. */
void peers_forward(struct client *carrier, const uint8_t *key, size_t len);

/* For SHOW PEER_POOLS: peers that were used since the start. */
struct peer_view {
	int id;
	size_t active_count;  /* requests under way */
	size_t waiting_count; /* requests that wait for room */
	size_t sent_count;    /* connections on which the request was sent */
	size_t connecting_count;
};
typedef void peers_view_fn(void *ctx, const struct peer_view *view);
void peers_walk(const struct site *site, peers_view_fn *show, void *ctx);
size_t peers_count(const struct site *site);

#endif
