/*
 * A table of pointers with linear probing and without tombstones: removing a client
 * moves those behind it that would no longer be found.
 */
#include "session/cancel_keys.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "session/client.h"

enum { SLOTS_LEAST = 16 };

struct cancel_keys {
	struct client **slots;    /* NULL: free */
	size_t count, slot_count; /* slot_count is a power of two */
};

/* Keys in the table were drawn by a pooler, nearly all of their bytes by chance, so a
 * peer cannot choose them in order to make many of them collide. */
static uint64_t hash_of(const uint8_t *key, size_t len)
{
	uint64_t hash = 0, word;

	while (len) {
		size_t part = len < sizeof(word) ? len : sizeof(word);
		word = 0;
		memcpy(&word, key, part);
		hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 32;
		key += part;
		len -= part;
	}
	return hash;
}

static size_t home_of(const struct cancel_keys *keys, const struct client *client)
{
	size_t len;
	const uint8_t *key = client_cancel_key(client, &len);

	return hash_of(key, len) & (keys->slot_count - 1);
}

static size_t next_of(const struct cancel_keys *keys, size_t at)
{
	return (at + 1) & (keys->slot_count - 1);
}

static void place(struct cancel_keys *keys, struct client *client)
{
	size_t at = home_of(keys, client);

	while (keys->slots[at])
		at = next_of(keys, at);
	keys->slots[at] = client;
}

static void resize(struct cancel_keys *keys, size_t slot_count)
{
	struct client **old = keys->slots;
	size_t old_count = keys->slot_count;

	keys->slots = mem_zero(slot_count * sizeof(struct client *));
	keys->slot_count = slot_count;
	for (size_t i = 0; i < old_count; i++)
		if (old[i])
			place(keys, old[i]);
	mem_free(old);
}

struct cancel_keys *cancel_keys_new(void)
{
	struct cancel_keys *keys = mem_zero(sizeof(*keys));

	resize(keys, SLOTS_LEAST);
	return keys;
}

void cancel_keys_free(struct cancel_keys **keys)
{
	if (*keys)
		mem_free((*keys)->slots);
	mem_free(*keys);
	*keys = NULL;
}

size_t cancel_keys_count(const struct cancel_keys *keys)
{
	return keys->count;
}

struct client *cancel_keys_find(
    const struct cancel_keys *keys, const uint8_t *key, size_t len)
{
	size_t at = hash_of(key, len) & (keys->slot_count - 1);

	for (; keys->slots[at]; at = next_of(keys, at)) {
		size_t own_len;
		const uint8_t *own = client_cancel_key(keys->slots[at], &own_len);
		if (own_len == len && memcmp(own, key, len) == 0)
			return keys->slots[at];
	}
	return NULL;
}

void cancel_keys_add(struct cancel_keys *keys, struct client *client)
{
	/* at most three quarters are in use */
	if (4 * (keys->count + 1) > 3 * keys->slot_count)
		resize(keys, 2 * keys->slot_count);
	place(keys, client);
	keys->count++;
}

/* The slot at `at` is free now: moves there who is behind it and can no longer be
 * found, and so on. */
static void close_gap(struct cancel_keys *keys, size_t at)
{
	size_t mask = keys->slot_count - 1;

	for (size_t i = next_of(keys, at); keys->slots[i]; i = next_of(keys, i)) {
		size_t home = home_of(keys, keys->slots[i]);
		if (((i - home) & mask) < ((i - at) & mask))
			continue;
		keys->slots[at] = keys->slots[i];
		keys->slots[i] = NULL;
		at = i;
	}
}

void cancel_keys_remove(struct cancel_keys *keys, struct client *client)
{
	size_t at = home_of(keys, client);

	while (keys->slots[at] != client) {
		assert(keys->slots[at]);
		at = next_of(keys, at);
	}
	keys->slots[at] = NULL;
	close_gap(keys, at);
	keys->count--;
	if (keys->slot_count > SLOTS_LEAST && 8 * keys->count < keys->slot_count)
		resize(keys, keys->slot_count / 2);
}
