#include "session/memory_limit.h"

#include <stdatomic.h>
#include <stdlib.h>
#if defined(__GLIBC__)
#	include <malloc.h>
#endif

#include "base/mem.h"

enum {
	LOOK_US = 5000,
	TRIM_US = 1000000,
	/* it ends when the process uses this many percent of the limit */
	ENOUGH_PERCENT = 95,
	MEGABYTE = 1024 * 1024,
};

struct memory_limit {
	atomic_ullong looked_us, trimmed_us;
	atomic_ullong resident, refused, told;
	atomic_bool is_reached;
};

struct memory_limit *memory_limit_new(void)
{
	return mem_zero(sizeof(struct memory_limit));
}

void memory_limit_free(struct memory_limit **m)
{
	mem_free(*m);
	*m = NULL;
}

/* Has this time passed since it was done last?  True for one of those who ask at once.
 */
static bool is_due(atomic_ullong *last_us, uint64_t now_us, uint64_t after_us)
{
	unsigned long long last = atomic_load(last_us);

	/* clocks of threads differ a little */
	return (!last || now_us > last + after_us) &&
	       atomic_compare_exchange_strong(last_us, &last, now_us);
}

bool memory_limit_check(const struct site *site)
{
	struct memory_limit *m = site->memory_limit;
	uint64_t limit = site_settings(site)->memory_limit,
		 now_us = loop_now(site->loop);
	uint64_t virtual, resident = 0, enough = limit / 100 * ENOUGH_PERCENT;

	/* nothing is asked of the kernel where there is no limit */
	if (limit && !is_due(&m->looked_us, now_us, LOOK_US))
		return atomic_load(&m->is_reached);
	if (limit)
		mem_of_process(&virtual, &resident);
#if defined(__GLIBC__)
	/* what was freed within the heap is given back only when it is asked for */
	if (resident > enough && is_due(&m->trimmed_us, now_us, TRIM_US)) {
		malloc_trim(0);
		mem_of_process(&virtual, &resident);
	}
#endif
	if (limit)
		atomic_store(&m->resident, resident);
	if (resident > limit && !atomic_exchange(&m->is_reached, true)) {
		atomic_store(&m->told, atomic_load(&m->refused));
		log_warning(site->log,
		    "memory_limit is reached: the process uses %llu MB, and takes no "
		    "new clients and long queries until it uses less",
		    (unsigned long long)resident / MEGABYTE);
	} else if (resident <= enough && atomic_load(&m->is_reached) &&
		   atomic_exchange(&m->is_reached, false)) {
		log_info(site->log,
		    "memory_limit is not reached any more: %llu clients and queries "
		    "were refused",
		    (unsigned long long)(atomic_load(&m->refused) -
					 atomic_load(&m->told)));
	}
	return atomic_load(&m->is_reached);
}

bool memory_limit_refuses(const struct site *site)
{
	if (!memory_limit_check(site))
		return false;
	atomic_fetch_add(&site->memory_limit->refused, 1);
	return true;
}

uint64_t memory_limit_resident(const struct site *site)
{
	return atomic_load(&site->memory_limit->resident);
}

uint64_t memory_limit_refused(const struct site *site)
{
	return atomic_load(&site->memory_limit->refused);
}
