/*
 * The objects that workers share, by name, and the lock that protects them.  Who gets
 * what is decided in exchange.c, conn_limits.c and pool_next.c.
 */
#include "pool/central.h"

#include <assert.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

struct central *central_new(unsigned worker_count)
{
	struct central *c = mem_zero(sizeof(*c));

	pthread_mutex_init(&c->lock, NULL);
	c->by_name = map_new();
	c->worker_count = worker_count;
	return c;
}

static void name_free(struct central_name *name)
{
	kept_free(&name->kept);
	mem_free(name->key);
	if (name->type == CENTRAL_POOL)
		buf_done(
		    &container_of(name, struct central_pool, name)->login_params.text);
	mem_free(name);
}

void central_free(struct central **cp)
{
	struct central *c = *cp;
	struct central_name *name;
	size_t at = 0;

	if (!c)
		return;
	/* counted for servers that never arrived */
	while ((name = map_next(c->by_name, &at)))
		name_free(name);
	map_free(&c->by_name);
	mem_free(atomic_load(&c->listen_senders));
	pthread_mutex_destroy(&c->lock);
	mem_free(c);
	*cp = NULL;
}

void central_on_unresponsive(struct central *c, central_unresponsive_fn *fn, void *ctx)
{
	c->is_unresponsive = fn;
	c->unresponsive_ctx = ctx;
}

bool central_is_unresponsive(const struct central_view *view, unsigned worker)
{
	const struct central *c = view->central;

	return worker != view->worker && c->is_unresponsive &&
	       c->is_unresponsive(c->unresponsive_ctx, worker);
}

void central_freeze(struct central *c, bool is_frozen)
{
	atomic_store(&c->is_frozen, is_frozen);
}

bool central_is_frozen(const struct central *c)
{
	return atomic_load_explicit(&c->is_frozen, memory_order_relaxed);
}

/* ---- the lock, and what is told ---- */

void central_lock(struct central_view *view)
{
	if (view->depth++ == 0)
		pthread_mutex_lock(&view->central->lock);
}

static void post(struct central_view *view, const struct central_told *told)
{
	struct central_note *note = mem_zero(sizeof(*note));

	note->central = view->central;
	note->worker = told->worker;
	note->kind = told->kind;
	note->pool = told->pool;
	note->limit = told->limit;
	view->post(view->post_ctx, note);
}

void central_unlock(struct central_view *view)
{
	assert(view->depth > 0);
	if (--view->depth > 0)
		return;
	pthread_mutex_unlock(&view->central->lock);
	for (size_t i = 0; i < view->told_count; i++)
		post(view, &view->told[i]);
	view->told_count = 0;
}

void central_tell(struct central_view *view, unsigned worker, enum note_kind kind,
    struct central_pool *pool, struct central_limit *limit)
{
	struct central_part *part = pool ? pool->places[worker].part : NULL;

	assert(view->depth > 0 && worker != view->worker);
	if (pool && (!part || (kind == NOTE_LOOK && part->is_told)))
		return;
	if (part && kind == NOTE_LOOK)
		part->is_told = true;
	if (view->told_count == view->told_size) {
		view->told_size += 16;
		view->told =
		    mem_resize(view->told, view->told_size * sizeof(view->told[0]));
	}
	if (pool)
		pool->name.refs++;
	else
		limit->name.refs++;
	view->told[view->told_count++] =
	    (struct central_told){worker, kind, pool, limit};
}

/* ---- objects by name ---- */

/* A NUL separates the names, because no name contains one.  The first byte keeps
 * objects of different kinds apart. */
static char *make_key(int kind, const char *a, const char *b, size_t *len)
{
	size_t a_len = strlen(a), b_len = strlen(b);
	char *key = mem_alloc(a_len + b_len + 3);

	key[0] = (char)('0' + kind);
	memcpy(key + 1, a, a_len + 1);
	memcpy(key + 2 + a_len, b, b_len + 1);
	*len = a_len + b_len + 2;
	return key;
}

