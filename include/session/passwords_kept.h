/*
 * The table of passwords that programs print or files hold, which all sites share. Only
 * session/passwords.c uses it.
 */
#ifndef SESSION_PASSWORDS_KEPT_H
#define SESSION_PASSWORDS_KEPT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "auth/password_job.h"
#include "base/buf.h"
#include "base/list.h"

struct map;
struct site;

struct kept_password {
	struct buf key; /* of the request, in the table */
	struct password_request request;
	struct node running_node; /* in kept->running, while it is fetched */
	bool is_running;
	char *password;  /* NULL: there is none */
	char *failure;   /* of the last fetch; NULL: it has succeeded */
	unsigned number; /* of fetches that have ended */
	uint64_t lifetime_us;
	uint64_t begun_us;   /* when the last fetch began */
	uint64_t fetched_us; /* when the one began that brought the password */
	uint64_t again_us;   /* when it is fetched again before its end, or looked at */
	bool is_used;        /* since the last fetch began */
	bool is_refused;     /* a server has refused it */
	bool is_second; /* it was fetched because a server refused the one before */
	unsigned waits; /* logins that have it or wait for it */
	struct site *runner; /* fetched it last, and looks after it */
};

struct passwords_kept {
	pthread_mutex_t lock;
	struct map *table;   /* struct kept_password by .key */
	struct list running; /* by .running_node */
};

struct passwords_kept *passwords_kept_new(void);
/* Wipes the passwords.  Call it when no helper thread runs any more. */
void passwords_kept_free(struct passwords_kept **kept);

/* All others are called under the lock. */

/* Returns what is known for a request; it is made if there is nothing. */
struct kept_password *passwords_kept_find(
    struct passwords_kept *kept, const struct password_request *request);
void passwords_kept_drop(struct passwords_kept *kept, struct kept_password *k);
bool passwords_kept_is_fresh(const struct kept_password *k, uint64_t now_us);
/* Is a password of the same user at the same host being fetched? */
bool passwords_kept_is_busy(
    const struct passwords_kept *kept, const struct kept_password *k);

#endif
