/*
 * The clients of a site by their cancel keys (protocol: BackendKeyData, CancelRequest).
 * A client holds its own key, so an entry is a pointer only: there is one for every
 * client, and entries of a struct map take three times as much memory.
 */
#ifndef SESSION_CANCEL_KEYS_H
#define SESSION_CANCEL_KEYS_H

#include <stddef.h>
#include <stdint.h>

struct client;
struct cancel_keys;

struct cancel_keys *cancel_keys_new(void);
/* Clients stay as they are. */
void cancel_keys_free(struct cancel_keys **keys);

size_t cancel_keys_count(const struct cancel_keys *keys);
/* Returns the client with this key of len bytes, or NULL. */
struct client *cancel_keys_find(
    const struct cancel_keys *keys, const uint8_t *key, size_t len);
/* Nobody has the client's key yet.  The client and its key (client_cancel_key) stay as
 * they are until cancel_keys_remove. */
void cancel_keys_add(struct cancel_keys *keys, struct client *client);
/* The client was added. */
void cancel_keys_remove(struct cancel_keys *keys, struct client *client);

#endif