/* With one worker nobody else looks for what it has made. */
static struct central_name *hold(struct central_view *view, int type, int kind,
    const char *a, const char *b, size_t size)
{
	struct central *c = view->central;
	bool is_shared = c->worker_count > 1;
	size_t len = 0;
	char *key = is_shared ? make_key(kind, a, b, &len) : NULL;
	struct central_name *name;

	central_lock(view);
	name = is_shared ? map_get(c->by_name, key, len) : NULL;
	if (name) {
		mem_free(key);
	} else {
		name = is_shared ? mem_zero_lines(size) : mem_zero(size);
		name->type = type;
		name->kind = (enum conn_limit)kind;
		name->key = key;
		name->key_len = len;
		if (is_shared)
			map_put(c->by_name, key, len, name);
	}
	name->refs++;
	name->holders++;
	central_unlock(view);
	return name;
}

/* What is on its way between workers may belong to an object that none of them has any
 * more; it is counted until it is accepted or lost. */
static bool is_counting(const struct central_name *name)
{
	if (name->type == CENTRAL_HOST)
		return false;
	if (name->type == CENTRAL_POOL)
		return container_of(name, const struct central_pool, name)->servers > 0;
	const struct central_limit *limit =
	    container_of(name, const struct central_limit, name);
	return limit->servers > 0 || limit->clients > 0;
}

static void unref(struct central_view *view, struct central_name *name)
{
	central_lock(view);
	bool is_over = --name->refs == 0 && (!name->key || !is_counting(name));
	if (is_over && name->key)
		map_del(view->central->by_name, name->key, name->key_len);
	if (is_over && name->type == CENTRAL_POOL)
		for (int i = 0; i < CONN_LIMIT_COUNT; i++)
			unref(view, &container_of(name, struct central_pool, name)
					 ->limits[i]
					 ->name);
	central_unlock(view);
	if (is_over)
		name_free(name);
}

static void release(struct central_view *view, struct central_name *name)
{
	central_lock(view);
	if (--name->holders == 0) {
		name->is_told = false;
		atomic_store(&name->has_kept, false);
		kept_free(&name->kept);
	}
	unref(view, name);
	central_unlock(view);
}

struct central_limit *central_limit_hold(
    struct central_view *view, enum conn_limit kind, const char *name)
{
	unsigned count = view->central->worker_count;
	size_t size = sizeof(struct central_limit) +
		      (count > 1 ? count : 0) * sizeof(struct central_line);

	return container_of(hold(view, CENTRAL_LIMIT, (int)kind,
				kind == CONN_LIMIT_PROCESS ? "" : name, "", size),
	    struct central_limit, name);
}

struct central_pool *central_pool_hold(struct central_view *view, const char *database,
    const char *user, struct central_limit *const limits[CONN_LIMIT_COUNT])
{
	size_t size = sizeof(struct central_pool) +
		      view->central->worker_count * sizeof(struct central_place);

	central_lock(view);
	struct central_pool *pool = container_of(
	    hold(view, CENTRAL_POOL, CONN_LIMIT_COUNT, database, user, size),
	    struct central_pool, name);
	for (enum conn_limit kind = 0; kind < CONN_LIMIT_COUNT; kind++) {
		if (pool->limits[kind])
			continue;
		pool->limits[kind] = limits[kind];
		limits[kind]->name.refs++;
	}
	central_unlock(view);
	return pool;
}

struct central_pool *central_pool_ref(struct central_view *v, struct central_pool *p)
{
	central_lock(v);
	p->name.refs++;
	central_unlock(v);
	return p;
}

void central_pool_unref(struct central_view *view, struct central_pool **p)
{
	if (*p)
		unref(view, &(*p)->name);
	*p = NULL;
}

struct central_host *central_host_carry(struct central_view *v, struct central_host *h)
{
	central_lock(v);
	h->name.refs++;
	atomic_fetch_add(&h->servers, 1);
	central_unlock(v);
	return h;
}

void central_host_carried(struct central_view *v, struct central_host **h)
{
	struct central_host *host = *h;

	*h = NULL;
	if (!host)
		return;
	atomic_fetch_sub(&host->servers, 1);
	unref(v, &host->name);
}

struct central_host *central_host_hold(
    struct central_view *view, const char *database, const char *host)
{
	size_t size = sizeof(struct central_host) +
		      view->central->worker_count * sizeof(uint64_t);

