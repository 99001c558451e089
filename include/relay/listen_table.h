/*
 * Which clients of this site listen to which channels, and what is sent to them: with
 * session_state=keep, the LISTENs of a pool's clients are in force on one connection
 * for all of them (listen_hub.h).
 *
 * A notification goes to its clients at once if they are outside of a transaction, and
 * waits until they are, otherwise.
 */
#ifndef RELAY_LISTEN_TABLE_H
#define RELAY_LISTEN_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "net/mailbox.h"
#include "session/client.h"
#include "session/server.h"

struct listen_hub;
struct listen_message;
typedef void listen_handle_fn(struct site *site, struct listen_message *message);

/* A message between the sites that have clients of a pool and the one that has the
 * listening connection. */
struct listen_message {
	struct thread_message message;
	struct node node;         /* in the inbox of a site that sends it to itself */
	struct site *site;        /* that gets it */
	listen_handle_fn *handle; /* what it does there */
	listen_handle_fn *answer; /* of a question: what the answer does */
	unsigned from;            /* the place of the site that has sent it */
	uint64_t hub_id, client_id;
	uint32_t pid; /* of a notification: the sender, as its client knows it */
	bool is_refused;
	bool is_fence; /* of a question: it can be refused if it takes long */
	size_t key_len, len;
	char bytes[]; /* the pool's key, then what the message is about */
};

/* The clients of one pool that listen. */
struct listen_pool {
	struct map *channels;   /* struct listen_channel by name */
	struct list clients;    /* struct listening by .node */
	struct listen_hub *hub; /* owned: the newest connection at this site; or NULL */
	size_t key_len;
	char key[]; /* names of database and user, each with its NUL */
};

struct listen_channel {
	struct list subscriptions; /* by .of_channel */
	size_t len;
	char name[];
};

struct subscription {
	struct node of_channel, of_client;
	struct listen_channel *channel;
	struct listening *listening;
	/* The client's own server still listens, too: what it sends goes to the client
	 * up to the mark, and what the connection sends waits. */
	bool is_joining;
};

/* To this channel both the client's server and the pool's connection listen meanwhile:
 * both send what is committed in the same order, so that the client gets from one what
 * comes before the mark, and from the other what comes behind it. */
#define LISTEN_MARKS "pgbouncer_joins"
enum { LISTEN_MARK_SIZE = 17 };

/* How far a client is whose LISTEN goes from its server to the pool's connection. */
enum listen_phase {
	LISTEN_AT_REST,
	LISTEN_JOINING, /* the pool's connection is about to LISTEN */
	LISTEN_OWNING,  /* there is none: the client's server becomes it */
	LISTEN_MARKING, /* the client's server sends the mark */
	LISTEN_LEAVING, /* it has, and UNLISTENs */
	LISTEN_FENCING, /* the mark has not come from the pool's connection */
	LISTEN_FENCED,
};

/* client->listening: what a client listens to. */
struct listening {
	struct node node; /* in pool->clients, while there are subscriptions */
	struct client *client;
	struct listen_pool *pool;  /* with subscriptions; or NULL */
	struct list subscriptions; /* by .of_client */
	uint64_t hub_id;           /* the connection that listens for it */
	uint64_t since_us;
	uint64_t count;   /* notifications that it was sent */
	struct buf queue; /* those that wait for the end of its transaction */
	uint8_t phase;    /* enum listen_phase */
	bool is_unseen;   /* its server listens because of a function, and stays */
	bool is_first;    /* nothing but the joining connects it with hub_id */
	/* what has listened for it was lost, and it will be told when it listens again
	 */
	bool was_lost;
	/* channels that its server has told: names with their NULs */
	struct buf found;
	/* payload of the notification with which it changes from its own server to the
	 * pool's connection; empty: it does not */
	char mark[LISTEN_MARK_SIZE];
	bool has_passed; /* the server has sent it */
	uint16_t fences; /* answers of the connection without it */
	/* names of the UNLISTENs in texts that were sent, that have run in this
	 * transaction, and that are committed; each with its NUL, "" for all */
	struct buf sent, run, done;
	uint32_t readies; /* in `sent`: each stands for a ReadyForQuery */
	size_t run_safe;  /* bytes of `run` from before the first SAVEPOINT */
	bool has_savepoint : 1;
	bool chains : 1;    /* an AND CHAIN was sent */
	bool was_block : 1; /* the transaction has had a ReadyForQuery before its end */
	bool is_undone : 1; /* the query has a ROLLBACK or an error, and no COMMIT
			       behind it */
};

struct listens;
/* site->listens.  drop: a channel has no client at a site any more; it gets that at the
 * site with the connection. */
struct listens *listen_table_new(struct site *site, listen_handle_fn *drop);
void listen_table_free(struct listens **listens);

/* Makes a message about the pool with this key; `what` goes behind the key. */
struct listen_message *listen_table_message(const char *key, size_t key_len,
    listen_handle_fn *handle, const void *what, size_t len);
/* Sends it to the site at this place, also if that is the same.  It arrives later. */
void listen_table_post(struct site *from, unsigned to, struct listen_message *message);
static inline unsigned listen_table_place(uint64_t hub_id)
{
	return (unsigned)(hub_id & 0xff);
}

/* The pool with this key, and that of a server or client, which is made; NULL: nobody
 * listens there. */
struct listen_pool *listen_table_find(
    const struct site *site, const char *key, size_t len);
struct listen_pool *listen_table_pool(struct site *site, const struct pool *pool);
/* Frees the pool if nobody listens and it has no connection. */
void listen_table_leave(struct site *site, struct listen_pool *pool);

/* The client's, which is made if it is missing. */
struct listening *listen_table_of(struct client *client);
/* The client subscribes. */
void listen_table_add(struct listening *l, const char *channel);
/* It ends the subscription of this channel, or of all. */
void listen_table_remove(struct listening *l, const char *channel);
void listen_table_remove_all(struct listening *l);

/* A notification for the clients that listen to its channel; `bytes` is the message of
 * the server.  hub_id: the connection that it has come from. */
void listen_table_deliver(struct listen_pool *pool, uint64_t hub_id,
    const uint8_t *bytes, size_t len, uint32_t pid);
/* The client may be outside of a transaction now. */
void listen_table_flush(struct client *client);
/* Sends what waits for the client, which is outside of a transaction. */
void listen_table_send(struct listening *l);
/* The client's own server has sent it a notification, which the pool's connection may
 * send, too.  What waits for the client is sent before it.  False: the connection is
 * relied upon for its channel, and sends it or has sent it. */
bool listen_table_heard(struct listening *l, const struct message *m);
/* Has the mark come from the connection? */
bool listen_table_has_mark(const struct listening *l);
/* The client's own server listens no more, and what the connection has sent behind the
 * mark goes to the client. */
void listen_table_settle(struct listening *l);
/* Reads a notification.  -1: it is none. */
int listen_table_read(
    const uint8_t *bytes, size_t len, uint32_t *pid, const char **channel);

/* struct server by .fence.node, and a number that no other of them has: see
 * listen_fence.h */
struct list *listen_table_fences(const struct site *site);
uint64_t listen_table_number(const struct site *site);

/* struct listen_pool, for `size_t at = 0; while ((pool = ..(site, &at)))`. */
const struct listen_pool *listen_table_next(const struct site *site, size_t *at);

#endif
