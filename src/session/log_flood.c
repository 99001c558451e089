/*
 * Counts lines in a table of fixed size, so that strangers with many addresses cost
 * neither memory nor time.  One that finds all its places taken by others of the last
 * minute shares the first of them, and its count: so there are never more lines in a
 * minute than the table has places, times the limit.
 */
#include "session/log_flood.h"

#include <string.h>

#include "base/mem.h"

enum { MINUTE_US = 60000000, PLACES = 1024, WAYS = 8 };

struct log_flood {
	struct place {
		const char *fmt;
		uint8_t origin[SOCK_ORIGIN];
		uint64_t since_us;
		unsigned count; /* of lines since then, also those that were left out */
	} places[PLACES];
};

struct log_flood *log_flood_new(void)
{
	return mem_zero(sizeof(struct log_flood));
}

void log_flood_free(struct log_flood **flood)
{
	mem_free(*flood);
	*flood = NULL;
}

/* The beginning of a format stands for the message. */
static void tell(const struct site *site, const struct sock_addr *from, const char *fmt,
    const char *what, unsigned count)
{
	char address[SOCK_ADDR_TEXT];

	log_warning(site->log,
	    "lines \"%.*s...\" about clients of %s that have not logged in: %u %s "
	    "(log_lines_per_address)",
	    (int)strcspn(fmt, "%"), fmt, sock_addr_ip(from, address), count, what);
}

bool log_flood_holds(
    const struct site *site, const struct sock_addr *from, const char *fmt)
{
	unsigned most = (unsigned)site_settings(site)->log_lines_per_address;
	uint64_t now_us = loop_now(site->loop);
	struct place *place = NULL, *unused = NULL;
	uint8_t origin[SOCK_ORIGIN];
	uint64_t hash = (uintptr_t)fmt;
	bool is_same = false;

	if (!most)
		return false;
	sock_addr_origin(from, origin);
	for (size_t i = 0; i < SOCK_ORIGIN; i++)
		hash = (hash ^ origin[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	for (size_t i = WAYS; i-- > 0 && !is_same;) {
		place = &site->log_flood->places[((hash >> 32) + i) % PLACES];
		is_same = place->fmt == fmt &&
			  memcmp(place->origin, origin, sizeof(origin)) == 0;
		if (!place->fmt || now_us - place->since_us > MINUTE_US)
			unused = place;
	}
	if (!is_same && unused)
		place = unused;
	if (!place->fmt || now_us - place->since_us > MINUTE_US) {
		if (is_same && place->count > most)
			tell(site, from, fmt, "were left out", place->count - most);
		place->fmt = fmt;
		memcpy(place->origin, origin, sizeof(origin));
		place->since_us = now_us;
		place->count = 0;
	}
	if (++place->count == most + 1)
		tell(site, from, fmt, "in a minute, more are left out", most);
	return place->count > most;
}
