/*
 * Which parameters texts bring back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/reset.h"

#define BIT(name)   (UINT64_C(1) << VAR_##name)
#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

static void texts(void **state)
{
	struct vars_schema *schema = vars_schema_new("IntervalStyle");
	uint64_t interval = UINT64_C(1) << VAR_BUILTIN_COUNT;
	const struct {
		const char *text;
		uint64_t session, local;
		bool has_reset;
	} samples[] = {
	    {"", 0, 0, false},
	    {"select 1", 0, 0, false},
	    {"reset", 0, 0, true},
	    {"reset timezone", BIT(TIMEZONE), 0, true},
	    {"/* a */ ; RESET -- b\n \"TimeZone\";", BIT(TIMEZONE), 0, true},
	    {"reset time zone", BIT(TIMEZONE), 0, true},
	    {"reset work_mem", 0, 0, true},
	    {"reset all", UINT64_MAX, 0, true},
	    {"resets timezone", 0, 0, false},
	    {"set intervalstyle to default", interval, 0, false},
	    {"set intervalstyle=default", interval, 0, false},
	    {"set session intervalstyle = DEFAULT ;", interval, 0, false},
	    {"set local intervalstyle = DEFAULT ;", 0, interval, false},
	    {"set intervalstyle = 'default'", 0, 0, false},
	    {"set work_mem to default", 0, 0, false},
	    {"set time zone default", BIT(TIMEZONE), 0, false},
	    {"set local time zone local", 0, BIT(TIMEZONE), false},
	    {"set time zone 'UTC'", 0, 0, false},
	    {"set names", BIT(CLIENT_ENCODING), 0, false},
	    {"set names;", BIT(CLIENT_ENCODING), 0, false},
	    {"set names default", BIT(CLIENT_ENCODING), 0, false},
	    {"set names 'UTF8'", 0, 0, false},
	    {"set timezone = 'x'; set timezone to default", BIT(TIMEZONE), 0, false},
	    {"reset timezone; set timezone = 'x'", 0, 0, true},
	    {"reset all; set timezone = 'x'", ~BIT(TIMEZONE), 0, true},
	    {"set timezone to default; set local timezone to default", 0, BIT(TIMEZONE),
		false},
	    {"set", 0, 0, false},
	    {"set session", 0, 0, false},
	    {"set timezone", 0, 0, false},
	};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(samples); i++)
		for (size_t nul = 0; nul < 2; nul++) {
			struct reset_look look = reset_of_text(
			    samples[i].text, strlen(samples[i].text) + nul, schema);
			if (look.session != samples[i].session ||
			    look.local != samples[i].local ||
			    look.has_reset != samples[i].has_reset)
				fail_msg("%s", samples[i].text);
		}
	vars_schema_free(&schema);
}

static void several(void **state)
{
	struct reset_look one = {.session = 1, .has_reset = true};
	struct reset_look two = {.local = 2 + 4, .has_default = true};
	const struct reset_look other = {.set = 1 + 4};

	(void)state;
	assert_true(reset_is_any(&one) && reset_is_any(&two));
	assert_false(reset_is_any(&(struct reset_look){.has_reset = true}));
	reset_add(&two, &one);
	assert_true(two.session == 1 && two.local == 6);
	assert_true(two.has_reset && two.has_default);
	reset_add(&two, &other);
	assert_true(two.session == 0 && two.local == 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(texts),
	    cmocka_unit_test(several),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
