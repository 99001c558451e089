/*
 * What several sites of one process come to know is told once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "session/crew.h"

static void is_told_by_one(void **state)
{
	(void)state;
	struct crew *crew = crew_new(2);
	struct site first = {.crew = &crew->members[0]};
	struct site second = {.crew = &crew->members[1]};

	assert_true(crew_may_tell(&first, "zone", 2));
	assert_false(crew_may_tell(&second, "zone", 2));
	/* It is news again for whoever tells it. */
	assert_true(crew_may_tell(&first, "zone", 2));
	assert_true(crew_may_tell(&second, "zone", 3));
	assert_false(crew_may_tell(&first, "zone", 3));
	assert_true(crew_may_tell(&second, "another zone", 2));
	crew_free(&crew);
}

static void tells_all_when_alone(void **state)
{
	(void)state;
	struct site site = {.crew = NULL};

	assert_true(crew_may_tell(&site, "zone", 2));
	assert_true(crew_may_tell(&site, "zone", 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(is_told_by_one),
	    cmocka_unit_test(tells_all_when_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
