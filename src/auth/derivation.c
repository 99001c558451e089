/*
 * One SCRAM derivation as a job.  What comes out is not kept here.
 */
#include "auth/derivation.h"

#include <string.h>

#include "base/mem.h"

static struct derivation *derivation_of(struct external_job *job)
{
	return container_of(job, struct derivation, job);
}

static void derivation_run(struct external_job *job)
{
	struct derivation *derivation = derivation_of(job);

	if (!external_is_cancelled(job))
		scram_derive(&derivation->due, derivation->salted);
}

static void derivation_done(struct external_job *job)
{
	struct derivation *derivation = derivation_of(job);
	derivation->done(derivation);
}

static void derivation_end(struct external_job *job)
{
	derivation_discard(derivation_of(job));
}

/* The copies of the password and the salt stand behind the struct. */
struct derivation *derivation_new(const struct scram_due *due,
    void (*done)(struct derivation *derivation), void *owner)
{
	size_t size = strlen(due->password) + 1;
	struct derivation *derivation =
	    try_alloc(sizeof(*derivation) + size + due->salt_len);
	char *password;
	uint8_t *salt;

	if (!derivation)
		return NULL;
	password = (char *)(derivation + 1);
	salt = (uint8_t *)password + size;
	memcpy(password, due->password, size);
	memcpy(salt, due->salt, due->salt_len);
	memset(derivation, 0, sizeof(*derivation));
	derivation->job = (struct external_job){
	    .kind = EXTERNAL_COMPUTE,
	    .run = derivation_run,
	    .done = derivation_done,
	    .discard = derivation_end,
	};
	derivation->due = (struct scram_due){
	    .password = password,
	    .salt = salt,
	    .salt_len = due->salt_len,
	    .iterations = due->iterations,
	};
	derivation->done = done;
	derivation->owner = owner;
	return derivation;
}

void derivation_discard(struct derivation *derivation)
{
	mem_wipe(derivation, sizeof(*derivation) + strlen(derivation->due.password) +
				 1 + derivation->due.salt_len);
	mem_free(derivation);
}
