/*
 * A SCRAM derivation as a job.
 */
#include "auth/key_job.h"

#include <string.h>

#include "base/mem.h"

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
		scram_derive(&key_job->due, key_job->salted);
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
