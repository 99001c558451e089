/*
 * Counts shared by sites: slots, and who waits; and a text per tally.  Limits and the
 * meaning of the text are not known here.
 */
#include "pool/tally.h"

#include <pthread.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

/* How long it is waited for a server that is on its way.  Usually it arrives within a
 * millisecond. */
enum { ARRIVAL_US = 50000 };

struct tallies {
	pthread_mutex_t lock;
	struct map *by_key; /* struct tally by its key */
	unsigned site_count;
	atomic_bool is_frozen;
	/* NULL: all sites answer */
	tallies_deaf_fn *is_deaf;
	void *deaf_ctx;
};

static void tally_free(struct tally *tally)
{
	buf_done(&tally->text);
	kept_free(&tally->kept);
	mem_free(tally->key);
	mem_free(tally);
}

struct tallies *tallies_new(unsigned site_count)
{
	struct tallies *t = mem_zero(sizeof(*t));

	pthread_mutex_init(&t->lock, NULL);
	t->by_key = map_new();
	t->site_count = site_count;
	return t;
}

void tallies_free(struct tallies **tp)
{
	struct tallies *t = *tp;
	struct tally *tally;
	size_t at = 0;

	if (!t)
		return;
	/* counted for servers that never arrived */
	while ((tally = map_next(t->by_key, &at)))
		tally_free(tally);
	map_free(&t->by_key);
	pthread_mutex_destroy(&t->lock);
	mem_free(t);
	*tp = NULL;
}

void tallies_lock(struct tallies *t)
{
	if (t)
		pthread_mutex_lock(&t->lock);
}

void tallies_unlock(struct tallies *t)
{
	if (t)
		pthread_mutex_unlock(&t->lock);
}

void tallies_freeze(struct tallies *t, bool is_frozen)
{
	atomic_store(&t->is_frozen, is_frozen);
}

bool tallies_are_frozen(const struct tallies *t)
{
	return t && atomic_load_explicit(&t->is_frozen, memory_order_relaxed);
}

void tallies_on_deaf(struct tallies *t, tallies_deaf_fn *fn, void *ctx)
{
	t->is_deaf = fn;
	t->deaf_ctx = ctx;
}

static bool is_deaf(const struct tally_view *view, unsigned site)
{
	const struct tallies *t = view->tallies;

	return t->is_deaf && t->is_deaf(t->deaf_ctx, site);
}

static int read_count(const atomic_int *count)
{
	return atomic_load_explicit(count, memory_order_relaxed);
}

/* A NUL separates the names, because no name contains one. */
static size_t put_key(
    char *out, enum tally_kind kind, const char *database, const char *user)
{
	size_t database_len = database ? strlen(database) : 0;
	size_t user_len = user ? strlen(user) : 0;

	if (out) {
		out[0] = (char)('0' + kind);
		memcpy(out + 1, database ? database : "", database_len + 1);
		memcpy(out + 2 + database_len, user ? user : "", user_len + 1);
	}
	return database_len + user_len + 2;
}

static struct tally *tally_new(
    struct tallies *t, enum tally_kind kind, char *key, size_t len)
{
	size_t size = sizeof(struct tally) + t->site_count * sizeof(struct tally_slot);
	struct tally *tally = mem_zero_lines(size);

	tally->kind = kind;
	tally->key = key;
	tally->key_len = len;
	buf_init(&tally->text, 0);
	return tally;
}

struct tally *tally_hold(
    struct tallies *t, enum tally_kind kind, const char *database, const char *user)
{
	size_t len = put_key(NULL, kind, database, user);
	char *key = mem_alloc(len + 1);
	struct tally *tally;

	put_key(key, kind, database, user);
	pthread_mutex_lock(&t->lock);
	tally = map_get(t->by_key, key, len);
	if (tally) {
		mem_free(key);
	} else {
		tally = tally_new(t, kind, key, len);
		map_put(t->by_key, tally->key, len, tally);
	}
	tally->users++;
	pthread_mutex_unlock(&t->lock);
	return tally;
}

/* What is on its way between two sites may belong to a pool, database or user that
 * neither of them has any more; it is counted until it is accepted or lost. */
static bool is_counting(const struct tallies *t, const struct tally *tally)
{
	for (unsigned i = 0; i < t->site_count; i++)
		if (read_count(&tally->slots[i].servers) != 0 ||
		    read_count(&tally->slots[i].clients) != 0)
			return true;
	return false;
}

