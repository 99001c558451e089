/*
 * Exchanges by GSSAPI, step by step, and the tickets for one service: gets them, keeps
 * them and says when they are due. New ones are complete before they take the place of
 * the old ones, so that a KDC that goes away in between takes nothing away.
 */
#include "auth/kerberos.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "auth/gssapi.h"
#include "base/mem.h"
#include "base/time_us.h"

/* ---- tickets for servers ---- */

enum {
	SECOND_US = 1000000,
	/* What is valid for less is not used any more. */
	MARGIN_US = SECOND_US / 4,
};

struct kerberos_grant {
	atomic_uint users;
	struct gssapi_credentials *credentials;
	uint64_t begun_us, ends_us;
};

struct kerberos_ticket {
	atomic_uint users;
	char *keyfile, *principal, *service;
	pthread_mutex_t lock; /* protects what follows */
	pthread_cond_t fetched;
	bool is_being_fetched;
	struct kerberos_grant *grant; /* one reference; NULL: there is none */
	bool is_used;                 /* since the last fetch began */
	uint64_t again_us;            /* when it is renewed, at the soonest */
	uint64_t failed_us;           /* when the last fetch failed; 0: it has not */
	struct err failure;
};

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND_US + (uint64_t)now.tv_nsec / 1000;
}

struct kerberos_ticket *kerberos_ticket_new(
    const char *keyfile, const char *principal, const char *service)
{
	struct kerberos_ticket *t = mem_zero(sizeof(*t));

	atomic_store(&t->users, 1);
	t->keyfile = mem_strdup(keyfile);
	t->principal = mem_strdup(principal);
	t->service = mem_strdup(service);
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->fetched, NULL);
	return t;
}

struct kerberos_ticket *kerberos_ticket_ref(struct kerberos_ticket *t)
{
	atomic_fetch_add(&t->users, 1);
	return t;
}

/* NULL is allowed. */
static void kerberos_grant_unref(struct kerberos_grant **grantp)
{
	struct kerberos_grant *grant = *grantp;

	*grantp = NULL;
	if (!grant || atomic_fetch_sub(&grant->users, 1) > 1)
		return;
	gssapi_credentials_free(&grant->credentials);
	mem_free(grant);
}

void kerberos_ticket_unref(struct kerberos_ticket **tp)
{
	struct kerberos_ticket *t = *tp;

	*tp = NULL;
	if (!t || atomic_fetch_sub(&t->users, 1) > 1)
		return;
	kerberos_grant_unref(&t->grant);
	mem_free(t->keyfile);
	mem_free(t->principal);
	mem_free(t->service);
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->fetched);
	mem_free(t);
}

/* ---- fetching ---- */

/* Under the lock, which is given up meanwhile.  What takes the place of the old
 * credentials has a ticket for the service, too, in its cache. */
static void replace(struct kerberos_ticket *t)
{
	struct kerberos_grant *fresh = mem_zero(sizeof(*fresh)), *old = NULL;
	struct gssapi_context *context = NULL;
	enum kerberos_result result = KERBEROS_FAILED;
	uint32_t lifetime_s = 0;
	uint64_t lifetime_us;
	struct buf unsent;
	struct err err;

	t->is_being_fetched = true;
	t->is_used = false;
	pthread_mutex_unlock(&t->lock);
	atomic_store(&fresh->users, 1);
	fresh->begun_us = now_us();
	buf_init(&unsent, 0);
	fresh->credentials = gssapi_initiator(t->keyfile, t->principal, &err);
	if (fresh->credentials)
		result = gssapi_connect(&context, fresh->credentials, t->service, NULL,
		    0, &unsent, &lifetime_s, &err);
	fresh->ends_us = now_us() + (uint64_t)lifetime_s * SECOND_US;
	gssapi_context_free(&context);
	buf_wipe_done(&unsent);
	if (result == KERBEROS_FAILED)
		kerberos_grant_unref(&fresh);
	pthread_mutex_lock(&t->lock);
	t->is_being_fetched = false;
	t->failed_us = fresh ? 0 : now_us();
	if (fresh) {
		old = t->grant;
		t->grant = fresh;
	} else {
		t->failure = err;
	}
	lifetime_us = t->grant ? t->grant->ends_us - t->grant->begun_us : 0;
	t->again_us = time_later(now_us() + SECOND_US,
	    fresh ? fresh->begun_us + lifetime_us / 2 : now_us() + lifetime_us / 16);
	pthread_cond_broadcast(&t->fetched);
	kerberos_grant_unref(&old);
}

