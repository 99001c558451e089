/*
 * The hash map.  Entries are stored densely in one array, in any order; a table of
 * slots (linear probing, no tombstones) gives the place of a key's entry in that
 * array.  A walk goes down the array from its end.  Deleting moves the last entry into
 * the free place; that entry was already visited, so a walk misses nothing when the
 * current entry is deleted or the table shrinks.
 */
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { SLOTS_LEAST = 4 };

struct entry {
	const void *key;
	void *value;
	uint32_t key_len, hash;
};

struct slot {
	uint32_t hash;
	uint32_t place; /* index in entries plus 1; 0: the slot is free */
};

struct map {
	struct entry *entries; /* has room for entries_most(slot_count) */
	struct slot *slots;
	size_t count, slot_count; /* slot_count is 0 or a power of two */
	uint64_t seed[2];
};

struct sip {
	uint64_t a, b, c, d;
};

static inline uint64_t rotate(uint64_t v, unsigned bits)
{
	return v << bits | v >> (64 - bits);
}

/* Always inline, because a call would cost more than the function. */
static inline __attribute__((always_inline)) void sip_round(struct sip *s)
{
	s->a += s->b;
	s->c += s->d;
	s->b = rotate(s->b, 13) ^ s->a;
	s->d = rotate(s->d, 16) ^ s->c;
	s->a = rotate(s->a, 32);
	s->c += s->b;
	s->a += s->d;
	s->b = rotate(s->b, 17) ^ s->c;
	s->d = rotate(s->d, 21) ^ s->a;
	s->c = rotate(s->c, 32);
}

static inline void sip_word(struct sip *s, uint64_t word)
{
	s->d ^= word;
	sip_round(s);
	s->a ^= word;
}

static inline uint64_t load_half_word(const uint8_t *p)
{
	return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 |
	       (uint64_t)p[3] << 24;
}

/* Less than a whole one. */
static uint64_t load_word(const uint8_t *p, size_t len)
{
	/* Some bytes twice, which changes nothing: that is quicker than a loop. */
	if (len >= 4)
		return load_half_word(p) | load_half_word(p + len - 4)
					       << (8 * (len - 4));
	if (len == 0)
		return 0;
	return (uint64_t)p[0] | (uint64_t)p[len / 2] << (8 * (len / 2)) |
	       (uint64_t)p[len - 1] << (8 * (len - 1));
}

