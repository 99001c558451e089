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

/* ---- a derivation as a job ---- */

/* The unit of a job's cost: the other parts of a job take about as long. */
enum { ITERATIONS_PER_COST = 64 };

static struct key_job *key_job_of(struct helpers_job *job)
{
	return container_of(job, struct key_job, job);
}

static void key_job_run(struct helpers_job *job)
{
	struct key_job *key_job = key_job_of(job);

	if (!helpers_is_cancelled(job))
		key_job->has_failed = scram_derive(&key_job->due, key_job->salted) < 0;
}

static void key_job_done(struct helpers_job *job)
{
	struct key_job *key_job = key_job_of(job);
	key_job->done(key_job);
}

static void key_job_end(struct helpers_job *job)
{
	key_job_discard(key_job_of(job));
}

/* The copies of password and salt follow the struct in one allocation. */
struct key_job *key_job_new(const struct scram_due *due, uint32_t lane,
    void (*done)(struct key_job *key_job), void *owner)
{
	size_t size = strlen(due->password) + 1;
	struct key_job *key_job = mem_try(sizeof(*key_job) + size + due->salt_len);
	char *password;
	uint8_t *salt;

	if (!key_job)
		return NULL;
	password = (char *)(key_job + 1);
	salt = (uint8_t *)password + size;
	memcpy(password, due->password, size);
	memcpy(salt, due->salt, due->salt_len);
	memset(key_job, 0, sizeof(*key_job));
	key_job->job = (struct helpers_job){
	    .kind = HELPERS_COMPUTE,
	    .lane = lane,
	    .cost = due->iterations / ITERATIONS_PER_COST + 1,
	    .run = key_job_run,
	    .done = key_job_done,
	    .discard = key_job_end,
	};
	key_job->due = (struct scram_due){
	    .password = password,
	    .salt = salt,
	    .salt_len = due->salt_len,
	    .iterations = due->iterations,
	};
	key_job->done = done;
	key_job->owner = owner;
	return key_job;
}

void key_job_discard(struct key_job *key_job)
{
	mem_wipe(key_job, sizeof(*key_job) + strlen(key_job->due.password) + 1 +
			      key_job->due.salt_len);
	mem_free(key_job);
}