/* Returns a reference to what is valid now; asks the KDC, or waits for the thread that
 * does, if there is nothing.  NULL and err: it has failed. */
static struct kerberos_grant *kerberos_ticket_take(
    struct kerberos_ticket *t, struct err *err)
{
	uint64_t since_us = now_us();
	struct kerberos_grant *grant = NULL;

	pthread_mutex_lock(&t->lock);
	while (!grant && (!t->failed_us || t->failed_us < since_us)) {
		/* others change the account's cache, so it is looked at each time */
		if (t->grant && now_us() + MARGIN_US < t->grant->ends_us &&
		    (*t->keyfile || t->grant->begun_us >= since_us))
			grant = t->grant;
		else if (t->is_being_fetched)
			pthread_cond_wait(&t->fetched, &t->lock);
		else
			replace(t);
	}
	if (grant) {
		atomic_fetch_add(&grant->users, 1);
		t->is_used = true;
	} else {
		*err = t->failure;
	}
	pthread_mutex_unlock(&t->lock);
	return grant;
}

/* Gets new credentials in place of those that there are. */
static int kerberos_ticket_renew(struct kerberos_ticket *t, struct err *err)
{
	int rc = 0;

	pthread_mutex_lock(&t->lock);
	if (!t->is_being_fetched) {
		replace(t);
		if (t->failed_us) {
			/* it is tried again for those who have used it */
			t->is_used = true;
			*err = t->failure;
			rc = -1;
		}
	}
	pthread_mutex_unlock(&t->lock);
	return rc;
}

/* ---- time ---- */

/* Under the lock. */
static uint64_t due_us_of(const struct kerberos_ticket *t)
{
	bool is_due = *t->keyfile && t->grant && t->is_used && !t->is_being_fetched;

	return is_due ? t->again_us : UINT64_MAX;
}

uint64_t kerberos_ticket_due(struct kerberos_ticket *t)
{
	uint64_t due_us;

	pthread_mutex_lock(&t->lock);
	due_us = due_us_of(t);
	pthread_mutex_unlock(&t->lock);
	return due_us;
}

bool kerberos_ticket_claim(struct kerberos_ticket *t, uint64_t at_us)
{
	bool is_claimed;

	pthread_mutex_lock(&t->lock);
	is_claimed = due_us_of(t) <= at_us;
	if (is_claimed)
		t->again_us = at_us + SECOND_US;
	pthread_mutex_unlock(&t->lock);
	return is_claimed;
}

bool kerberos_ticket_ended(struct kerberos_ticket *t, uint64_t at_us)
{
	bool is_over;

	pthread_mutex_lock(&t->lock);
	is_over = !t->is_being_fetched && t->again_us &&
		  (!t->grant || t->grant->ends_us < at_us);
	pthread_mutex_unlock(&t->lock);
	return is_over;
}

/* ---- exchanges ---- */

/* Kerberos needs two steps, and three around a negotiation; nobody may ask for more and
 * more of them. */
enum { STEPS_MAX = 8 };

struct kerberos_exchange {
	char *keyfile; /* owned: of the side that is logged in to; NULL: we log in */
	struct kerberos_ticket *ticket; /* one reference: otherwise */
	bool is_renewal;
	struct gssapi_credentials *keys; /* since the first step */
	struct kerberos_grant *grant;    /* likewise */
	struct gssapi_context *context;
	char *client; /* after the last step */
	unsigned steps;
};

bool kerberos_is_built(void)
{
	return gssapi_is_built();
}

struct kerberos_exchange *kerberos_accept_new(const char *keyfile)
{
	struct kerberos_exchange *x = mem_zero(sizeof(*x));

