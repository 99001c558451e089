/*
 * Carries the pool's verdicts out: lends servers, opens, tests and closes them, wakes
 * waiting clients.  It also keeps the server parameters with which each pool greets its
 * clients.
 */
#ifndef BROKER_BROKER_H
#define BROKER_BROKER_H

#include <stdbool.h>
#include <stdint.h>

#include "broker/login_params.h"
#include "session/request.h"
#include "session/site.h"
#include "wire/vars.h"

struct server;

/* Makes the part of struct site that belongs to this floor, and sets the events of its
 * catalog and servers.  Call it after session_init and before the first connection. */
void broker_init(struct site *site);
/* Frees what needs the catalog.  Call it when no connection is left, before
 * catalog_free. */
void broker_stop(struct site *site);
/* Frees the rest.  Call it after session_done, when no helper thread is left that could
 * use it. */
void broker_done(struct site *site);

enum broker_answer { BROKER_GRANTED, BROKER_WAIT, BROKER_REFUSED, BROKER_FULL };
/* Asks for a server, or for the login parameters, by kind.  GRANTED: it is linked at
 * once. WAIT: a function of request_ops follows.  REFUSED: sqlstate and text say why.
 * FULL: the same, because of max_waiting_clients; it may ask again. */
enum broker_answer broker_ask(struct request *request, enum request_kind kind,
    const char **sqlstate, const char **text);
/* Gives back a linked server that is ready; another request may get it at once. */
void broker_give(struct server *server);
/* A cancel aimed at a released server has finished. */
void broker_cancel_done(struct server *server);
/* Settings or limits have changed: checks every idle server and every queue again. */
void broker_review(struct site *site);
/* A host name has lost this address: marks its servers there to be closed (protocol.md
 * 16).  ctx is the site; for dns_on_change. */
void broker_lose_address(void *ctx, const char *host, const struct sock_addr *gone);
/* Runs pool_next for this pool later in this turn. */
void broker_schedule(struct pool *pool);

/* The server's present value of parameter i becomes its own value, and new clients are
 * greeted with it.  -1: no memory. */
int broker_learn(struct server *server, size_t i);
/* RESETs of the parameters with these bits are answered: the values that the server has
 * reported are its own.  The server closes if there is no memory. */
void broker_learn_resets(struct server *server, uint64_t reset);

/* Replaces the values that a client asks for in its startup packet by those that
 * PostgreSQL would report, where that is known without a server.  Returns the bits of
 * the parameters where it is not known (login_params.h).  The login parameters must be
 * known.  -1 in *failed: no memory. */
uint64_t broker_spell(struct pool *pool, struct vars *asked, int *failed);
/* A server whose own value is `base` was asked for another value, and reports this one.
 */
void broker_keep_spelling(struct pool *pool, size_t i, const char *base,
    const char *asked, const char *value);

/* The parameters with which the pool greets its clients, the newest ones of all sites;
 * NULL when none are valid. */
const struct login_params *broker_login_params(struct pool *pool);
/* Sets the pool's login parameters to what another process knew, unless it has some.
 * Copies vars and untracked.  -1: no memory. */
int broker_restore_login_params(struct site *site, struct pool *pool,
    const struct vars *vars, const uint8_t *untracked, size_t len);

#endif
