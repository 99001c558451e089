/*
 * The welcome of a pool at several sites: each change reaches all of them, and none is
 * lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "broker/greeting.h"

enum { SITES = 3 };

/* Sites with a greeting each. */
struct hall {
	struct tallies *tallies;
	struct tally *tally;
	struct vars_schema *schemas[SITES];
	struct greeting greetings[SITES];
	unsigned orders[SITES];
};

static void hall_open(struct hall *h)
{
	*h = (struct hall){.tallies = tallies_new(SITES)};
	h->tally = tally_hold(h->tallies, TALLY_POOL, "d", "u");
	for (size_t i = 0; i < SITES; i++) {
		h->schemas[i] = vars_schema_new("");
		greeting_init(&h->greetings[i], h->schemas[i]);
	}
}

static void hall_close(struct hall *h)
{
	for (size_t i = 0; i < SITES; i++) {
		greeting_done(&h->greetings[i]);
		vars_schema_free(&h->schemas[i]);
	}
	tally_release(h->tallies, &h->tally);
	tallies_free(&h->tallies);
}

static struct greeting_place place_of(const struct hall *h, size_t site)
{
	return (struct greeting_place){h->tallies, h->tally, h->orders[site]};
}

static void begin(struct hall *h, size_t site)
{
	const struct greeting_place place = place_of(h, site);
	greeting_begin(&h->greetings[site], &place);
}

/* A server has logged in with these values; the site may have had none. */
static void log_in(struct hall *h, size_t site, const char *zone, const char *untracked)
{
	const struct greeting_place place = place_of(h, site);
	struct vars vars;
	struct buf rest;

	vars_init(&vars, h->schemas[site]);
	buf_init(&rest, 0);
	assert_int_equal(vars_set(&vars, VAR_TIMEZONE, zone), 0);
	assert_int_equal(vars_set(&vars, VAR_DATESTYLE, "ISO, MDY"), 0);
	buf_put_text(&rest, untracked);
	assert_int_equal(
	    greeting_replace(&h->greetings[site], &place, &vars, &rest), 0);
	buf_done(&rest);
	vars_done(&vars);
}

static void set(struct hall *h, size_t site, size_t i, const char *value)
{
	const struct greeting_place place = place_of(h, site);
	struct vars vars;

	vars_init(&vars, h->schemas[site]);
	assert_int_equal(vars_set(&vars, i, value), 0);
	assert_int_equal(greeting_set(&h->greetings[site], &place, &vars, i), 0);
	vars_done(&vars);
}

static const char *value(struct hall *h, size_t site, size_t i)
{
	const struct greeting_place place = place_of(h, site);
	greeting_follow(&h->greetings[site], &place);
	return vars_get(&h->greetings[site].welcome.vars, i);
}

static const char *untracked(struct hall *h, size_t site)
{
	return buf_text(&h->greetings[site].welcome.untracked);
}

static void change_at_one_site_reaches_all(void **state)
{
	(void)state;
	struct hall h;

	hall_open(&h);
	log_in(&h, 0, "UTC", "version 15");
	for (size_t i = 1; i < SITES; i++)
		begin(&h, i);
	set(&h, 1, VAR_TIMEZONE, "Asia/Tokyo");
	for (size_t i = 0; i < SITES; i++) {
		assert_string_equal(value(&h, i, VAR_TIMEZONE), "Asia/Tokyo");
		assert_string_equal(value(&h, i, VAR_DATESTYLE), "ISO, MDY");
		assert_null(value(&h, i, VAR_APPLICATION_NAME));
		assert_string_equal(untracked(&h, i), "version 15");
	}
	log_in(&h, 2, "UTC", "version 16");
	for (size_t i = 0; i < SITES; i++) {
		assert_string_equal(value(&h, i, VAR_TIMEZONE), "UTC");
		assert_string_equal(untracked(&h, i), "version 16");
	}
	hall_close(&h);
}

/* Two sites change different parameters, and neither has seen the other's change. */
static void no_change_is_lost(void **state)
{
	(void)state;
	struct hall h;

	hall_open(&h);
	log_in(&h, 0, "UTC", "");
	log_in(&h, 1, "UTC", "");
	set(&h, 0, VAR_TIMEZONE, "Asia/Tokyo");
	set(&h, 1, VAR_DATESTYLE, "German");
	for (size_t i = 0; i < SITES; i++) {
		assert_string_equal(value(&h, i, VAR_TIMEZONE), "Asia/Tokyo");
		assert_string_equal(value(&h, i, VAR_DATESTYLE), "German");
	}
	hall_close(&h);
}

/* The first site has carried out a RECONNECT that the others have not. */
static void what_was_forgotten_does_not_come_back(void **state)
{
	(void)state;
	struct hall h;

	hall_open(&h);
	log_in(&h, 0, "UTC", "");
	log_in(&h, 1, "UTC", "");
	h.orders[0] = 1;
	begin(&h, 0);
	log_in(&h, 0, "Asia/Tokyo", "");
	set(&h, 1, VAR_DATESTYLE, "German");
	assert_string_equal(value(&h, 0, VAR_TIMEZONE), "Asia/Tokyo");
	assert_string_equal(value(&h, 0, VAR_DATESTYLE), "ISO, MDY");
	/* another order, which forgets nothing: what was written before it counts */
	set(&h, 0, VAR_DATESTYLE, "SQL");
	h.orders[0] = h.orders[1] = 2;
	assert_string_equal(value(&h, 1, VAR_DATESTYLE), "SQL");
	hall_close(&h);
}

static void logins_like_the_last_change_nothing(void **state)
{
	(void)state;
	struct hall h;

	hall_open(&h);
	log_in(&h, 0, "UTC", "");
	unsigned number = tally_text_number(h.tally);
	log_in(&h, 0, "UTC", "");
	log_in(&h, 1, "UTC", "");
	assert_int_equal(tally_text_number(h.tally), number);
	log_in(&h, 1, "Asia/Tokyo", "");
	assert_int_not_equal(tally_text_number(h.tally), number);
	hall_close(&h);
}

/* With one worker there is no place. */
static void one_site_shares_nothing(void **state)
{
	(void)state;
	const struct greeting_place nowhere = {0};
	struct hall h;

	hall_open(&h);
	struct vars vars;
	vars_init(&vars, h.schemas[0]);
	assert_int_equal(vars_set(&vars, VAR_TIMEZONE, "UTC"), 0);
	assert_int_equal(
	    greeting_set(&h.greetings[0], &nowhere, &vars, VAR_TIMEZONE), 0);
	vars_done(&vars);
	greeting_follow(&h.greetings[0], &nowhere);
	assert_string_equal(
	    vars_get(&h.greetings[0].welcome.vars, VAR_TIMEZONE), "UTC");
	assert_int_equal(tally_text_number(h.tally), 0);
	hall_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(change_at_one_site_reaches_all),
	    cmocka_unit_test(no_change_is_lost),
	    cmocka_unit_test(what_was_forgotten_does_not_come_back),
	    cmocka_unit_test(logins_like_the_last_change_nothing),
	    cmocka_unit_test(one_site_shares_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
