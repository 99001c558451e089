/*
 * A packed record is a record (handoff/record.h) as bytes, as an old process has sent
 * it. Packed records are kept until it is certain that this process takes over.  They
 * are then shared out among its sites, where they become clients and servers.
 */
#ifndef DAEMON_TAKEOVER_UNPACK_H
#define DAEMON_TAKEOVER_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "handoff/handoff.h"
#include "handoff/record.h"

/* One record as bytes. */
struct packed_record {
	struct node node;
	enum record_kind kind;
	int fd;         /* owned until it is unpacked; -1: none */
	bool is_linked; /* a client whose server is in the next one */
	size_t len;
	uint8_t bytes[];
};

/* The packed record owns fd from now on. */
struct packed_record *packed_record_new(
    enum record_kind kind, const uint8_t *bytes, size_t len, int fd);
/* It must not be in a list. */
void packed_record_free(struct packed_record **packed);

struct unpacked_counts {
	size_t clients, servers; /* without servers that are linked to clients */
};

/* Unpacks all of them.  A client and the server that it is linked to go to the
 * same site, idle servers to one site after the other, and records without a descriptor
 * to every site.  handoff_check has accepted all of them; origin is the sender's first
 * record.  The list is empty afterwards. */
void takeover_unpack(struct site *control, struct handoff *handoff,
    struct list *packed_records, const struct packed_record *origin,
    struct unpacked_counts *counts);

#endif
