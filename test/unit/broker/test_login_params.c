/*
 * The login parameters of a pool at several sites: each change reaches all of them, and
 * none is lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "broker/login_params.h"

enum { SITES = 3 };

/* Sites with a shared_params each. */
struct hall {
	struct central *central;
	struct central_view views[SITES];
	struct central_pool *pool;
	struct vars_schema *schemas[SITES];
	struct shared_params shared_params[SITES];
};

static void hall_open_with(struct hall *h, unsigned workers)
{
	struct central_limit *limits[CONN_LIMIT_COUNT];

	*h = (struct hall){.central = central_new(workers)};
	for (unsigned i = 0; i < SITES; i++)
		h->views[i] = (struct central_view){.central = h->central, .worker = i};
	for (enum conn_limit kind = 0; kind < CONN_LIMIT_COUNT; kind++)
		limits[kind] = central_limit_hold(&h->views[0], kind, "x");
	h->pool = central_pool_hold(&h->views[0], "d", "u", limits);
	for (enum conn_limit kind = 0; kind < CONN_LIMIT_COUNT; kind++)
		central_limit_release(&h->views[0], &limits[kind]);
	for (size_t i = 0; i < SITES; i++) {
		h->schemas[i] = vars_schema_new("");
		shared_params_init(&h->shared_params[i], h->schemas[i]);
	}
}

static void hall_open(struct hall *h)
{
	hall_open_with(h, SITES);
}

static void hall_close(struct hall *h)
{
	for (size_t i = 0; i < SITES; i++) {
		shared_params_done(&h->shared_params[i]);
		vars_schema_free(&h->schemas[i]);
	}
	central_pool_release(&h->views[0], &h->pool);
	central_free(&h->central);
}

static struct shared_params_place place_of(struct hall *h, size_t site)
{
	return (struct shared_params_place){&h->views[site], h->pool};
}

/* The site carries out an order that forgets what was known before. */
static void forget(struct hall *h, size_t site)
{
	h->views[site].broadcast++;
	central_forget_login_params(&h->views[site], h->pool);
}

/* A server has logged in with these values; the site may have had none. */
static void log_in(struct hall *h, size_t site, const char *zone, const char *untracked)
{
	const struct shared_params_place place = place_of(h, site);
	struct vars vars;
	struct buf rest;

	vars_init(&vars, h->schemas[site]);
	buf_init(&rest, 0);
	assert_int_equal(vars_set(&vars, VAR_TIMEZONE, zone), 0);
	assert_int_equal(vars_set(&vars, VAR_DATESTYLE, "ISO, MDY"), 0);
	buf_put_text(&rest, untracked);
	assert_int_equal(
	    shared_params_replace(&h->shared_params[site], &place, &vars, &rest), 0);
	buf_done(&rest);
	vars_done(&vars);
}

static void set(struct hall *h, size_t site, size_t i, const char *value)
{
	const struct shared_params_place place = place_of(h, site);
	struct vars vars;

	vars_init(&vars, h->schemas[site]);
	assert_int_equal(vars_set(&vars, i, value), 0);
	assert_int_equal(
	    shared_params_set(&h->shared_params[site], &place, &vars, i), 0);
	vars_done(&vars);
}

static const char *value(struct hall *h, size_t site, size_t i)
{
	const struct shared_params_place place = place_of(h, site);
	shared_params_follow(&h->shared_params[site], &place);
	return vars_get(&h->shared_params[site].login_params.vars, i);
}

static const char *untracked(struct hall *h, size_t site)
{
	return buf_text(&h->shared_params[site].login_params.untracked);
}

static void change_at_one_site_reaches_all(void **state)
{
	(void)state;
	struct hall h;

	hall_open(&h);
	log_in(&h, 0, "UTC", "version 15");
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
	forget(&h, 0);
	assert_int_equal(central_login_params(h.pool), 0);
	/* what the others say is as old as what was forgotten */
	set(&h, 1, VAR_DATESTYLE, "German");
	assert_int_equal(central_login_params(h.pool), 0);
	log_in(&h, 0, "Asia/Tokyo", "");
	assert_string_equal(value(&h, 0, VAR_TIMEZONE), "Asia/Tokyo");
	assert_string_equal(value(&h, 0, VAR_DATESTYLE), "ISO, MDY");
	/* they follow: what was written after the order counts */
	set(&h, 0, VAR_DATESTYLE, "SQL");
	forget(&h, 1);
	assert_string_equal(value(&h, 1, VAR_DATESTYLE), "SQL");
	assert_string_equal(value(&h, 1, VAR_TIMEZONE), "Asia/Tokyo");
	hall_close(&h);
}

static void logins_like_the_last_change_nothing(void **state)
{
	(void)state;
	struct hall h;

	hall_open(&h);
	log_in(&h, 0, "UTC", "");
	unsigned number = central_login_params(h.pool);
	log_in(&h, 0, "UTC", "");
	log_in(&h, 1, "UTC", "");
	assert_int_equal(central_login_params(h.pool), number);
	log_in(&h, 1, "Asia/Tokyo", "");
	assert_int_not_equal(central_login_params(h.pool), number);
	hall_close(&h);
}

/* With one worker nobody reads a text, so none is kept. */
static void one_site_keeps_no_text(void **state)
{
	(void)state;
	struct hall h;

	hall_open_with(&h, 1);
	log_in(&h, 0, "UTC", "version 15");
	set(&h, 0, VAR_DATESTYLE, "German");
	assert_int_not_equal(central_login_params(h.pool), 0);
	assert_int_equal(h.pool->login_params.text.len, 0);
	assert_string_equal(value(&h, 0, VAR_TIMEZONE), "UTC");
	assert_string_equal(value(&h, 0, VAR_DATESTYLE), "German");
	assert_string_equal(untracked(&h, 0), "version 15");
	hall_close(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(change_at_one_site_reaches_all),
	    cmocka_unit_test(no_change_is_lost),
	    cmocka_unit_test(what_was_forgotten_does_not_come_back),
	    cmocka_unit_test(logins_like_the_last_change_nothing),
	    cmocka_unit_test(one_site_keeps_no_text),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
