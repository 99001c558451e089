/*
 * Several stages as the sites of one process: workers 0 to count - 1 and the control
 * site behind them.  All loops run on this thread, so each site can stand still.
 */
#ifndef TEST_UNIT_STAGE_STAGE_SITES_H
#define TEST_UNIT_STAGE_STAGE_SITES_H

#include <time.h>

#include "stage.h"

enum { STAGE_SITES_MOST = 3, STAGE_SITES_PATIENCE_S = 60 };

struct stage_sites {
	struct workers *workers;
	unsigned count; /* of all sites */
	struct stage *at[STAGE_SITES_MOST];
	bool stands_still[STAGE_SITES_MOST];
};

/* Each stage has these options and settings. */
void stage_sites_open(struct stage_sites *s, unsigned workers,
    const char *database_options, const char *settings);
void stage_sites_close(struct stage_sites *s);
/* New clients go to this worker. */
void stage_sites_prefer(struct stage_sites *s, unsigned worker);
/* Turns the loops until nothing moves. */
void stage_sites_turn(struct stage_sites *s);
/* Turns the loops until this is so. */
#define stage_sites_await(s, condition)                                       \
	for (time_t end_ = time(NULL) + STAGE_SITES_PATIENCE_S; !(condition); \
	     stage_sites_turn(s))                                             \
	assert_true(time(NULL) <= end_)
/* Waits for a message, and returns all that came. */
const char *stage_sites_hear(struct stage_sites *s, struct peer *peer);

/* A test of a program that has scene_open, which gets the settings, and scene_close. */
#define SCENE(test, settings)                                            \
	{                                                                \
#		test, test, scene_open, scene_close, (void *)(settings) \
	}

#endif
