/*
 * The keys of issuers of tokens that were fetched: kept for all sites, and fetched
 * again on a helper thread when they are old, or when a token has the id of an unknown
 * one.
 */
#ifndef SESSION_OAUTH_ISSUERS_H
#define SESSION_OAUTH_ISSUERS_H

#include <stdbool.h>
#include <stdint.h>

#include "auth/oauth_keys.h"
#include "base/list.h"

struct site;
struct oauth_issuer;

/* At most one fetch of an issuer begins in this time. */
enum { OAUTH_FETCH_PAUSE_US = 5000000 };

/* Makes site->issuer_waits, which uses the table that all sites share. */
void oauth_issuers_init(struct site *site);
/* Call it after the helper threads have ended. */
void oauth_issuers_done(struct site *site);

/* A login that waits for the keys of an issuer. */
struct oauth_keys_wait {
	/* The fetch has ended, whatever it has brought. */
	void (*done)(struct oauth_keys_wait *wait);
	/* used by oauth_issuers.c only */
	struct node node; /* in the site's list while it waits */
	struct site *site;
	struct oauth_issuer *issuer;
	unsigned number;
};

/* Returns another reference to the keys of an issuer, as it is configured; NULL: they
 * are not known.  If they are old, a fetch begins. */
struct oauth_keys *oauth_issuers_keys(struct site *site, const char *issuer);
enum oauth_keys_news {
	OAUTH_KEYS_LATER, /* they are being fetched: wait->done will be called, unless
			     oauth_issuers_leave is called first */
	OAUTH_KEYS_NEWER, /* others have come meanwhile: oauth_issuers_keys has them */
	OAUTH_KEYS_NONE,  /* they were fetched a moment ago, or could not be fetched the
			     last time, so that nobody is to wait */
};
/* These keys of the issuer, or NULL, do not suffice. */
enum oauth_keys_news oauth_issuers_fetch(struct site *site, const char *issuer,
    const struct oauth_keys *known, struct oauth_keys_wait *wait);
/* Does nothing if it does not wait. */
void oauth_issuers_leave(struct oauth_keys_wait *wait);
/* All keys count as old, for all sites. */
void oauth_issuers_renew(struct site *site);

/* What is known of an issuer, for a view. */
struct oauth_issuer_state {
	const char *name;
	size_t key_count;
	uint64_t
	    fetched_us; /* when the keys' fetch began (loop clock); 0: there are none */
	uint64_t fetches, failures;
	const char *failure; /* of the last fetch; NULL: it has not failed */
};
/* Calls fn for each issuer, under the lock. */
void oauth_issuers_each(struct site *site,
    void (*fn)(const struct oauth_issuer_state *state, void *ctx), void *ctx);

#endif
