#include "broker/host_monitor.h"

#include <stdio.h>
#include <string.h>

#include "broker/host_names.h"
#include "broker/host_survey.h"
#include "pool/hosts_role.h"
#include "pool/scopes.h"
#include "session/workers.h"

/* How often all sites are asked which databases are in use; and when again, if one
 * has not been told the addresses of its hosts. */
enum { SURVEY_US = 1000000, SHORTLY_US = 10000 };

/* A hint for the control site. */
struct hint {
	/* a pool has logged in there, and its server has reported this */
	struct host_report report;
	int port;
	bool has_name, has_report;
	char name[];
};

static void go_on(struct watched_host *w);

static uint64_t now_of(const struct host_monitor *m)
{
	return loop_now(m->site->loop);
}

static void host_name(const struct host_watch *watch, struct buf *out)
{
	const struct host host = {.name = watch->name, .port = watch->port};

	host_put_name(&host, out);
}

/* ---- the steps of a watch ---- */

static void tell_change(struct watched_host *w)
{
	const struct host_value *v = &w->watch.value;
	const struct host_verdict shown = {.value = *v, .is_fit = true};
	enum log_level level = v->state == HOST_UP ? LEVEL_LOG : LEVEL_WARNING;
	char now[sizeof(w->told)];
	struct buf name;

	snprintf(now, sizeof(now), "%s%s%s", host_group_state_shown(&shown),
	    *v->reason ? ": " : "", v->reason);
	if (v->state == HOST_NOT_TRIED || strcmp(now, w->told) == 0)
		return;
	/* that a host is up when it is tried first is no news */
	bool is_news = *w->told || v->state != HOST_UP;
	memcpy(w->told, now, sizeof(now));
	if (!is_news)
		return;
	buf_init(&name, 0);
	host_name(&w->watch, &name);
	log_put(w->site->log, (unsigned)level | KIND_SERVERS, NULL, "host %s: %s",
	    buf_text(&name), now);
	buf_done(&name);
}

/* The value of a host, as a broadcast to every site. */
struct lone_value {
	struct host_value value;
	int port;
	bool has_name;
	char name[];
};

static void follow_lone(struct site *site, const void *what)
{
	const struct lone_value *v = what;
	struct database *db;

	list_for (db, &site->catalog->database_list, node)
		hosts_note_lone(db, v->has_name ? v->name : NULL, v->port, &v->value);
}

/* What databases that have no other host show of it. */
static void tell_lone(struct watched_host *w)
{
	const char *name = w->watch.name ? w->watch.name : "";
	size_t size = sizeof(struct lone_value) + strlen(name) + 1;
	struct lone_value *v;

	if (!w->lone.is_seen || !w->lone.wants_value ||
	    w->watch.value.state == HOST_NOT_TRIED)
		return;
	w->lone.wants_value = false;
	v = mem_zero(size);
	v->value = w->watch.value;
	v->port = w->watch.port;
	v->has_name = w->watch.name != NULL;
	strcpy(v->name, name);
	workers_spread(w->site, follow_lone, v, size);
	mem_free(v);
}

static void arm(struct host_monitor *m, uint64_t at_us)
{
	if (at_us < m->wake.at_us)
		deadline_set(m->site->loop, &m->wake, at_us);
}

/* Does what the watch says, until there is nothing to do now. */
static void go_on(struct watched_host *w)
{
	struct host_monitor *m = w->monitor;
	uint64_t wake_us = UINT64_MAX;
	enum watch_step step;

	while ((step = host_watch_next(&w->watch, &w->policy, now_of(m), &wake_us)) !=
	       WATCH_NOTHING) {
		if (step == WATCH_CLOSE)
			host_connection_close(w);
		else if (step == WATCH_ASK)
			host_connection_ask(w);
		else
			host_connection_open(w);
	}
	arm(m, wake_us);
	if (host_watch_take_change(&w->watch)) {
		tell_change(w);
		w->is_noted = w->lone.wants_value = true;
	}
	tell_lone(w);
	if (w->is_noted)
		loop_later(m->site->loop, &m->decision);
}

