/*
 * A crate is a parcel (moving/parcel.h) that an old process has sent, still packed.
 * Crates are kept until it is certain that this process takes over.  They are then
 * shared out among its sites, where they become clients and servers.
 */
#ifndef DAEMON_CRATES_H
#define DAEMON_CRATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "moving/moving.h"
#include "moving/parcel.h"

/* One parcel as bytes. */
struct crate {
	struct node node;
	enum parcel_kind kind;
	int format;     /* of the bytes */
	int fd;         /* owned until it is unpacked; -1: none */
	bool is_linked; /* a client whose server is in the next crate */
	size_t len;
	uint8_t bytes[];
};

/* The crate owns fd from now on. */
struct crate *crate_new(
    enum parcel_kind kind, int format, const uint8_t *bytes, size_t len, int fd);
/* The crate must not be in a list. */
void crate_free(struct crate **crate);

struct crates_counts {
	size_t clients, servers; /* without servers that are linked to clients */
};

/* Unpacks all crates.  A client and the server that it is linked to go to the same
 * site, idle servers to one site after the other, and parcels without a descriptor to
 * every site.  moving_check has accepted all of them; origin is the sender's first
 * parcel.  The list is empty afterwards. */
void crates_unpack(struct site *control, struct moving *moving, struct list *crates,
    const struct crate *origin, struct crates_counts *counts);

#endif
