/*
 * A hash table that grows by one bucket at a time (linear hashing: Litwin 1980), so
 * that nobody waits for the lock while many keys are moved.  Keys of a bucket are a
 * chain. Memory for all buckets is reserved at once, and the system provides it as they
 * are used.
 */
#include "session/cancel_keys.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/mem.h"

/* PER_BUCKET: the mean length of a chain until there are no more buckets. */
enum { BUCKETS_LEAST = 16, BUCKETS_MOST = 1 << 18, PER_BUCKET = 2 };

struct cancel_keys {
	pthread_mutex_t lock;
	size_t count, bucket_count;
	size_t mask; /* the lowest 2^n - 1 that is not less than bucket_count - 1 */
	struct cancel_key **buckets; /* owned; BUCKETS_MOST */
};

/* Keys in the table were drawn by a pooler, nearly all of their bytes by chance, so a
 * peer cannot choose them in order to make many of them collide. */
static uint64_t hash_of(const uint8_t *bytes, size_t len)
{
	uint64_t hash = 0, word;

	while (len) {
		size_t part = len < sizeof(word) ? len : sizeof(word);
		word = 0;
		memcpy(&word, bytes, part);
		hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 32;
		bytes += part;
		len -= part;
	}
	return hash;
}

static uint64_t hash_of_key(const struct cancel_key *key)
{
	return hash_of(cancel_key_bytes(key), key->len);
}

static struct cancel_key **bucket_of(struct cancel_keys *keys, uint64_t hash)
{
	size_t i = hash & keys->mask;

	return &keys->buckets[i < keys->bucket_count ? i : i & keys->mask >> 1];
}

static void push(struct cancel_key **bucket, struct cancel_key *key)
{
	key->next = *bucket;
	*bucket = key;
}

/* The link in a chain that leads to this key, or to NULL. */
static struct cancel_key **link_to(
    struct cancel_keys *keys, const uint8_t *bytes, size_t len)
{
	struct cancel_key **link = bucket_of(keys, hash_of(bytes, len));

	while (*link && ((*link)->len != len ||
			    memcmp(cancel_key_bytes(*link), bytes, len) != 0))
		link = &(*link)->next;
	return link;
}

/* Splits a bucket in two. */
static void grow(struct cancel_keys *keys)
{
	size_t i = keys->bucket_count++;
	struct cancel_key *key, *next;

	if (i > keys->mask)
		keys->mask = 2 * keys->mask + 1;
	struct cancel_key **old = &keys->buckets[i & keys->mask >> 1];
	key = *old;
	*old = NULL;
	for (; key; key = next) {
		next = key->next;
		push(bucket_of(keys, hash_of_key(key)), key);
	}
}

struct cancel_keys *cancel_keys_new(void)
{
	struct cancel_keys *keys = mem_zero_lines(sizeof(*keys));

	pthread_mutex_init(&keys->lock, NULL);
	keys->bucket_count = BUCKETS_LEAST;
	keys->mask = BUCKETS_LEAST - 1;
	keys->buckets = mem_zero(BUCKETS_MOST * sizeof(*keys->buckets));
	return keys;
}

void cancel_keys_free(struct cancel_keys **keys)
{
	assert((*keys)->count == 0);
	mem_free((*keys)->buckets);
	pthread_mutex_destroy(&(*keys)->lock);
	mem_free(*keys);
	*keys = NULL;
}

size_t cancel_keys_count(struct cancel_keys *keys)
{
	pthread_mutex_lock(&keys->lock);
	size_t count = keys->count;
	pthread_mutex_unlock(&keys->lock);
	return count;
}

void cancel_key_set(struct cancel_key *key, const uint8_t *bytes, size_t len)
{
	assert(len == CANCEL_KEY_LEN || len == CANCEL_KEY_LONG);
	if (len == CANCEL_KEY_LONG)
		key->long_bytes = mem_dup(bytes, len);
	else
		memcpy(key->bytes, bytes, len);
	key->len = (uint8_t)len;
}

void cancel_key_done(struct cancel_key *key)
{
	if (key->len == CANCEL_KEY_LONG)
		mem_free(key->long_bytes);
	*key = (struct cancel_key){.len = 0};
}

int cancel_keys_add(struct cancel_keys *keys, struct cancel_key *key, unsigned place)
{
	key->at = key->to = (uint8_t)place;
	pthread_mutex_lock(&keys->lock);
	bool is_taken = *link_to(keys, cancel_key_bytes(key), key->len);
	if (!is_taken) {
		if (keys->count >= PER_BUCKET * keys->bucket_count &&
		    keys->bucket_count < BUCKETS_MOST)
			grow(keys);
		push(bucket_of(keys, hash_of_key(key)), key);
		keys->count++;
	}
	pthread_mutex_unlock(&keys->lock);
	return is_taken ? -1 : 0;
}

void cancel_keys_remove(struct cancel_keys *keys, struct cancel_key *key)
{
	if (!key->len)
		return;
	pthread_mutex_lock(&keys->lock);
	*link_to(keys, cancel_key_bytes(key), key->len) = key->next;
	keys->count--;
	pthread_mutex_unlock(&keys->lock);
	cancel_key_done(key);
}

void cancel_keys_send(struct cancel_keys *keys, struct cancel_key *key, unsigned to)
{
	pthread_mutex_lock(&keys->lock);
	key->to = (uint8_t)to;
	pthread_mutex_unlock(&keys->lock);
}

void cancel_keys_settle(struct cancel_keys *keys, struct cancel_key *key)
{
	pthread_mutex_lock(&keys->lock);
	key->at = key->to;
	pthread_mutex_unlock(&keys->lock);
}

struct cancel_key *cancel_keys_find(struct cancel_keys *keys, const uint8_t *bytes,
    size_t len, unsigned place, unsigned *next)
{
	*next = CANCEL_NOWHERE;
	pthread_mutex_lock(&keys->lock);
	struct cancel_key *key = *link_to(keys, bytes, len);
	if (key)
		*next = key->at == place ? key->to : key->at;
	pthread_mutex_unlock(&keys->lock);
	return *next == place ? key : NULL;
}
