/*
 * The parcels of one letter from a site of this process to another: what the receiver
 * needs to know first, and then one client or server.
 */
#ifndef MOVING_BUNDLE_H
#define MOVING_BUNDLE_H

#include "moving/moving.h"

struct bundle {
	struct buf bytes; /* each parcel as kind, length and bytes */
};

void bundle_init(struct bundle *bundle);
/* Wipes the bytes: a parcel may contain keys. */
void bundle_done(struct bundle *bundle);

/* A moving_emit_fn for a struct bundle: appends the parcel.  It does not use the
 * descriptor.  -1: no memory. */
int bundle_put(void *bundle, const struct parcel *parcel, int fd);

/* Gets a parcel that this site can accept; it may change it. */
typedef void bundle_fn(void *ctx, struct moving *moving, struct parcel *parcel);
/* Calls fn for each parcel that can be decoded and accepted here; the others are
 * skipped.  The texts in it are forgotten at the end. */
void bundle_open(
    const struct bundle *bundle, struct site *site, bundle_fn *fn, void *ctx);

/* The site is being freed. */
void bundle_forget_senders(struct site *site);

#endif