/* ---- verdicts ---- */

/* Verdicts for a database, as a broadcast to every site. */
struct verdicts {
	size_t count, name_at; /* of the name, behind the verdicts */
	struct host_verdict list[];
};

static void follow(struct site *site, const void *what)
{
	const struct verdicts *v = what;
	const char *name = (const char *)v->list + v->name_at;
	struct database *db = catalog_find_database(site->catalog, name);

	if (db)
		hosts_follow(db, v->list, v->count, loop_now(site->loop));
}

static const char *service_shown(const struct host_group *g)
{
	return g->rules.target == TARGET_ANY
		   ? "served"
		   : setting_target_name((int)g->rules.target);
}

static void tell_service(const struct host_monitor *m, const struct watched_database *d,
    const struct host_change *change)
{
	const struct host_group *g = &d->group;
	struct buf places;

	if (change->is_split)
		log_put(m->site->log, LEVEL_WARNING | KIND_SERVERS, NULL,
		    "database \"%s\" has two primaries that are up; see SHOW HOSTS",
		    d->name);
	buf_init(&places, 0);
	for (size_t i = 0; i < g->count; i++) {
		const struct host_verdict *v = &g->members[i].verdict;
		if (host_group_serves(v) == change->is_lost)
			continue;
		if (places.len)
			buf_put_text(&places, ", ");
		host_name(g->members[i].watch, &places);
		if (change->is_lost)
			host_group_describe(v, &places);
	}
	if (change->is_lost)
		log_put(m->site->log, LEVEL_WARNING | KIND_SERVERS, NULL,
		    "no host of database \"%s\" is %s now: %s", d->name,
		    service_shown(g), buf_text(&places));
	if (change->is_back)
		log_put(m->site->log, LEVEL_LOG | KIND_SERVERS, NULL,
		    "database \"%s\" is %s at %s after %.3f s", d->name,
		    service_shown(g), buf_text(&places),
		    (double)change->lacked_us / 1e6);
	buf_done(&places);
}

/* The host that an administrator has chosen with SWITCHOVER. */
static struct host_watch *chosen_of(
    const struct host_monitor *m, const struct watched_database *d)
{
	struct database *db = catalog_find_database(m->site->catalog, d->name);
	const struct host *host = db ? db->hosts.elected : NULL;

	for (size_t i = 0; host && i < d->group.count; i++) {
		struct host_watch *w = d->group.members[i].watch;
		bool is_same = host->name && w->name ? strcmp(host->name, w->name) == 0
						     : host->name == w->name;
		if (is_same && host->port == w->port)
			return w;
	}
	return NULL;
}

/* A host that the entry of a database has no more, as a broadcast to every site. */
struct loss {
	size_t name_at; /* of the host, behind the database's; 0: the Unix socket */
	int port;
	char names[];
};

static void lose(struct site *site, const void *what)
{
	const struct loss *loss = what;
	struct database *db = catalog_find_database(site->catalog, loss->names);

	if (db)
		hosts_lose(
		    db, loss->name_at ? loss->names + loss->name_at : NULL, loss->port);
}

/* Nobody but the monitor knows that servers which are still there wait in vain. */
static void tell_losses(const struct host_monitor *m, const struct watched_database *d)
{
	for (size_t i = d->group.count; i < d->host_count; i++) {
		const struct host_watch *w = &d->hosts[i]->watch;
		const char *name = w->name ? w->name : "";
		size_t at = strlen(d->name) + 1;
		size_t size = sizeof(struct loss) + at + strlen(name) + 1;
		struct loss *loss;

		if (w->value.state != HOST_HANGS)
			continue;
		loss = mem_zero(size);
		loss->name_at = w->name ? at : 0;
		loss->port = w->port;
		strcpy(loss->names, d->name);
		strcpy(loss->names + at, name);
		workers_broadcast(m->site, lose, loss, size);
		mem_free(loss);
	}
}

