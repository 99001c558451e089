#include "session/strangers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include "base/map.h"
#include "base/mem.h"

struct origin {
	uint8_t bytes[SOCK_ORIGIN]; /* the key */
	int count;
};

struct strangers {
	atomic_int count; /* of all */
	pthread_mutex_t lock;
	struct map *origins; /* struct origin by its bytes */
};

struct strangers *strangers_new(void)
{
	struct strangers *strangers = mem_zero(sizeof(*strangers));

	pthread_mutex_init(&strangers->lock, NULL);
	strangers->origins = map_new();
	return strangers;
}

void strangers_free(struct strangers **strangers)
{
	map_free(&(*strangers)->origins);
	pthread_mutex_destroy(&(*strangers)->lock);
	mem_free(*strangers);
	*strangers = NULL;
}

/* Returns how many the address has now. */
static int count_at(struct strangers *strangers, const struct sock_addr *from, int step)
{
	uint8_t key[SOCK_ORIGIN];
	struct origin *origin;
	int count;

	sock_addr_origin(from, key);
	pthread_mutex_lock(&strangers->lock);
	origin = map_get(strangers->origins, key, sizeof(key));
	if (!origin) {
		origin = mem_zero(sizeof(*origin));
		memcpy(origin->bytes, key, sizeof(key));
		map_put(
		    strangers->origins, origin->bytes, sizeof(origin->bytes), origin);
	}
	count = origin->count += step;
	if (!count) {
		map_del(strangers->origins, key, sizeof(key));
		mem_free(origin);
	}
	pthread_mutex_unlock(&strangers->lock);
	return count;
}

bool strangers_are_too_many(
    const struct strangers *strangers, const struct settings *settings)
{
	return settings->max_login_clients > 0 &&
	       atomic_load(&strangers->count) > settings->max_login_clients;
}

enum strangers_verdict strangers_enter(struct strangers *strangers,
    const struct sock_addr *from, const struct settings *settings)
{
	atomic_fetch_add(&strangers->count, 1);
	int here = from->family == AF_UNIX ? 0 : count_at(strangers, from, 1);

	if (settings->max_login_clients_per_address > 0 &&
	    here > settings->max_login_clients_per_address)
		return STRANGERS_OF_ADDRESS;
	return strangers_are_too_many(strangers, settings) ? STRANGERS_OF_ALL
							   : STRANGERS_FIT;
}

void strangers_leave(struct strangers *strangers, const struct sock_addr *from)
{
	atomic_fetch_sub(&strangers->count, 1);
	if (from->family != AF_UNIX)
		count_at(strangers, from, -1);
}
