/*
 * The broker of a pool with three hosts, without connections.
 */
#include "hosts_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "pool/scopes.h"

static void hint(void *ctx, const struct host *host, const struct host_report *report)
{
	struct hosts_fixture *t = ctx;

	(void)host;
	(void)report;
	t->is_hinted = true;
}

void hosts_fixture_init(struct hosts_fixture *t, const char *keys, const char *settings)
{
	char ini[512];

	memset(t, 0, sizeof(*t));
	snprintf(ini, sizeof(ini),
	    "[databases]\nd=host=a,b,c port=1,2,3 %s\n[pgbouncer]\n"
	    "pool_mode=transaction\nserver_check_query=\n%s",
	    keys, settings);
	fixture_init(&t->w, ini);
	t->pool = fixture_pool(&t->w, "d", "u");
	t->dead = t->standbys = t->read_only = t->read_only_for_users = "";
	t->events = *t->w.c->events;
	t->events.hint = hint;
	t->w.c->events = &t->events;
	for (size_t i = 0; i < 3; i++)
		host_watch_init(&t->watches[i], hosts_fixture_host(t, i)->name,
		    hosts_fixture_host(t, i)->port);
	host_group_init(&t->group);
}

static struct host_report report_of(const struct hosts_fixture *t, const char *host)
{
	return (struct host_report){
	    .role = strstr(t->standbys, host) ? HOST_STANDBY : HOST_PRIMARY,
	    .is_read_only = strstr(t->read_only, host) != NULL,
	    .is_kept_posted = !t->is_silent,
	    .timeline = t->timelines[host[0] - 'a'],
	};
}

void hosts_fixture_look(struct hosts_fixture *t)
{
	struct database *db = t->pool->database;
	struct host_group_rules rules = {
	    .target =
		(enum target_attrs)scope_target_session_attrs(scope_of_database(db))};
	struct host_watch *watches[3];
	struct host_verdict verdicts[3];
	struct host_change change;
	uint64_t wake_us = UINT64_MAX;

	t->is_hinted = false;
	for (size_t i = 0; i < 3; i++) {
		struct host_watch *w = watches[i] = &t->watches[i];
		struct host_report report = report_of(t, w->name);
		if (t->has_begun)
			continue;
		if (strstr(t->dead, w->name))
			host_watch_failed(w, WATCH_LOST, "connect failed", t->w.now);
		else
			host_watch_answered(w, &report, "", t->w.now);
	}
	host_group_adopt(&t->group, &rules, watches, 3);
	host_group_begin(&t->group, t->w.now);
	host_group_choose(&t->group, NULL);
	for (size_t i = 0; i < 3; i++)
		if (db->hosts.elected == hosts_fixture_host(t, i))
			host_group_choose(&t->group, watches[i]);
	host_group_decide(&t->group, t->w.now, &change, &wake_us);
	for (size_t i = 0; i < 3; i++)
		verdicts[i] = t->group.members[i].verdict;
	hosts_follow(db, verdicts, 3, t->w.now);
}

struct host *hosts_fixture_host(struct hosts_fixture *t, size_t i)
{
	return t->pool->database->hosts.list[i];
}

void hosts_fixture_close(struct hosts_fixture *t, struct slot *slot)
{
	t->closed++;
	pool_gone(slot, t->w.now);
	*slot = (struct slot){.state = SLOT_NONE};
}

void hosts_fixture_done(struct hosts_fixture *t)
{
	for (size_t i = 0; i < SLOTS; i++)
		pool_gone(&t->slots[i], t->w.now);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(hosts_fixture_host(t, i)->connections, 0);
		assert_int_equal(hosts_fixture_host(t, i)->resting, 0);
		assert_int_equal(hosts_fixture_host(t, i)->logins, 0);
	}
	for (size_t i = 0; i < 3; i++)
		host_watch_done(&t->watches[i]);
	host_group_done(&t->group);
	fixture_done(&t->w);
}

/* Begins the dial that the pool has asked for. */
struct slot *hosts_fixture_begin_dial(struct hosts_fixture *t, struct pool *pool)
{
	size_t i = 0;

	while (t->slots[i].pool)
		assert_true(++i < SLOTS);
	t->slots[i] = (struct slot){.state = SLOT_NONE};
	pool_dialing(pool, &t->slots[i], t->w.now);
	t->dials++;
	const char *name = t->slots[i].pool_host->host->name;
	if (strlen(t->dialed) + 1 < sizeof(t->dialed))
		strcat(t->dialed, name);
	return &t->slots[i];
}

/* Does what the owner of a login does: it tells the host's role, and fails if the role
 * is not the wanted one. */
static bool may_stay(struct hosts_fixture *t, struct slot *slot)
{
	const struct host *host = slot->pool_host->host;
	struct host_report report = report_of(t, host->name);

	report.is_read_only |= strstr(t->read_only_for_users, host->name) != NULL;
	if (!t->is_silent && (t->standbys[0] || t->read_only[0]))
		hosts_learn(slot, &report, t->w.now);
	return hosts_is_fit(slot->pool, host);
}

void hosts_fixture_end_dial(struct hosts_fixture *t, struct slot *slot)
{
	struct pool *pool = slot->pool;

	if (strstr(t->dead, slot->pool_host->host->name)) {
		pool_dial_failed(
		    slot, DIAL_NETWORK, "connect failed", "08P01", t->w.now);
		hosts_fixture_close(t, slot);
		return;
	}
	if (!may_stay(t, slot)) {
		pool_dial_failed(slot, DIAL_UNFIT, "unfit", "08P01", t->w.now);
		hosts_fixture_close(t, slot);
		return;
	}
	if (!pool_has_login_params(pool))
		pool_got_login_params(pool);
	if (pool_logged_in(slot, t->w.now).kind == VERDICT_RETIRE)
		hosts_fixture_close(t, slot);
}

static void carry_out(struct hosts_fixture *t, struct pool *pool)
{
	struct verdict v;

	while ((v = pool_next(pool, t->w.now)).kind != VERDICT_NONE) {
		if (v.kind == VERDICT_DIAL)
			hosts_fixture_end_dial(t, hosts_fixture_begin_dial(t, pool));
		if (v.kind == VERDICT_RETIRE)
			hosts_fixture_close(t, v.slot);
		t->refused += v.kind == VERDICT_REFUSE;
		assert_true(t->dials < DIALS_MAX);
	}
	fixture_was_scheduled(&t->w, pool);
}

/* Carries out all verdicts of a pool; the monitor looks when it is asked. */
void hosts_fixture_serve(struct hosts_fixture *t, struct pool *pool)
{
	carry_out(t, pool);
	for (int i = 0; t->is_hinted && !t->is_blind && i < 10; i++) {
		hosts_fixture_look(t);
		carry_out(t, pool);
	}
}

void hosts_fixture_ask(
    struct hosts_fixture *t, struct pool *pool, struct pool_request *request)
{
	fixture_join(pool, request);
	request->last_us = request->query_us = t->w.now;
	if (pool_ask(request, REQUEST_QUERY, t->w.now).kind == VERDICT_WAIT)
		hosts_fixture_serve(t, pool);
}

void hosts_fixture_give(struct hosts_fixture *t, struct pool_request *request)
{
	struct pool *pool = request->pool;
	struct slot *slot = request->slot;

	if (slot) {
		struct verdict v = pool_give(slot, t->w.now);
		if (v.kind == VERDICT_RESET)
			v = pool_tested(slot, t->w.now);
		if (v.kind == VERDICT_RETIRE)
			hosts_fixture_close(t, slot);
	}
	pool_part(request);
	hosts_fixture_serve(t, pool);
}
