#include "stage_sites.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "login/startup_phase.h"
#include "session/workers.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

enum { FAR_MORE = 100 };

static const struct workers_ops ops = {
    .admit = startup_phase_admit_new,
    .readmit = startup_phase_readmit,
};

void stage_sites_open(struct stage_sites *s, unsigned workers,
    const char *database_options, const char *settings)
{
	*s =
	    (struct stage_sites){.workers = workers_new(workers), .count = workers + 1};
	s->workers->ops = &ops;
	for (unsigned i = 0; i < s->count; i++)
		s->at[i] = stage_new_in(s->workers, i, database_options, settings);
	stage_sites_prefer(s, 0);
}

void stage_sites_close(struct stage_sites *s)
{
	for (unsigned i = 0; i < s->count; i++)
		s->stands_still[i] = false;
	stage_sites_turn(s);
	/* sockets of one may still be open at the ones behind it */
	for (unsigned i = s->count; i-- > 0;)
		stage_free(&s->at[i]);
	workers_free(&s->workers);
}

void stage_sites_prefer(struct stage_sites *s, unsigned worker)
{
	for (unsigned i = 0; i + 1 < s->count; i++)
		if (i != worker)
			atomic_store(&s->workers->members[i].client_count,
			    s->workers->members[worker].client_count + FAR_MORE);
}

void stage_sites_turn(struct stage_sites *s)
{
	for (int n = 0; n < 10; n++)
		for (unsigned i = 0; i < s->count; i++)
			if (!s->stands_still[i])
				stage_settle(s->at[i]);
}

const char *stage_sites_hear(struct stage_sites *s, struct peer *peer)
{
	time_t end = time(NULL) + STAGE_SITES_PATIENCE_S;

	while (peer_message(peer) == 0) {
		for (unsigned i = 0; i < s->count; i++)
			if (!s->stands_still[i])
				stage_turn(s->at[i]);
		assert_true(time(NULL) <= end);
	}
	stage_sites_turn(s);
	return peer_heard(peer);
}
