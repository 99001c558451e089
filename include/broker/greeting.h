/*
 * The parameters with which a pool greets its clients, at one site (the welcome).  If
 * several workers have the pool, each of them knows the newest: who changes it writes a
 * text into the central pool, and the others read that when they need the welcome next.
 * The last change counts.
 */
#ifndef BROKER_GREETING_H
#define BROKER_GREETING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "pool/central.h"
#include "wire/vars.h"

/* The parameters that a server of the pool has reported at its login.  Clients are
 * greeted with them. */
struct welcome {
	struct vars vars;     /* the tracked ones */
	struct buf untracked; /* ParameterStatus messages, ready to be sent */
};

struct greeting {
	struct welcome welcome;
	/* of the shared text that was read or written last; 0: there was none */
	unsigned number;
};

/* Where a greeting is shared; borrowed. */
struct greeting_place {
	struct central_view *view;
	struct central_pool *pool;
};

void greeting_init(struct greeting *g, struct vars_schema *schema);
void greeting_done(struct greeting *g);

/* Takes over the newest welcome of all sites. */
void greeting_follow(struct greeting *g, const struct greeting_place *place);
/* Replaces the welcome, here and at the other sites.  -1: no memory. */
int greeting_replace(struct greeting *g, const struct greeting_place *place,
    const struct vars *vars, const struct buf *untracked);
/* The same for one parameter. */
int greeting_set(struct greeting *g, const struct greeting_place *place,
    const struct vars *vars, size_t i);

#endif