	x->keyfile = mem_strdup(keyfile);
	return x;
}

struct kerberos_exchange *kerberos_connect_new(struct kerberos_ticket *t)
{
	struct kerberos_exchange *x = mem_zero(sizeof(*x));

	x->ticket = kerberos_ticket_ref(t);
	return x;
}

struct kerberos_exchange *kerberos_renew_new(struct kerberos_ticket *t)
{
	struct kerberos_exchange *x = kerberos_connect_new(t);

	x->is_renewal = true;
	return x;
}

void kerberos_exchange_free(struct kerberos_exchange **xp)
{
	struct kerberos_exchange *x = *xp;

	*xp = NULL;
	if (!x)
		return;
	gssapi_context_free(&x->context);
	gssapi_credentials_free(&x->keys);
	kerberos_grant_unref(&x->grant);
	kerberos_ticket_unref(&x->ticket);
	mem_free(x->keyfile);
	mem_free(x->client);
	mem_free(x);
}

enum kerberos_result kerberos_step(struct kerberos_exchange *x, const uint8_t *token,
    size_t len, struct buf *out, struct err *err)
{
	if (x->is_renewal)
		return kerberos_ticket_renew(x->ticket, err) < 0 ? KERBEROS_FAILED
								 : KERBEROS_DONE;
	if (++x->steps > STEPS_MAX) {
		err_set(err, "the GSSAPI exchange does not end");
		return KERBEROS_FAILED;
	}
	if (x->keyfile) {
		if (!x->keys)
			x->keys = gssapi_acceptor(x->keyfile, err);
		return x->keys ? gssapi_accept(&x->context, x->keys, token, len, out,
				     &x->client, err)
			       : KERBEROS_FAILED;
	}
	if (!x->grant)
		x->grant = kerberos_ticket_take(x->ticket, err);
	return x->grant ? gssapi_connect(&x->context, x->grant->credentials,
			      x->ticket->service, token, len, out, NULL, err)
			: KERBEROS_FAILED;
}

const char *kerberos_client(const struct kerberos_exchange *x)
{
	return x->client;
}

bool kerberos_refused(struct kerberos_exchange *x)
{
	struct kerberos_ticket *t = x->ticket;
	bool was_kept;

	if (!x->grant)
		return false;
	was_kept = x->grant->begun_us + SECOND_US < now_us();
	pthread_mutex_lock(&t->lock);
	if (was_kept && t->grant == x->grant)
		kerberos_grant_unref(&t->grant);
	pthread_mutex_unlock(&t->lock);
	return was_kept;
}

const char *kerberos_keytab_path(const char *keyfile)
{
	static const char type[] = "FILE:";

	if (strncmp(keyfile, type, strlen(type)) == 0)
		keyfile += strlen(type);
	return *keyfile == '/' ? keyfile : NULL;
}

char *kerberos_user_of(const char *principal, bool is_realm_left_out, const char *realm,
    bool is_caseless, struct err *err)
{
	size_t len = 0;
	const char *own;
	char *user;

	/* in the parts of a name the library puts a backslash before an @ */
	while (principal[len] && principal[len] != '@')
		len += principal[len] == '\\' && principal[len + 1] ? 2 : 1;
	own = principal[len] ? principal + len + 1 : "";
	if (realm && (is_caseless ? strcasecmp : strcmp)(own, realm) != 0) {
		err_set(err, "%s is not of the realm %s", principal, realm);
		return NULL;
	}
	user = mem_strdup(principal);
	if (is_realm_left_out)
		user[len] = '\0';
	return user;
}

/* ---- a step as a job ---- */

static struct kerberos_job *job_own(struct helpers_job *job)
{
	return container_of(job, struct kerberos_job, job);
}

static void run(struct helpers_job *job)
{
	struct kerberos_job *own = job_own(job);

	own->result = kerberos_step(
	    own->exchange, own->token, own->token_len, &own->out, &own->err);
}

static void done(struct helpers_job *job)
{
	job_own(job)->done(job_own(job));
}

static void discard(struct helpers_job *job)
{
	kerberos_job_discard(job_own(job));
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
