/*
 * The cache of salted passwords: a map, and a list in order of use.
 */
#include "auth/key_cache.h"

#include <assert.h>
#include <string.h>

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"

struct entry {
	struct node node;
	uint8_t key[SCRAM_KEY_LEN];
	uint8_t salted[SCRAM_KEY_LEN];
};

struct key_cache {
	struct map *entries;
	struct list by_use; /* the latest first */
	size_t entries_max;
	uint8_t secret[SCRAM_KEY_LEN]; /* key of the hash that stands for passwords */
};

struct key_cache *key_cache_new(size_t entries_max)
{
	struct key_cache *d = mem_zero(sizeof(*d));

	assert(entries_max > 0);
	d->entries = map_new();
	list_init(&d->by_use);
	d->entries_max = entries_max;
	mem_random(d->secret, sizeof(d->secret));
	return d;
}

/* HMAC(HMAC(secret, password), iterations || salt): no two combinations of password,
 * salt and iterations have the same input. */
static void make_key(
    const struct key_cache *d, const struct scram_due *due, uint8_t key[SCRAM_KEY_LEN])
{
	uint8_t inner[SCRAM_KEY_LEN], text[sizeof(uint32_t) + SCRAM_SALT_MAX];

	assert(due->salt_len <= SCRAM_SALT_MAX);
	scram_sign(d->secret, due->password, strlen(due->password), inner);
	memcpy(text, &due->iterations, sizeof(uint32_t));
	memcpy(text + sizeof(uint32_t), due->salt, due->salt_len);
	scram_sign(inner, text, sizeof(uint32_t) + due->salt_len, key);
	mem_wipe(inner, sizeof(inner));
}

static void remove_entry(struct key_cache *d, struct entry *entry)
{
	map_del(d->entries, entry->key, sizeof(entry->key));
	list_remove(&d->by_use, &entry->node);
	mem_wipe(entry, sizeof(*entry));
	mem_free(entry);
}

static struct entry *last_entry(const struct key_cache *d)
{
	struct node *node = list_last(&d->by_use);
	return node ? container_of(node, struct entry, node) : NULL;
}

/* Returns the entry with this key and marks it as the latest. */
static struct entry *use_entry(struct key_cache *d, const uint8_t key[SCRAM_KEY_LEN])
{
	struct entry *entry = map_get(d->entries, key, SCRAM_KEY_LEN);

	if (entry) {
		list_remove(&d->by_use, &entry->node);
		list_push_front(&d->by_use, &entry->node);
	}
	return entry;
}

int key_cache_find(
    struct key_cache *d, const struct scram_due *due, uint8_t salted[SCRAM_KEY_LEN])
{
	uint8_t key[SCRAM_KEY_LEN];
	struct entry *entry;

	make_key(d, due, key);
	entry = use_entry(d, key);
	if (!entry)
		return -1;
	memcpy(salted, entry->salted, SCRAM_KEY_LEN);
	return 0;
}

void key_cache_put(struct key_cache *d, const struct scram_due *due,
    const uint8_t salted[SCRAM_KEY_LEN])
{
	uint8_t key[SCRAM_KEY_LEN];
	struct entry *entry;

	make_key(d, due, key);
	if (use_entry(d, key))
		return;
	if (d->by_use.count == d->entries_max)
		remove_entry(d, last_entry(d));
	entry = mem_zero(sizeof(*entry));
	memcpy(entry->key, key, sizeof(key));
	memcpy(entry->salted, salted, SCRAM_KEY_LEN);
	map_put(d->entries, entry->key, sizeof(entry->key), entry);
	list_push_front(&d->by_use, &entry->node);
}

void key_cache_clear(struct key_cache *d)
{
	struct entry *entry;

	while ((entry = last_entry(d)))
		remove_entry(d, entry);
}

size_t key_cache_count(const struct key_cache *d)
{
	return d->by_use.count;
}

void key_cache_free(struct key_cache **d)
{
	struct key_cache *gone = *d;

	if (!gone)
		return;
	key_cache_clear(gone);
	map_free(&gone->entries);
	mem_wipe(gone, sizeof(*gone));
	mem_free(gone);
	*d = NULL;
}
