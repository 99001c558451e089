/*
 * Keys of issuers.  The table is shared by all sites, under a lock that is held for
 * short; each site has a list of its own logins that wait.  The site at which a fetch
 * began writes its result into the table, and tells the others to look.  Issuers are
 * those that the configuration has named; none is forgotten.
 */
#include "session/oauth_issuers.h"

#include "auth/oauth_fetch.h"
#include "base/map.h"
#include "base/mem.h"
#include "session/oauth_issuers_kept.h"
#include "session/workers.h"

struct issuer_waits {
	struct site *site;
	struct oauth_issuers_kept *issuers;
	struct list waits; /* struct oauth_keys_wait by .node */
	struct later look;
};

/* ---- logins that wait ---- */

static void look(struct later *l)
{
	struct issuer_waits *w = container_of(l, struct issuer_waits, look);
	struct oauth_keys_wait *wait, *settled;

	/* from the beginning each time, because what follows may change the list */
	do {
		settled = NULL;
		pthread_mutex_lock(&w->issuers->lock);
		list_for (wait, &w->waits, node)
			if (wait->number != wait->issuer->number) {
				settled = wait;
				break;
			}
		pthread_mutex_unlock(&w->issuers->lock);
		if (settled) {
			oauth_issuers_leave(settled);
			settled->done(settled);
		}
	} while (settled);
}

void oauth_issuers_leave(struct oauth_keys_wait *wait)
{
	if (!wait->issuer)
		return;
	list_remove(&wait->site->issuer_waits->waits, &wait->node);
	wait->issuer = NULL;
}

static void look_later(struct site *site)
{
	loop_later(site->loop, &site->issuer_waits->look);
}

/* ---- fetching ---- */

/* Takes over the keys; NULL: err says why there are none. */
static void finish(struct issuer_waits *w, struct oauth_issuer *issuer,
    struct oauth_keys *keys, const struct err *err)
{
	if (keys)
		log_put(w->site->log, LEVEL_LOG | KIND_AUTH, NULL,
		    "got %zu keys of the issuer %s", oauth_keys_count(keys),
		    issuer->name);
	else
		log_put(w->site->log, LEVEL_WARNING | KIND_AUTH, NULL,
		    "no keys of the issuer %s: %s", issuer->name, err->text);
	pthread_mutex_lock(&w->issuers->lock);
	issuer->is_running = false;
	issuer->number++;
	issuer->failures += !keys;
	mem_free(issuer->failure);
	issuer->failure = keys ? NULL : mem_strdup(err->text);
	if (keys) {
		oauth_keys_unref(&issuer->keys);
		issuer->keys = keys;
		issuer->fetched_us = issuer->begun_us;
		issuer->is_old = false;
	}
	pthread_mutex_unlock(&w->issuers->lock);
	workers_tell(w->site, look_later);
}

static void fetched(struct oauth_fetch *fetch)
{
	struct oauth_issuer *issuer = fetch->owner;
	struct oauth_keys *keys = fetch->keys;

	fetch->keys = NULL;
	finish(issuer->runner, issuer, keys, &fetch->err);
}

/* Under the lock: returns the job of a new fetch, for submit.  NULL: one runs, or has
 * begun a moment ago. */
static struct oauth_fetch *begin(struct issuer_waits *w, struct oauth_issuer *issuer)
{
	uint64_t now_us = loop_now(w->site->loop);

	if (issuer->is_running ||
	    (issuer->was_tried && now_us < issuer->begun_us + OAUTH_FETCH_PAUSE_US))
		return NULL;
	issuer->is_running = true;
	issuer->was_tried = true;
	issuer->begun_us = now_us;
	issuer->runner = w;
	return oauth_fetch_new(
	    issuer->name, site_settings(w->site)->oauth_ca_file, fetched, issuer);
}

/* Without the lock. */
static void submit(struct issuer_waits *w, struct oauth_fetch *fetch)
{
	struct oauth_issuer *issuer = fetch->owner;
	struct err err;

	if (helpers_submit(w->site->helpers, &fetch->job, &err) == 0)
		return;
	oauth_fetch_discard(fetch);
	finish(w, issuer, NULL, &err);
}

