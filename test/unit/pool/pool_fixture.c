/*
 * Stands in for everything around the pools, and records the events it gets.
 */
#include "pool_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

static void on_schedule(void *ctx, struct pool *pool)
{
	struct fixture *w = ctx;

	pool->is_scheduled = true;
	assert_true(w->schedule_count < WORLD_KICKS);
	w->scheduled[w->schedule_count++] = pool;
}

static void on_kill(void *ctx, struct pool *pool, const char *reason)
{
	struct fixture *w = ctx;

	assert_true(w->kill_count < 8);
	w->killed[w->kill_count++] = pool;
	snprintf(w->kill_reason, sizeof(w->kill_reason), "%s", reason);
}

static void forget_schedule(struct fixture *w, const struct pool *pool)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->schedule_count; i++) {
		if (w->scheduled[i] != pool)
			w->scheduled[kept++] = w->scheduled[i];
	}
	w->schedule_count = kept;
}

static void on_freed(void *ctx, struct pool *pool)
{
	struct fixture *w = ctx;

	w->freed++;
	forget_schedule(w, pool);
}

static const struct catalog_events events = {
    .schedule = on_schedule, .kill = on_kill, .freed = on_freed};

static void on_note(void *ctx, unsigned level, const char *text)
{
	(void)level;
	struct fixture *w = ctx;
	size_t len = strlen(w->notes);

	snprintf(w->notes + len, sizeof(w->notes) - len, "%s\n", text);
}

static struct config *config_of(const char *ini, const struct config *running)
{
	char path[] = "/tmp/pool-test-XXXXXX";
	struct err err = {.text = ""};
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, ini, strlen(ini)), strlen(ini));
	close(fd);
	struct config *config = config_load(path, running, NULL, NULL, NULL, &err);
	unlink(path);
	assert_string_equal(err.text, "");
	assert_non_null(config);
	return config;
}

void fixture_adopt(struct fixture *w, const char *ini, const char *userlist)
{
	struct config *config = config_of(ini, w->c->config);
	struct userlist *users = NULL;

	if (userlist)
		users = userlist_parse(
		    "users", userlist, strlen(userlist), NULL, NULL, NULL);
	w->notes[0] = '\0';
	catalog_adopt(w->c, config, users, on_note, w);
	userlist_unref(&users);
	config_unref(&config);
}

void fixture_set(struct fixture *w, const char *name, const char *value)
{
	struct config *config = config_with(w->c->config, name, value, NULL);

	assert_non_null(config);
	catalog_adopt(w->c, config, NULL, on_note, w);
	config_unref(&config);
}

void fixture_init(struct fixture *w, const char *ini)
{
	fixture_init_worker(w, ini, NULL, 0);
}

void fixture_init_worker(
    struct fixture *w, const char *ini, struct central *central, unsigned worker)
{
	*w = (struct fixture){.now = 100 * SECOND};
	mem_init(&w->mem);
	w->c = catalog_new(&w->mem);
	w->c->events = &events;
	w->c->events_ctx = w;
	if (central)
		catalog_share(w->c, central, worker);
	fixture_adopt(w, ini, NULL);
}

void fixture_done(struct fixture *w)
{
	catalog_free(&w->c);
	assert_null(w->c);
	assert_true(list_is_empty(&w->mem.slabs));
}

struct pool *fixture_pool(struct fixture *w, const char *database, const char *user)
{
	struct database *db = catalog_find_database(w->c, database);

	assert_non_null(db);
	return catalog_pool(db, catalog_user(w->c, user));
}

bool fixture_was_scheduled(struct fixture *w, const struct pool *pool)
{
	bool found = false;

	for (size_t i = 0; i < w->schedule_count; i++) {
		found = found || w->scheduled[i] == pool;
		w->scheduled[i]->is_scheduled = false;
	}
	w->schedule_count = 0;
	return found;
}

struct verdict fixture_next(
    struct fixture *w, struct pool *pool, enum verdict_kind kind)
{
	struct verdict v = pool_next(pool, w->now);

	assert_int_equal(v.kind, kind);
	return v;
}

struct verdict fixture_ask(
    struct fixture *w, struct pool_request *request, enum verdict_kind kind)
{
	request->last_us = request->query_us = w->now;
	struct verdict v = pool_ask(request, REQUEST_QUERY, w->now);

	assert_int_equal(v.kind, kind);
	assert_ptr_equal(v.request, request);
	return v;
}

struct verdict fixture_give(
    struct fixture *w, struct slot *slot, enum verdict_kind kind)
{
	struct verdict v = pool_give(slot, w->now);

	assert_int_equal(v.kind, kind);
	assert_ptr_equal(v.slot, slot);
	return v;
}

void fixture_join(struct pool *pool, struct pool_request *request)
{
	*request = (struct pool_request){.is_logged_in = true};
	pool_join(pool, request);
}

struct verdict fixture_dial(
    struct fixture *w, struct pool *pool, struct slot *slot, enum verdict_kind kind)
{
	fixture_next(w, pool, VERDICT_DIAL);
	*slot = (struct slot){.state = SLOT_NONE};
	pool_dialing(pool, slot, w->now);
	if (!pool_has_login_params(pool))
		pool_got_login_params(pool);
	struct verdict v = pool_logged_in(slot, w->now);
	assert_int_equal(v.kind, kind);
	return v;
}

void fixture_gone(struct fixture *w, struct slot *slot)
{
	struct pool *pool = slot->pool;

	pool_gone(slot, w->now);
	pool_free_if_unused(pool);
}