	return container_of(
	    hold(view, CENTRAL_HOST, CONN_LIMIT_COUNT + 1, database, host, size),
	    struct central_host, name);
}

void central_limit_release(struct central_view *view, struct central_limit **p)
{
	struct central_limit *limit = *p;

	*p = NULL;
	if (limit)
		release(view, &limit->name);
}

void central_pool_release(struct central_view *view, struct central_pool **p)
{
	struct central_pool *pool = *p;

	*p = NULL;
	if (pool)
		release(view, &pool->name);
}

void central_host_release(struct central_view *view, struct central_host **p)
{
	struct central_host *host = *p;

	*p = NULL;
	if (host)
		release(view, &host->name);
}

/* Like release, by a thread that has no other part in the objects. */
void central_note_free(struct central_note *note)
{
	struct central_view view = {.central = note->central, .worker = note->worker};

	central_pool_unref(&view, &note->pool);
	if (note->limit)
		unref(&view, &note->limit->name);
	mem_free(note);
}

void central_each_database(struct central *c, central_database_fn *fn, void *ctx)
{
	struct central_name *name;
	size_t at = 0;

	pthread_mutex_lock(&c->lock);
	while ((name = map_next(c->by_name, &at)))
		if (name->type == CENTRAL_POOL)
			fn(ctx, name->key + 1);
	pthread_mutex_unlock(&c->lock);
}

bool central_claim_news(struct central_view *view, struct central_name *name)
{
	central_lock(view);
	bool is_news = !name->is_told;
	name->is_told = true;
	central_unlock(view);
	return is_news;
}

bool central_is_last(struct central_view *view, const struct central_name *name)
{
	central_lock(view);
	bool is_last = name->holders == 1;
	central_unlock(view);
	return is_last;
}

/* ---- the parameters with which clients are greeted ---- */

unsigned central_read_login_params(
    struct central_view *view, struct central_pool *pool, struct buf *out)
{
	central_lock(view);
	buf_put(out, pool->login_params.text.bytes, pool->login_params.text.len);
	unsigned number = central_login_params(pool);
	central_unlock(view);
	return number;
}

bool central_write_login_params(struct central_view *view, struct central_pool *pool,
    unsigned *number, struct buf *text)
{
	struct buf old = {0};

	central_lock(view);
	bool may = central_login_params(pool) == *number;
	if (may && (int)(view->broadcast - pool->login_params.forgotten) < 0) {
		*number = 0;
	} else if (may) {
		if (++pool->login_params.last == 0)
			pool->login_params.last = 1;
		*number = pool->login_params.last;
		pool->login_params.broadcast = view->broadcast;
		pool->login_params.writer = view->worker;
		atomic_store_explicit(
		    &pool->login_params.number, *number, memory_order_release);
		if (text) {
			old = pool->login_params.text;
			pool->login_params.text = *text;
			buf_init(text, 0);
		}
	}
	central_unlock(view);
	buf_done(&old);
	return may;
}

void central_confirm_login_params(struct central_view *view, struct central_pool *pool)
{
	central_lock(view);
	if (pool->login_params.number &&
	    (int)(view->broadcast - pool->login_params.broadcast) > 0) {
		pool->login_params.broadcast = view->broadcast;
		pool->login_params.writer = view->worker;
	}
	central_unlock(view);
}

void central_forget_login_params(struct central_view *view, struct central_pool *pool)
{
	central_lock(view);
	pool->login_params.forgotten = view->broadcast;
	if (pool->login_params.writer == view->worker ||
	    (int)(pool->login_params.broadcast - view->broadcast) < 0)
		atomic_store(&pool->login_params.number, 0);
	central_unlock(view);
}

/* ---- what freed pools have counted ---- */

void central_leave(
    struct central_view *view, struct central_name *name, struct kept **kept)
{
	central_lock(view);
	kept_merge(&name->kept, kept);
	atomic_store(&name->has_kept, name->kept != NULL);
	central_unlock(view);
}

void central_take(
    struct central_view *view, struct central_name *name, struct kept **kept)
{
	if (!atomic_load(&name->has_kept))
		return;
	central_lock(view);
	kept_merge(kept, &name->kept);
	atomic_store(&name->has_kept, false);
	central_unlock(view);
}
