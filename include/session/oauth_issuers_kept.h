/*
 * The table of issuers and their keys, which all sites share.  Only
 * session/oauth_issuers.c uses it.
 */
#ifndef SESSION_OAUTH_ISSUERS_KEPT_H
#define SESSION_OAUTH_ISSUERS_KEPT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "auth/oauth_keys.h"

struct map;
struct issuer_waits;

struct oauth_issuer {
	char *name;
	struct oauth_keys *keys;     /* one reference; NULL: none yet */
	char *failure;               /* of the last fetch; NULL: it has succeeded */
	struct issuer_waits *runner; /* of the site that has begun it */
	bool is_running;
	bool is_old;         /* whatever its age */
	bool was_tried;      /* begun_us is set */
	uint64_t begun_us;   /* when the last fetch began */
	uint64_t fetched_us; /* when the one began that brought the keys */
	unsigned number;     /* of fetches that have ended */
	unsigned failures;   /* of these */
};

struct oauth_issuers_kept {
	pthread_mutex_t lock;
	struct map *table; /* struct oauth_issuer by .name; none is forgotten */
};

struct oauth_issuers_kept *oauth_issuers_kept_new(void);
/* Call it when no helper thread runs any more. */
void oauth_issuers_kept_free(struct oauth_issuers_kept **kept);
/* Under the lock: returns what is known of an issuer; it is made if there is nothing.
 */
struct oauth_issuer *oauth_issuers_kept_find(
    struct oauth_issuers_kept *kept, const char *name);

#endif
