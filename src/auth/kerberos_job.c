/*
 * Carries out a step of a Kerberos exchange on a helper thread.
 */
#include "auth/kerberos_job.h"

#include <string.h>

#include "base/mem.h"

static struct kerberos_job *own_of(struct helpers_job *job)
{
	return container_of(job, struct kerberos_job, job);
}

static void run(struct helpers_job *job)
{
	struct kerberos_job *own = own_of(job);

	own->result = kerberos_step(
	    own->exchange, own->token, own->token_len, &own->out, &own->err);
}

static void done(struct helpers_job *job)
{
	own_of(job)->done(own_of(job));
}

static void discard(struct helpers_job *job)
{
	kerberos_job_discard(own_of(job));
}

struct kerberos_job *kerberos_job_new(enum helpers_kind kind,
    struct kerberos_exchange **exchange, const uint8_t *token, size_t token_len,
    void (*on_done)(struct kerberos_job *job), void *owner)
{
	uint8_t *copy = mem_try(token_len ? token_len : 1);
	struct kerberos_job *own;

	if (!copy)
		return NULL;
	if (token_len)
		memcpy(copy, token, token_len);
	own = mem_zero(sizeof(*own));
	own->job = (struct helpers_job){
	    .kind = kind, .run = run, .done = done, .discard = discard};
	own->exchange = *exchange;
	*exchange = NULL;
	own->token = copy;
	own->token_len = token_len;
	own->result = KERBEROS_FAILED;
	buf_init(&own->out, 0);
	own->done = on_done;
	own->owner = owner;
	return own;
}

void kerberos_job_discard(struct kerberos_job *own)
{
	kerberos_exchange_free(&own->exchange);
	mem_wipe(own->token, own->token_len);
	mem_free(own->token);
	buf_wipe_done(&own->out);
	mem_free(own);
}