struct oauth_keys *oauth_issuers_keys(struct site *site, const char *name)
{
	struct issuer_waits *w = site->issuer_waits;
	uint64_t lifetime_us = site_settings(site)->oauth_keys_lifetime;
	struct oauth_fetch *fetch = NULL;

	pthread_mutex_lock(&w->issuers->lock);
	struct oauth_issuer *issuer = oauth_issuers_kept_find(w->issuers, name);
	struct oauth_keys *keys = oauth_keys_ref(issuer->keys);
	if (keys && (issuer->is_old ||
			loop_now(site->loop) >= issuer->fetched_us + lifetime_us))
		fetch = begin(w, issuer);
	pthread_mutex_unlock(&w->issuers->lock);
	if (fetch)
		submit(w, fetch);
	return keys;
}

enum oauth_keys_news oauth_issuers_fetch(struct site *site, const char *name,
    const struct oauth_keys *known, struct oauth_keys_wait *wait)
{
	struct issuer_waits *w = site->issuer_waits;
	enum oauth_keys_news news = OAUTH_KEYS_NONE;
	struct oauth_fetch *fetch = NULL;

	pthread_mutex_lock(&w->issuers->lock);
	struct oauth_issuer *issuer = oauth_issuers_kept_find(w->issuers, name);
	if (issuer->keys != known)
		news = OAUTH_KEYS_NEWER;
	else
		fetch = begin(w, issuer);
	/* while the issuer is away, those whose keys are known get in, and others are
	 * not kept waiting */
	if (news == OAUTH_KEYS_NONE && issuer->is_running &&
	    !(issuer->keys && issuer->failure)) {
		news = OAUTH_KEYS_LATER;
		wait->site = site;
		wait->issuer = issuer;
		wait->number = issuer->number;
		list_push_back(&w->waits, &wait->node);
	}
	pthread_mutex_unlock(&w->issuers->lock);
	if (fetch)
		submit(w, fetch);
	return news;
}

void oauth_issuers_renew(struct site *site)
{
	struct oauth_issuers_kept *issuers = site->issuer_waits->issuers;
	struct oauth_issuer *issuer;
	size_t at = 0;

	pthread_mutex_lock(&issuers->lock);
	while ((issuer = map_next(issuers->table, &at)))
		issuer->is_old = true;
	pthread_mutex_unlock(&issuers->lock);
}

/* ---- what is known ---- */

void oauth_issuers_each(struct site *site,
    void (*fn)(const struct oauth_issuer_state *state, void *ctx), void *ctx)
{
	struct oauth_issuers_kept *issuers = site->issuer_waits->issuers;
	struct oauth_issuer *issuer;
	size_t at = 0;

	pthread_mutex_lock(&issuers->lock);
	while ((issuer = map_next(issuers->table, &at))) {
		const struct oauth_issuer_state state = {
		    .name = issuer->name,
		    .key_count = issuer->keys ? oauth_keys_count(issuer->keys) : 0,
		    .fetched_us = issuer->fetched_us,
		    .fetches = issuer->number,
		    .failures = issuer->failures,
		    .failure = issuer->failure,
		};
		fn(&state, ctx);
	}
	pthread_mutex_unlock(&issuers->lock);
}

/* ---- making and unmaking ---- */

void oauth_issuers_init(struct site *site)
{
	struct issuer_waits *w = mem_zero(sizeof(*w));

	w->site = site;
	w->issuers =
	    site->worker ? site->worker->workers->issuers : oauth_issuers_kept_new();
	list_init(&w->waits);
	w->look.run = look;
	site->issuer_waits = w;
}

void oauth_issuers_done(struct site *site)
{
	struct issuer_waits *w = site->issuer_waits;

	later_cancel(site->loop, &w->look);
	if (!site->worker)
		oauth_issuers_kept_free(&w->issuers);
	mem_free(w);
	site->issuer_waits = NULL;
}
