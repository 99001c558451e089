/*
 * Kerberos by GSSAPI (RFC 4121): exchanges in which a client proves to the pooler who
 * it is, or the pooler to a server, and the tickets for the latter.  Only the files
 * auth/kerberos*.c know the library.  Its calls may wait for a KDC or a name server, so
 * they are made on helper threads (auth/kerberos_job.h); the process's environment is
 * read by the library and never changed.
 */
#ifndef AUTH_KERBEROS_H
#define AUTH_KERBEROS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/helpers.h"
#include "auth/kerberos.h"
#include "base/buf.h"
#include "base/err.h"

/* Whether the program was built with the library. */
bool kerberos_is_built(void);

/* ---- tickets ---- */

/*
 * What logs in to one service: a ticket for it and for the KDC, in a cache in memory of
 * their own, which are renewed together and replace the ones before when both are
 * there.  Without a keytab it is whatever the credential cache of the account has then.
 * Several threads may use it at a time, of which one asks the KDC and the others wait
 * for its answer.
 */
struct kerberos_ticket;

/* keyfile: a keytab, or "" for the credential cache of the account; principal: of it,
 * or "" for the first one; service: "postgres@host.example.com".  Returns a
 * reference. */
struct kerberos_ticket *kerberos_ticket_new(
    const char *keyfile, const char *principal, const char *service);
struct kerberos_ticket *kerberos_ticket_ref(struct kerberos_ticket *t);
void kerberos_ticket_unref(struct kerberos_ticket **t);
/* When it should be renewed, in microseconds of the monotonic clock; UINT64_MAX: never,
 * because nobody has used it since, or because it cannot be. */
uint64_t kerberos_ticket_due(struct kerberos_ticket *t);
/* Whether that time has come.  Then nobody else is told so for a second, in which the
 * caller renews it. */
bool kerberos_ticket_claim(struct kerberos_ticket *t, uint64_t now_us);
/* Whether it was used, and is not valid any more. */
bool kerberos_ticket_ended(struct kerberos_ticket *t, uint64_t now_us);

/* ---- exchanges ---- */

struct kerberos_exchange;

enum kerberos_result {
	KERBEROS_MORE,   /* the other side has to answer */
	KERBEROS_DONE,   /* each side knows who the other one is */
	KERBEROS_FAILED, /* err says why, for the log */
};

/* A client logs in.  keyfile: the keytab that has the pooler's keys; "": the system's.
 */
struct kerberos_exchange *kerberos_accept_new(const char *keyfile);
/* The pooler logs in to the service of the ticket, of which it takes a reference. */
struct kerberos_exchange *kerberos_connect_new(struct kerberos_ticket *t);
/* The ticket is renewed, in one step without tokens; if that fails, the one that there
 * is stays in use. */
struct kerberos_exchange *kerberos_renew_new(struct kerberos_ticket *t);
/* NULL is allowed. */
void kerberos_exchange_free(struct kerberos_exchange **x);
/* May wait for long.  The token of the other side; in the first step of who begins it
 * is empty.  out, which is empty, gets the answer, if there is one. */
enum kerberos_result kerberos_step(struct kerberos_exchange *x, const uint8_t *token,
    size_t len, struct buf *out, struct err *err);
/* After KERBEROS_DONE: the name of the client, such as "ann@EXAMPLE.COM". */
const char *kerberos_client(const struct kerberos_exchange *x);
/* The server refuses us, or its tokens do not fit.  Another attempt is worth it if the
 * ticket was not made for this one: it is forgotten, because the keys of the service
 * may have changed. */
bool kerberos_refused(struct kerberos_exchange *x);

/* ---- names ---- */

/* The path of a keytab that is a file, with or without FILE: in front; NULL: it is
 * none, or the name is empty. */
const char *kerberos_keytab_path(const char *keyfile);

/* The user's name in a principal as the library prints it: without the realm if
 * is_realm_left_out.  realm (NULL: any): the one it must be of.  Returns a copy; NULL
 * and err: the realm is another one. */
char *kerberos_user_of(const char *principal, bool is_realm_left_out, const char *realm,
    bool is_caseless, struct err *err);

/* ---- a step as a job ---- */

struct kerberos_job {
	struct helpers_job job;
	/* owned; done() may take it back and leaves NULL here */
	struct kerberos_exchange *exchange;
	uint8_t *token; /* owned: of the other side */
	size_t token_len;
	/* the result */
	enum kerberos_result result;
	struct buf out;
	struct err err;
	/* borrowed */
	void (*done)(struct kerberos_job *job);
	void *owner;
};

/* Takes *exchange over, and copies the token.  NULL: no memory, and nothing is taken.
 * The caller submits `&job->job`, or ends it with kerberos_job_discard if that fails.
 */
struct kerberos_job *kerberos_job_new(enum helpers_kind kind,
    struct kerberos_exchange **exchange, const uint8_t *token, size_t token_len,
    void (*done)(struct kerberos_job *job), void *owner);
void kerberos_job_discard(struct kerberos_job *own);

#endif