/* Written in a form that the compiler turns into one load. */
static inline uint64_t load_whole_word(const uint8_t *p)
{
	return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 |
	       (uint64_t)p[3] << 24 | (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 |
	       (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

/* SipHash-1-3 (Aumasson and Bernstein). */
static uint64_t siphash(const uint64_t seed[2], const void *key, size_t len)
{
	struct sip s = {
	    .a = seed[0] ^ 0x736f6d6570736575u,
	    .b = seed[1] ^ 0x646f72616e646f6du,
	    .c = seed[0] ^ 0x6c7967656e657261u,
	    .d = seed[1] ^ 0x7465646279746573u,
	};
	const uint8_t *p = key;
	size_t left = len;

	for (; left >= 8; left -= 8, p += 8)
		sip_word(&s, load_whole_word(p));
	sip_word(&s, load_word(p, left) | (uint64_t)len << 56);
	s.c ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip_round(&s);
	return s.a ^ s.b ^ s.c ^ s.d;
}

struct map *map_new(void)
{
	struct map *m = mem_zero(sizeof(*m));

	mem_random(m->seed, sizeof(m->seed));
	return m;
}

void map_free(struct map **mp)
{
	struct map *m = *mp;

	if (!m)
		return;
	mem_free(m->entries);
	mem_free(m->slots);
	mem_free(m);
	*mp = NULL;
}

size_t map_count(const struct map *m)
{
	return m->count;
}

/* How many entries are allowed: three quarters of the slots. */
static size_t entries_most(size_t slot_count)
{
	return slot_count - slot_count / 4;
}

static struct slot *first_free_slot(struct map *m, uint32_t hash)
{
	size_t mask = m->slot_count - 1, i = hash & mask;

	while (m->slots[i].place)
		i = (i + 1) & mask;
	return &m->slots[i];
}

static void resize(struct map *m, size_t slot_count)
{
	assert(slot_count <= UINT32_MAX);
	m->entries =
	    mem_resize(m->entries, entries_most(slot_count) * sizeof(*m->entries));
	mem_free(m->slots);
	m->slots = mem_zero(slot_count * sizeof(*m->slots));
	m->slot_count = slot_count;
	for (size_t i = 0; i < m->count; i++) {
		uint32_t hash = m->entries[i].hash;
		*first_free_slot(m, hash) = (struct slot){hash, (uint32_t)i + 1};
	}
}

/* Returns the slot of a key, or NULL. */
static struct slot *find(
    const struct map *m, uint32_t hash, const void *key, size_t key_len)
{
	if (!m->count)
		return NULL;
	size_t mask = m->slot_count - 1, i = hash & mask;
	for (; m->slots[i].place; i = (i + 1) & mask) {
		struct slot *slot = &m->slots[i];
		const struct entry *e = &m->entries[slot->place - 1];
		if (slot->hash == hash && e->key_len == key_len &&
		    (!key_len || memcmp(e->key, key, key_len) == 0))
			return slot;
	}
	return NULL;
}

static uint32_t hash_of(const struct map *m, const void *key, size_t key_len)
{
	return (uint32_t)siphash(m->seed, key, key_len);
}

void *map_get(const struct map *m, const void *key, size_t key_len)
{
	if (!m->count)
		return NULL;
	struct slot *slot = find(m, hash_of(m, key, key_len), key, key_len);
	return slot ? m->entries[slot->place - 1].value : NULL;
}

static void add(struct map *m, uint32_t hash, const struct entry *e)
{
	if (m->count == entries_most(m->slot_count))
		resize(m, m->slot_count ? m->slot_count * 2 : SLOTS_LEAST);
	m->entries[m->count++] = *e;
	*first_free_slot(m, hash) = (struct slot){hash, (uint32_t)m->count};
}

void *map_put(struct map *m, const void *key, size_t key_len, void *value)
{
	assert(value && key_len <= UINT32_MAX);
	uint32_t hash = hash_of(m, key, key_len);
	struct slot *slot = find(m, hash, key, key_len);
	if (slot) {
		struct entry *e = &m->entries[slot->place - 1];
		void *old = e->value;
		e->key = key;
		e->value = value;
		return old;
	}
	add(m, hash, &(struct entry){key, value, (uint32_t)key_len, hash});
	return NULL;
}

void *map_get_or_put(
    struct map *m, const void *key, size_t key_len, map_make_fn *make, void *ctx)
{
	uint32_t hash = hash_of(m, key, key_len);
	struct slot *slot = find(m, hash, key, key_len);

	if (slot)
		return m->entries[slot->place - 1].value;
	assert(key_len <= UINT32_MAX);
	const void *own_key = NULL;
	void *value = make(ctx, hash, &own_key);
	if (value)
		add(m, hash, &(struct entry){own_key, value, (uint32_t)key_len, hash});
	return value;
}

/* Frees a slot and moves the following ones up that probing would no longer reach. */
static void clear_slot(struct map *m, struct slot *slot)
{
	size_t mask = m->slot_count - 1, hole = (size_t)(slot - m->slots), i = hole;

	for (;;) {
		i = (i + 1) & mask;
		if (!m->slots[i].place)
			break;
		size_t home = m->slots[i].hash & mask;
		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		m->slots[hole] = m->slots[i];
		hole = i;
	}
	m->slots[hole].place = 0;
}

static void remove_entry(struct map *m, struct slot *slot)
{
	size_t place = slot->place;

	clear_slot(m, slot);
	/* moves the last entry into the free place and corrects its slot */
	if (place != m->count) {
		const struct entry *last = &m->entries[m->count - 1];
		size_t mask = m->slot_count - 1, i = last->hash & mask;
		while (m->slots[i].place != m->count)
			i = (i + 1) & mask;
		m->slots[i].place = (uint32_t)place;
		m->entries[place - 1] = *last;
	}
	m->count--;
	if (m->slot_count > SLOTS_LEAST && m->count < m->slot_count / 8)
		resize(m, m->slot_count / 2);
}

void *map_del(struct map *m, const void *key, size_t key_len)
{
	struct slot *slot = find(m, hash_of(m, key, key_len), key, key_len);

	if (!slot)
		return NULL;
	void *value = m->entries[slot->place - 1].value;
	remove_entry(m, slot);
	return value;
}

void map_del_made(struct map *m, uint32_t hash, const void *value)
{
	size_t mask = m->slot_count - 1, i = hash & mask;

	while (m->slots[i].place && m->entries[m->slots[i].place - 1].value != value)
		i = (i + 1) & mask;
	assert(m->slots[i].place);
	remove_entry(m, &m->slots[i]);
}

void *map_get_str(const struct map *m, const char *key)
{
	return map_get(m, key, strlen(key));
}

void *map_put_str(struct map *m, const char *key, void *value)
{
	return map_put(m, key, strlen(key), value);
}

void *map_del_str(struct map *m, const char *key)
{
	return map_del(m, key, strlen(key));
}

/* *at is 0 at the start, then the place (index + 1) of the entry returned last. */
void *map_next(const struct map *m, size_t *at)
{
	size_t place = *at ? *at - 1 : m->count;

	if (place > m->count)
		place = m->count;
	if (!place) {
		/* when called again at the end, it stays at the end */
		*at = 1;
		return NULL;
	}
	*at = place;
	return m->entries[place - 1].value;
}

void **map_sorted(
    const struct map *m, size_t *count, int (*compare)(const void *, const void *))
{
	void **values = mem_alloc(m->count * sizeof(*values));

	for (size_t i = 0; i < m->count; i++)
		values[i] = m->entries[i].value;
	if (m->count)
		qsort(values, m->count, sizeof(*values), compare);
	*count = m->count;
	return values;
}
