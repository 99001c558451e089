/*
 * Cancel keys (protocol: BackendKeyData, CancelRequest) of the clients of all workers.
 * There is one table for a process, under a lock of its own, so that a CancelRequest
 * finds its client at once, whichever thread has accepted it.
 *
 * A key is embedded in its client.  Its owner must not touch it between
 * cancel_keys_add and cancel_keys_remove, except by the functions below.  The lock is
 * held for microseconds, and never across a system call.
 */
#ifndef SESSION_CANCEL_KEYS_H
#define SESSION_CANCEL_KEYS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of a cancel key (process id and secret): in protocol 3.0, and in 3.2. */
enum { CANCEL_KEY_LEN = 8, CANCEL_KEY_LONG = 4 + 32 };

struct cancel_key {
	struct cancel_key *next; /* used by the table */
	union {
		uint8_t bytes[CANCEL_KEY_LEN];
		uint8_t *long_bytes; /* owned; if len is CANCEL_KEY_LONG */
	};
	uint8_t len; /* 0: the client has no key */
	/* Places among the workers (session/workers.h).  at: who knows where the client
	 * is.  to: where it is; if this is another place, it is on its way there, and a
	 * message that `at` sends there arrives after it. */
	uint8_t at, to;
};

/* One for all workers (workers.h), or that of the only site. */
struct cancel_keys;

struct cancel_keys *cancel_keys_new(void);
/* No key may be in it any more. */
void cancel_keys_free(struct cancel_keys **keys);
size_t cancel_keys_count(struct cancel_keys *keys);

static inline const uint8_t *cancel_key_bytes(const struct cancel_key *key)
{
	return key->len == CANCEL_KEY_LONG ? key->long_bytes : key->bytes;
}
/* Copies these bytes into a zeroed key, which is in no table.  len is CANCEL_KEY_LEN or
 * CANCEL_KEY_LONG. */
void cancel_key_set(struct cancel_key *key, const uint8_t *bytes, size_t len);
/* Wipes a key that is in no table. */
void cancel_key_done(struct cancel_key *key);

/* Adds the key of a client that is at this place.  -1: another client has the same key;
 * nothing has changed. */
int cancel_keys_add(struct cancel_keys *keys, struct cancel_key *key, unsigned place);
/* Takes the key out of the table, and wipes it.  Nothing happens without a key. */
void cancel_keys_remove(struct cancel_keys *keys, struct cancel_key *key);
/* The client goes to this place, and is posted there in the same handler; and it has
 * arrived there.  Nothing happens without a key. */
void cancel_keys_send(struct cancel_keys *keys, struct cancel_key *key, unsigned to);
void cancel_keys_settle(struct cancel_keys *keys, struct cancel_key *key);

/* The answer to a search: what is not in the table is nowhere. */
enum { CANCEL_NOWHERE = UINT_MAX };
/* Who at this place asks for these bytes: returns the key if its client is here, and
 * else NULL and the place to ask next, where the client may be gone by then. */
struct cancel_key *cancel_keys_find(struct cancel_keys *keys, const uint8_t *bytes,
    size_t len, unsigned place, unsigned *next);

#endif
