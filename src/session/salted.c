#include "session/salted.h"

#include <string.h>

#include "auth/helpers.h"
#include "auth/key_cache.h"
#include "base/log.h"

/* With more derivations in the queue, it counts as busy (salted_is_busy). */
enum { BUSY_COUNT = 64 };

void salted_forget_all(struct site *site)
{
	key_cache_clear(site->key_cache);
}

bool salted_is_busy(const struct site *site)
{
	return helpers_waiting(site->helpers, HELPERS_COMPUTE) > BUSY_COUNT;
}

static uint32_t lane_of(const struct site *site, const char *user, const char *database)
{
	uint8_t salt[SCRAM_SALT_LEN];
	uint32_t lane;

	scram_steady_salt(user, database, site->mock_secret, salt);
	memcpy(&lane, salt, sizeof(lane));
	return lane;
}

uint32_t salted_lane_of_user(const struct site *site, const char *name)
{
	return lane_of(site, name, NULL);
}

uint32_t salted_lane_of_database(const struct site *site, const char *name)
{
	return lane_of(site, "", name);
}

struct helpers_job *salted_submit(struct site *site, const struct scram_due *due,
    uint32_t lane, salted_fn *done, void *owner, struct err *err)
{
	struct key_job *key_job = key_job_new(due, lane, done, owner);

	if (!key_job) {
		err_set_row(err, ERROR_OUT_OF_MEMORY);
		return NULL;
	}
	if (helpers_submit(site->helpers, &key_job->job, err) == 0) {
		log_put(site->log, LEVEL_DEBUG | KIND_AUTH, NULL,
		    "deriving a SCRAM key, %u iterations", (unsigned)due->iterations);
		return &key_job->job;
	}
	key_job_discard(key_job);
	return NULL;
}

int salted_derive(struct site *site, const struct scram_due *due, uint32_t lane,
    salted_fn *done, void *owner, uint8_t salted[SCRAM_KEY_LEN],
    struct helpers_job **job, struct err *err)
{
	if (key_cache_find(site->key_cache, due, salted) == 0)
		return 1;
	*job = salted_submit(site, due, lane, done, owner, err);
	return *job ? 0 : -1;
}

void salted_keep(
    struct site *site, const struct scram_due *due, const uint8_t salted[SCRAM_KEY_LEN])
{
	key_cache_put(site->key_cache, due, salted);
}
