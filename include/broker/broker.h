/*
 * Carries the pool's verdicts out: grants, dials, tests, retires, wakes; keeps each
 * pool's cached server parameters (the welcome).
 */
#ifndef BROKER_BROKER_H
#define BROKER_BROKER_H

#include <stdbool.h>
#include <stdint.h>

#include "session/request.h"
#include "session/site.h"
#include "wire/vars.h"

struct server;

/* Set the site's catalog events and server events. */
void broker_init(struct site *site);

enum broker_answer { BROKER_GRANTED, BROKER_WAIT, BROKER_REFUSED, BROKER_FULL };
/* Ask for a server (or the welcome, by kind).  GRANTED: linked at once.  WAIT: an op
 * follows.  REFUSED: sqlstate and text are filled.  FULL: the same, because of
 * max_waiting_clients; it may ask again. */
enum broker_answer broker_ask(struct request *request, enum ask_kind kind,
    const char **sqlstate, const char **text);
/* Give the linked, ready server back; may grant it to another request at once. */
void broker_give(struct server *server);
/* A cancel aimed at a released server has finished. */
void broker_cancel_done(struct server *server);
/* Settings or limits changed: look at every resting server and every queue again. */
void broker_review_all(struct site *site);
/* The host name no longer means this address: its servers there are marked to close
 * (protocol.md 16).  ctx is the site: for dns_on_change. */
void broker_lose_address(void *ctx, const char *host, const struct sock_addr *gone);
/* Run pool_next for this pool later in this turn. */
void broker_kick(struct pool *pool);

/* What the server has for parameter i is its own value: clients that come are greeted
 * with it.  -1: no memory. */
int broker_learn(struct server *server, size_t i);

/* The cached parameters of a pool: what a server of it reported at login. */
struct welcome {
	struct vars vars;     /* the tracked ones */
	struct buf untracked; /* ParameterStatus messages, ready to be sent */
};
/* NULL when none is valid. */
const struct welcome *broker_welcome(const struct pool *pool);
/* What another process knows of the pool's servers, unless something is known here.
 * vars are taken, untracked is copied. */
void broker_restore_welcome(struct site *site, struct pool *pool,
    const struct vars *vars, const uint8_t *untracked, size_t len);

#endif
