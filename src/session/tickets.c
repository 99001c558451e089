/*
 * Keeps the tickets of all sites in one table, under a lock that is held for short.
 * Each site looks after those that it uses: it submits their renewals, and drops those
 * that are over.
 */
#include "session/tickets.h"

#include <pthread.h>

#include "auth/kerberos.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/time_us.h"
#include "session/workers.h"

/* When a look is due that could not be taken, or that a thread has not answered. */
enum { LATER_US = 1000000 };

struct kept_ticket {
	struct buf key;                 /* in the table */
	struct kerberos_ticket *ticket; /* one reference */
};

struct ticket_table {
	pthread_mutex_t lock;
	struct map *tickets; /* struct kept_ticket by .key */
};

struct tickets {
	struct site *site;
	struct ticket_table *table;
	struct deadline review;
};

static void drop(struct ticket_table *table, struct kept_ticket *k)
{
	map_del(table->tickets, k->key.bytes, k->key.len);
	kerberos_ticket_unref(&k->ticket);
	buf_done(&k->key);
	mem_free(k);
}

struct kerberos_ticket *tickets_get(
    struct site *site, const char *keyfile, const char *principal, const char *service)
{
	struct ticket_table *table = site->tickets->table;
	struct kerberos_ticket *ticket;
	struct kept_ticket *k;
	struct buf key;

	buf_init_sure(&key);
	buf_put_str(&key, keyfile);
	buf_put_str(&key, principal);
	buf_put_str(&key, service);
	pthread_mutex_lock(&table->lock);
	k = map_get(table->tickets, key.bytes, key.len);
	if (k) {
		buf_done(&key);
	} else {
		k = mem_zero(sizeof(*k));
		k->key = key;
		k->ticket = kerberos_ticket_new(keyfile, principal, service);
		map_put(table->tickets, k->key.bytes, k->key.len, k);
	}
	ticket = kerberos_ticket_ref(k->ticket);
	pthread_mutex_unlock(&table->lock);
	return ticket;
}

/* ---- renewal ---- */

static void renewed(struct kerberos_job *job)
{
	struct tickets *own = job->owner;

	if (job->result == KERBEROS_FAILED)
		log_put(own->site->log, LEVEL_WARNING | KIND_SERVERS, NULL,
		    "a Kerberos ticket is not renewed: %s", job->err.text);
	deadline_set(own->site->loop, &own->review, loop_now(own->site->loop));
}

static void review(struct deadline *due)
{
	struct tickets *own = container_of(due, struct tickets, review);
	uint64_t now_us = loop_now(own->site->loop), next_us = UINT64_MAX;
	struct kerberos_ticket *ticket = NULL;
	struct kerberos_exchange *renewal;
	struct kerberos_job *job;
	struct kept_ticket *k;
	struct err err;
	size_t at = 0;

	pthread_mutex_lock(&own->table->lock);
	while (!ticket && (k = map_next(own->table->tickets, &at)))
		if (kerberos_ticket_ended(k->ticket, now_us))
			drop(own->table, k);
		else if (kerberos_ticket_claim(k->ticket, now_us))
			ticket = kerberos_ticket_ref(k->ticket);
		else
			next_us = time_earlier(next_us, kerberos_ticket_due(k->ticket));
	pthread_mutex_unlock(&own->table->lock);
	if (!ticket) {
		if (next_us != UINT64_MAX)
			deadline_set(own->site->loop, &own->review, next_us);
		return;
	}
	/* this site looks again when the answer is there */
	renewal = kerberos_renew_new(ticket);
	job = kerberos_job_new(HELPERS_TICKET, &renewal, NULL, 0, renewed, own);
	kerberos_ticket_unref(&ticket);
	if (job && helpers_submit(own->site->helpers, &job->job, &err) == 0)
		return;
	if (job)
		kerberos_job_discard(job);
	kerberos_exchange_free(&renewal);
	deadline_set(own->site->loop, &own->review, now_us + LATER_US);
}

void tickets_note_use(struct site *site, struct kerberos_ticket *t)
{
	uint64_t due_us = kerberos_ticket_due(t);

	if (due_us < site->tickets->review.at_us)
		deadline_set(site->loop, &site->tickets->review, due_us);
}

void tickets_forget_all(struct site *site)
{
	struct ticket_table *table = site->tickets->table;
	struct kept_ticket *k;
	size_t at = 0;

	pthread_mutex_lock(&table->lock);
	while ((k = map_next(table->tickets, &at)))
		drop(table, k);
	pthread_mutex_unlock(&table->lock);
}

/* ---- making and unmaking ---- */

struct ticket_table *ticket_table_new(void)
{
	struct ticket_table *table = mem_zero(sizeof(*table));

	pthread_mutex_init(&table->lock, NULL);
	table->tickets = map_new();
	return table;
}

void ticket_table_free(struct ticket_table **tablep)
{
	struct ticket_table *table = *tablep;
	struct kept_ticket *k;
	size_t at = 0;

	*tablep = NULL;
	while ((k = map_next(table->tickets, &at)))
		drop(table, k);
	map_free(&table->tickets);
	pthread_mutex_destroy(&table->lock);
	mem_free(table);
}

void tickets_init(struct site *site)
{
	struct tickets *own = mem_zero(sizeof(*own));

	own->site = site;
	own->table = site->worker ? site->worker->workers->tickets : ticket_table_new();
	deadline_init(&own->review, review);
	site->tickets = own;
}

void tickets_done(struct site *site)
{
	struct tickets *own = site->tickets;

	deadline_clear(site->loop, &own->review);
	if (!site->worker)
		ticket_table_free(&own->table);
	mem_free(own);
	site->tickets = NULL;
}