void tally_release(struct tallies *t, struct tally **tp)
{
	struct tally *tally = *tp;

	*tp = NULL;
	if (!tally)
		return;
	pthread_mutex_lock(&t->lock);
	bool is_last = --tally->users == 0;
	bool is_over = is_last && !is_counting(t, tally);
	if (is_last) {
		atomic_store(&tally->is_told, false);
		atomic_store(&tally->has_kept, false);
		kept_free(&tally->kept);
	}
	if (is_over)
		map_del(t->by_key, tally->key, tally->key_len);
	pthread_mutex_unlock(&t->lock);
	if (is_over)
		tally_free(tally);
}

void tallies_each_database(struct tallies *t, tallies_database_fn *fn, void *ctx)
{
	struct tally *tally;
	size_t at = 0;

	pthread_mutex_lock(&t->lock);
	while ((tally = map_next(t->by_key, &at)))
		if (tally->kind == TALLY_POOL)
			fn(ctx, tally->key + 1);
	pthread_mutex_unlock(&t->lock);
}

bool tally_is_news(struct tally *tally)
{
	return !atomic_exchange(&tally->is_told, true);
}

bool tally_is_last(struct tallies *t, const struct tally *tally)
{
	pthread_mutex_lock(&t->lock);
	bool is_last = tally->users == 1;
	pthread_mutex_unlock(&t->lock);
	return is_last;
}

/* ---- the shared text ---- */

unsigned tally_text_number(const struct tally *tally)
{
	return atomic_load_explicit(&tally->text_number, memory_order_acquire);
}

unsigned tally_read_text(
    struct tallies *t, const struct tally *tally, struct buf *out, unsigned *order)
{
	pthread_mutex_lock(&t->lock);
	buf_put(out, tally->text.bytes, tally->text.len);
	*order = tally->text_order;
	unsigned number = tally_text_number(tally);
	pthread_mutex_unlock(&t->lock);
	return number;
}

bool tally_write_text(struct tallies *t, struct tally *tally, unsigned *number,
    unsigned order, struct buf *text)
{
	struct buf old = {0};

	pthread_mutex_lock(&t->lock);
	bool may = tally_text_number(tally) == *number;
	if (may) {
		old = tally->text;
		tally->text = *text;
		tally->text_order = order;
		if (++*number == 0)
			*number = 1;
		atomic_store_explicit(
		    &tally->text_number, *number, memory_order_release);
	}
	pthread_mutex_unlock(&t->lock);
	if (may) {
		buf_init(text, 0);
		buf_done(&old);
	}
	return may;
}

/* ---- what freed pools have counted ---- */

void tally_leave(struct tallies *t, struct tally *tally, struct kept **kept)
{
	pthread_mutex_lock(&t->lock);
	kept_merge(&tally->kept, kept);
	atomic_store(&tally->has_kept, tally->kept != NULL);
	pthread_mutex_unlock(&t->lock);
}

void tally_take(struct tallies *t, struct tally *tally, struct kept **kept)
{
	if (!tally || !atomic_load(&tally->has_kept))
		return;
	pthread_mutex_lock(&t->lock);
	kept_merge(kept, &tally->kept);
	atomic_store(&tally->has_kept, false);
	pthread_mutex_unlock(&t->lock);
}

/* ---- looking ---- */

#define SUM_ELSEWHERE(view, tally, member)                                    \
	do {                                                                  \
		int sum = 0;                                                  \
		for (unsigned i = 0; (tally) && i < (view)->site_count; i++)  \
			if (i != (view)->site)                                \
				sum += read_count(&(tally)->slots[i].member); \
		return sum;                                                   \
	} while (0)

int tally_servers(const struct tally_view *view, const struct tally *tally)
{
	int sum = 0;

	for (unsigned i = 0; i < view->site_count; i++)
		sum += read_count(&tally->slots[i].servers);
	return sum;
}

int tally_clients(const struct tally_view *view, const struct tally *tally)
{
	int sum = 0;

	for (unsigned i = 0; i < view->site_count; i++)
		sum += read_count(&tally->slots[i].clients);
	return sum;
}

int tally_clients_elsewhere(const struct tally_view *view, const struct tally *tally)
{
	SUM_ELSEWHERE(view, tally, clients);
}