static void decide(struct host_monitor *m, struct watched_database *d)
{
	struct host_group *g = &d->group;
	struct host_change change;
	bool is_asked = false;

	for (size_t i = 0; i < g->count; i++) {
		if (!d->hosts[i]->is_noted)
			continue;
		host_group_note(g, g->members[i].watch);
		is_asked = d->is_hinted;
	}
	host_group_choose(g, chosen_of(m, d));
	d->wake_us = UINT64_MAX;
	host_group_decide(g, now_of(m), &change, &d->wake_us);
	arm(m, d->wake_us);
	tell_service(m, d, &change);
	tell_losses(m, d);
	if (is_asked)
		d->is_hinted = false;
	if (change.is_any || is_asked || d->wants_verdicts) {
		size_t list_size = d->group.count * sizeof(struct host_verdict);
		size_t size = sizeof(struct verdicts) + list_size + strlen(d->name) + 1;
		struct verdicts *v = mem_zero(size);
		v->count = d->group.count;
		v->name_at = list_size;
		for (size_t i = 0; i < v->count; i++)
			v->list[i] = d->group.members[i].verdict;
		strcpy((char *)v->list + list_size, d->name);
		d->wants_verdicts = false;
		/* one that no longer fits is noticed where it arrives */
		workers_spread(m->site, follow, v, size);
		mem_free(v);
	}
}

static void set_policies(struct host_monitor *m)
{
	struct watched_database *d;
	struct watched_host *w;

	list_for (w, &m->hosts, node)
		w->policy = (struct host_policy){.is_wanted = false};
	list_for (d, &m->databases, node) {
		struct database *db = catalog_find_database(m->site->catalog, d->name);
		if (!d->is_wanted || !db)
			continue;
		struct scope scope = scope_of_database(db);
		uint64_t period_us = scope_role_check_period(scope);
		uint64_t hung_us =
		    d->host_count > 1 ? scope_host_hung_timeout(scope) : 0;
		for (size_t i = 0; i < d->host_count; i++) {
			struct host_policy *p = &d->hosts[i]->policy;
			if (period_us && (!p->period_us || !p->is_wanted ||
					     period_us < p->period_us))
				p->period_us = period_us;
			if (hung_us && (!p->hung_us || hung_us < p->hung_us))
				p->hung_us = hung_us;
			p->is_urgent |= !d->group.serves || d->is_busy;
			p->is_wanted = true;
		}
	}
	list_for (w, &m->hosts, node)
		if (!w->policy.is_wanted && host_survey_is_lone(w))
			w->policy = (struct host_policy){.period_us = w->lone.period_us,
			    .hung_us = w->lone.hung_us,
			    .is_urgent = w->lone.is_busy,
			    .is_wanted = true,
			    .is_lone = true};
}

static void decide_all(struct later *l)
{
	struct host_monitor *m = container_of(l, struct host_monitor, decision);
	struct watched_database *d;
	struct watched_host *w;

	list_for (d, &m->databases, node) {
		if (d->is_wanted)
			decide(m, d);
	}
	list_for (w, &m->hosts, node)
		w->is_noted = false;
	set_policies(m);
	list_for (w, &m->hosts, node)
		go_on(w);
}

static void wake(struct deadline *due)
{
	struct host_monitor *m = container_of(due, struct host_monitor, wake);
	struct watched_host *w;

	list_for (w, &m->hosts, node)
		go_on(w);
	loop_later(m->site->loop, &m->decision);
}

/* ---- the survey ---- */

static void rest(struct site *site, const void *name)
{
	struct database *db = catalog_find_database(site->catalog, name);

	if (db)
		hosts_rest(db);
}

