/*
 * What came from an old process, as it came: it is laid aside until it is certain that
 * it is ours, then shared out among the sites of this process, and becomes clients and
 * servers there.
 */
#ifndef DAEMON_CRATES_H
#define DAEMON_CRATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "moving/moving.h"
#include "moving/parcel.h"

/* One parcel. */
struct crate {
	struct node node;
	enum parcel_kind kind;
	int fd;         /* owned until it is unpacked; -1: none */
	bool is_linked; /* of a client: its server is the next one */
	size_t len;
	uint8_t bytes[];
};

/* The descriptor is its own. */
struct crate *crate_new(
    enum parcel_kind kind, const uint8_t *bytes, size_t len, int fd);
/* It is in no list. */
void crate_free(struct crate **crate);

struct crates_counts {
	size_t clients, servers; /* a client's server is not counted */
};

/* Unpacks all of them: each client at one site, and with it the server that it is
 * linked to; servers at rest at one site after the other; what has no descriptor at
 * every site.  They were found to be without fault (moving_check); origin is the
 * sender's first parcel.  The list is empty afterwards. */
void crates_unpack(struct site *control, struct moving *moving, struct list *crates,
    const struct crate *origin, struct crates_counts *counts);

#endif