int tally_connected_elsewhere(const struct tally_view *view, const struct tally *tally)
{
	SUM_ELSEWHERE(view, tally, connected);
}

int tally_queued_elsewhere(const struct tally_view *view, const struct tally *tally)
{
	SUM_ELSEWHERE(view, tally, queued);
}

int tally_find_resting(const struct tally_view *view, const struct tally *tally)
{
	int best = -1, most = 0;

	for (unsigned i = 0; tally && i < view->site_count; i++) {
		int count = read_count(&tally->slots[i].resting);
		if (i != view->site && count > most && !is_deaf(view, i)) {
			most = count;
			best = (int)i;
		}
	}
	return best;
}

int tally_available(const struct tally_view *view, const struct tally *tally)
{
	int sum = 0;

	for (unsigned i = 0; tally && i < view->site_count; i++)
		if (i == view->site || !is_deaf(view, i))
			sum += read_count(&tally->slots[i].resting) +
			       read_count(&tally->slots[i].arriving);
	return sum;
}

int tally_arriving(const struct tally_view *view, const struct tally *tally)
{
	int sum = 0;

	for (unsigned i = 0; tally && i < view->site_count; i++)
		sum += read_count(&tally->slots[i].arriving);
	return sum;
}

int tally_find_clients(const struct tally_view *view, const struct tally *tally)
{
	for (unsigned i = 0; tally && i < view->site_count; i++)
		if (i != view->site && read_count(&tally->slots[i].clients) > 0 &&
		    !is_deaf(view, i))
			return (int)i;
	return -1;
}

int tally_find_welcome(const struct tally_view *view, const struct tally *tally)
{
	for (unsigned i = 0; tally && i < view->site_count; i++)
		if (i != view->site && atomic_load(&tally->slots[i].has_welcome) &&
		    !is_deaf(view, i))
			return (int)i;
	return -1;
}

static bool has_arrival(const struct tally_slot *slot, uint64_t now_us)
{
	return read_count(&slot->arriving) > 0 &&
	       now_us < atomic_load_explicit(&slot->arriving_us, memory_order_relaxed) +
			    ARRIVAL_US;
}

/* Leaves out sites where a server is about to arrive now; UINT64_MAX: none is. */
static int find_first(const struct tally_view *view, const struct tally *tally,
    uint64_t now_us, uint64_t *since_us)
{
	int found = -1;

	if (!tally ||
	    atomic_load_explicit(&tally->waiting_count, memory_order_relaxed) == 0)
		return -1;
	for (unsigned i = 0; i < view->site_count; i++) {
		uint64_t us = atomic_load_explicit(
		    &tally->slots[i].waiting_us, memory_order_relaxed);
		if (i == view->site || us == 0 || (found >= 0 && us >= *since_us))
			continue;
		if (has_arrival(&tally->slots[i], now_us) || is_deaf(view, i))
			continue;
		*since_us = us;
		found = (int)i;
	}
	return found;
}

int tally_find_waiting(
    const struct tally_view *view, const struct tally *tally, uint64_t *since_us)
{
	return find_first(view, tally, UINT64_MAX, since_us);
}

int tally_find_receiver(const struct tally_view *view, const struct tally *tally,
    uint64_t now_us, uint64_t *since_us)
{
	return find_first(view, tally, now_us, since_us);
}

void tally_note_arrival(struct tally_slot *slot, uint64_t now_us)
{
	atomic_store_explicit(&slot->arriving_us, now_us, memory_order_relaxed);
	tally_add(&slot->arriving, 1);
}

uint64_t tally_shown_waiting(const struct tally_view *view, const struct tally *tally)
{
	return atomic_load_explicit(
	    &tally->slots[view->site].waiting_us, memory_order_relaxed);
}

bool tally_note_waiting(
    const struct tally_view *view, struct tally *tally, uint64_t since_us)
{
	atomic_ullong *own = &tally_own(view, tally)->waiting_us;
	uint64_t before = atomic_load_explicit(own, memory_order_relaxed);

	if (before == since_us)
		return false;
	/* sequentially consistent: either a site that gives something back later sees
	 * this, or the waiting site sees what was given */
	atomic_store(own, since_us);
	if (!before != !since_us)
		atomic_fetch_add(&tally->waiting_count, since_us ? 1u : -1u);
	return before && (!since_us || since_us > before);
}