static void survey(struct deadline *due)
{
	struct host_monitor *m = container_of(due, struct host_monitor, survey_due);
	struct watched_database *d;
	struct watched_host *w;
	bool is_short = false;

	host_names_spread(m);
	host_survey_run(m);
	host_names_look(m);
	set_policies(m);
	list_for (d, &m->databases, node) {
		if (d->is_wanted || !d->was_wanted)
			continue;
		host_group_rest(&d->group);
		workers_spread(m->site, rest, d->name, strlen(d->name) + 1);
	}
	/* those that nobody needs are closed */
	list_for (w, &m->hosts, node)
		if (!w->policy.is_wanted && w->database)
			go_on(w);
	host_survey_tidy(m);
	loop_later(m->site->loop, &m->decision);
	list_for (d, &m->databases, node)
		is_short |= d->wants_addresses;
	deadline_set(m->site->loop, &m->survey_due,
	    now_of(m) + (is_short ? SHORTLY_US : SURVEY_US));
}

/* ---- from outside ---- */

void host_monitor_review(struct site *site)
{
	struct host_monitor *m = site->host_monitor;

	if (m && !m->is_over)
		deadline_set(site->loop, &m->survey_due, loop_now(site->loop));
}

/* A host that has changed is rarely the only one of its cluster that has. */
static void hint_neighbours(struct host_monitor *m, const struct watched_host *host)
{
	struct watched_database *d;

	list_for (d, &m->databases, node) {
		if (!host_survey_has(d, host))
			continue;
		d->is_hinted = true;
		for (size_t i = 0; i < d->group.count; i++)
			host_watch_hint(&d->hosts[i]->watch);
	}
}

static void take_hint(struct site *site, const void *what)
{
	struct host_monitor *m = site->host_monitor;
	const struct hint *hint = what;
	struct watched_host *w;

	if (!m || m->is_over)
		return;
	w = host_survey_find(m, hint->has_name ? hint->name : NULL, hint->port);
	if (w && w->policy.is_lone) {
		host_watch_hint(&w->watch);
		go_on(w);
		return;
	}
	if (w)
		hint_neighbours(m, w);
	if (w && hint->has_report) {
		host_watch_heard(&w->watch, &hint->report, now_of(m));
		w->is_noted = true;
	}
	deadline_set(m->site->loop, &m->survey_due, now_of(m));
}

void host_monitor_hint(
    struct site *site, const struct host *host, const struct host_report *report)
{
	const char *name = host->name ? host->name : "";
	size_t size = sizeof(struct hint) + strlen(name) + 1;
	struct hint *hint = mem_zero(size);

	strcpy(hint->name, name);
	hint->has_name = host->name != NULL;
	hint->port = host->port;
	hint->has_report = report != NULL;
	if (report)
		hint->report = *report;
	if (workers_is_control(site))
		take_hint(site, hint);
	else
		workers_send(
		    workers_control(site->worker->workers), take_hint, hint, size);
	mem_free(hint);
}

void host_monitor_init(struct site *site)
{
	struct host_monitor *m;

	if (!workers_is_control(site))
		return;
	m = mem_zero(sizeof(*m));
	m->site = site;
	list_init(&m->hosts);
	m->by_key = map_new();
	list_init(&m->databases);
	list_init(&m->names);
	deadline_init(&m->survey_due, survey);
	deadline_init(&m->wake, wake);
	m->decision.run = decide_all;
	m->go_on = go_on;
	site->host_monitor = m;
	site->watched_hosts = &m->hosts;
	deadline_set(site->loop, &m->survey_due, loop_now(site->loop));
}

void host_monitor_end(struct site *site)
{
	struct host_monitor *m = site->host_monitor;

	if (!m)
		return;
	m->is_over = true;
	deadline_clear(site->loop, &m->survey_due);
	deadline_clear(site->loop, &m->wake);
	later_cancel(site->loop, &m->decision);
	host_names_free(m);
	host_survey_free(m);
}

void host_monitor_done(struct site *site)
{
	mem_free(site->host_monitor);
	site->host_monitor = NULL;
}
