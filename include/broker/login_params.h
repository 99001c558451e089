/*
 * The parameters that a pool's clients are told at their login, at one site.  If
 * several workers have the pool, each of them knows the newest: who changes them writes
 * a text into the central pool, and the others read that when they need them next.  The
 * last change counts.
 */
#ifndef BROKER_LOGIN_PARAMS_H
#define BROKER_LOGIN_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "broker/login_params.h"
#include "pool/central.h"
#include "wire/vars.h"

/* The parameters that a server of the pool has reported at its login.  Clients are
 * greeted with them. */
struct login_params {
	struct vars vars;     /* the tracked ones */
	struct buf untracked; /* ParameterStatus messages, ready to be sent */
};

struct shared_params {
	struct login_params login_params;
	/* of the shared text that was read or written last; 0: there was none */
	unsigned number;
};

/* Where they are shared; borrowed. */
struct shared_params_place {
	struct central_view *view;
	struct central_pool *pool;
};

void shared_params_init(struct shared_params *g, struct vars_schema *schema);
void shared_params_done(struct shared_params *g);

/* Takes over the newest login parameters of all sites. */
void shared_params_follow(
    struct shared_params *g, const struct shared_params_place *place);
/* Replaces the login parameters, here and at the other sites.  -1: no memory. */
int shared_params_replace(struct shared_params *g,
    const struct shared_params_place *place, const struct vars *vars,
    const struct buf *untracked);
/* The same for one parameter. */
int shared_params_set(struct shared_params *g, const struct shared_params_place *place,
    const struct vars *vars, size_t i);

/* ---- how PostgreSQL spells values ---- */

/* `utf-8` is reported as `UTF8`, and `ISO` as `ISO, MDY` where the rest of DateStyle
 * is MDY by default.  What servers have answered is kept, so that only the first
 * client with a spelling needs a server to be greeted. */

/* What servers have answered, up to a limit; what was not used for longest goes first.
 */
struct spellings;
struct spellings *spellings_new(void);
void spellings_free(struct spellings **s);
/* On a server whose own value of parameter i is `base`, asking for `asked` gives
 * `value`. Very long values are not kept. */
void spellings_keep(struct spellings *s, size_t i, const char *base, const char *asked,
    const char *value);
/* Replaces the values in `asked` by those that PostgreSQL would report, where that is
 * known without a server.  Returns the bits of the parameters where it is not known,
 * which keep their values.  s may be NULL.  -1 in *failed: no memory. */
uint64_t spellings_apply(struct spellings *s, const struct login_params *login_params,
    struct vars *asked, int *failed);

#endif
