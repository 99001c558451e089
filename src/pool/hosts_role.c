#include "pool/hosts_role.h"

#include <string.h>

#include "base/time_us.h"
#include "pool/host_group.h"
#include "pool/pool.h"
#include "pool/scopes.h"

static enum target_attrs target_of(const struct database *db)
{
	return (enum target_attrs)scope_target_session_attrs(scope_of_database(db));
}

bool hosts_has_roles(const struct database *db)
{
	return target_of(db) != TARGET_ANY;
}

bool hosts_has_lag_limit(const struct database *db)
{
	struct scope scope = scope_of_database(db);

	return scope_max_replica_lag(scope) > 0 ||
	       scope_max_replica_lag_bytes(scope) > 0;
}

bool hosts_are_watched(const struct database *db)
{
	return !db->is_admin && (db->hosts.count > 1 || hosts_has_roles(db));
}

bool hosts_are_judged(const struct database *db)
{
	return db->hosts.is_judged && hosts_are_watched(db);
}

/* What the pool has at the host, or NULL. */
static const struct pool_host *pool_host_at(
    const struct pool *pool, const struct host *host)
{
	const struct pool_host *pool_host;

	list_for (pool_host, &pool->balance.pool_hosts, node) {
		if (pool_host->host == host)
			return pool_host;
	}
	return NULL;
}

/* ---- fit ---- */

static bool is_writable(const struct host_report *r)
{
	return r->role == HOST_PRIMARY && !r->is_read_only;
}

/* Whether another host is up and is, or may be, a standby. */
static bool has_other_standby(const struct hosts *hosts, const struct host *host)
{
	for (size_t i = 0; i < hosts->count; i++) {
		const struct host *h = hosts->list[i];
		if (h != host && !h->is_down && h->report.role != HOST_PRIMARY)
			return true;
	}
	return false;
}

/* Whether a host with this report has the role. */
static bool has_role(const struct database *db, const struct host *host,
    const struct host_report *report)
{
	if (report->role == HOST_ROLE_UNKNOWN)
		return true;
	switch (target_of(db)) {
	case TARGET_ANY:
		break;
	case TARGET_READ_WRITE:
		return is_writable(report);
	case TARGET_READ_ONLY:
		return !is_writable(report);
	case TARGET_PRIMARY:
		return report->role == HOST_PRIMARY;
	case TARGET_STANDBY:
		return report->role == HOST_STANDBY;
	case TARGET_PREFER_STANDBY:
		return report->role == HOST_STANDBY ||
		       !has_other_standby(&db->hosts, host);
	}
	return true;
}

/* Whether another host was elected and can be used, so that this one is not used. */
static bool is_passed_over(const struct database *db, const struct host *host)
{
	const struct host *elected = db->hosts.elected;

	return elected && elected != host && !elected->is_down &&
	       has_role(db, elected, &elected->report);
}

/* Whether the pool's own user may only read there, as its last server has told. */
static bool is_barred(const struct pool *pool, const struct pool_host *pool_host)
{
	const struct database *db = pool->database;

	return pool_host && pool_host->has_told && pool_host->is_read_only &&
	       target_of(db) == TARGET_READ_WRITE &&
	       db->catalog->seen_us < pool_host->told_until_us;
}

/* Whether the host has refused the pool's login a moment ago. */
static bool is_avoided(const struct pool *pool, const struct host *host)
{
	const struct pool_host *pool_host =
	    pool->balance.avoids_some ? pool_host_at(pool, host) : NULL;

	return pool_host &&
	       pool->database->catalog->seen_us < pool_host->avoided_until_us;
}

/* Whether the pool's last login there was refused. */
static bool has_refused(const struct pool *pool, const struct host *host)
{
	const struct pool_host *pool_host =
	    pool->balance.avoids_some ? pool_host_at(pool, host) : NULL;

	return pool_host && pool_host->refusal;
}

/* Whether the primary, which is in reserve, is not needed: there is a standby. */
static bool has_standby(const struct pool *pool,
    bool (*is_out)(const struct pool *pool, const struct host *host))
{
	const struct hosts *hosts = &pool->database->hosts;

	for (size_t i = 0; i < hosts->count; i++) {
		const struct host *h = hosts->list[i];
		if (h->verdict.is_fit && !h->is_down && !is_out(pool, h))
			return true;
	}
	return false;
}

/* The monitor of hosts has told about it.  The role that a server has reported since
 * counts too, until the next verdict. */
static bool is_fit_as_judged(
    const struct pool *pool, const struct host *host, const struct pool_host *pool_host)
{
	const struct database *db = pool->database;
	struct host_report report = host->verdict.value.report;

	if (host->report.role != HOST_ROLE_UNKNOWN)
		report.role = host->report.role;
	if (is_barred(pool, pool_host) || is_passed_over(db, host))
		return false;
	if (db->hosts.elected == host)
		return has_role(db, host, &report);
	/* servers at a primary in reserve stay until a standby lets the pool in */
	bool is_fit = host->verdict.is_fit ||
		      (host->verdict.is_spare && !has_standby(pool, has_refused));
	return is_fit &&
	       (target_of(db) == TARGET_PREFER_STANDBY || has_role(db, host, &report));
}

bool hosts_is_fit(const struct pool *pool, const struct host *host)
{
	const struct database *db = pool->database;
	const struct pool_host *pool_host;
	struct host_report own = host->report;

	if (hosts_are_judged(db))
		return is_fit_as_judged(pool, host, pool_host_at(pool, host));
	if (target_of(db) == TARGET_ANY && !db->hosts.elected)
		return true;
	pool_host = pool_host_at(pool, host);
	if (pool_host && pool_host->has_told)
		own.is_read_only = pool_host->is_read_only;
	return has_role(db, host, &own) && !is_passed_over(db, host);
}

bool hosts_may_serve(const struct pool *pool, const struct host *host)
{
	/* the monitor has yet to tell how the host is */
	bool is_untold = hosts_are_judged(pool->database) &&
			 host->verdict.value.state == HOST_NOT_TRIED &&
			 !host->verdict.may_be_tried;

	return !host->is_down && !is_untold && !host->slow_logins &&
	       hosts_is_fit(pool, host) && !is_avoided(pool, host) &&
	       !(host->verdict.is_spare && has_standby(pool, is_avoided));
}

bool hosts_has_server(const struct pool *pool)
{
	const struct hosts *hosts = &pool->database->hosts;

	for (size_t i = 0; i < hosts->count; i++) {
		if (hosts_may_serve(pool, hosts->list[i]))
			return true;
	}
	return false;
}

bool hosts_has_other(const struct pool *pool, const struct host *host)
{
	const struct hosts *hosts = &pool->database->hosts;

	for (size_t i = 0; i < hosts->count; i++) {
		if (hosts->list[i] != host && hosts_may_serve(pool, hosts->list[i]))
			return true;
	}
	return false;
}

/* Is it a primary, and is or was there one with a higher timeline?  What is written at
 * the older one would be lost. */
static bool is_older_primary(const struct database *db, const struct host *host)
{
	const struct host_report *r = &host->verdict.value.report;

	if (r->role != HOST_PRIMARY || !r->timeline)
		return false;
	for (size_t i = 0; i < db->hosts.count; i++) {
		const struct host_verdict *other = &db->hosts.list[i]->verdict;
		if (other->highest_timeline > r->timeline ||
		    (other->value.report.role == HOST_PRIMARY &&
			other->value.report.timeline > r->timeline))
			return true;
	}
	return false;
}

bool hosts_is_successor(const struct database *db, const struct host *host)
{
	const struct host_value *v = &host->verdict.value;

	if (!hosts_are_judged(db) || v->state != HOST_UP ||
	    v->report.role == HOST_ROLE_UNKNOWN || is_older_primary(db, host))
		return false;
	return target_of(db) == TARGET_ANY ? v->report.role == HOST_PRIMARY
					   : has_role(db, host, &v->report);
}

/* ---- when ---- */

uint64_t host_due_us(const struct pool *pool, const struct host *host)
{
	const struct pool_host *pool_host = pool_host_at(pool, host);

	if (host->is_down)
		return host->retry_us;
	if (is_avoided(pool, host))
		return pool_host->avoided_until_us;
	return is_barred(pool, pool_host) ? pool_host->told_until_us : UINT64_MAX;
}

uint64_t hosts_due_us(const struct pool *pool)
{
	const struct hosts *hosts = &pool->database->hosts;
	uint64_t first_us = UINT64_MAX;

	for (size_t i = 0; i < hosts->count; i++) {
		uint64_t at_us = host_due_us(pool, hosts->list[i]);
		first_us = at_us < first_us ? at_us : first_us;
	}
	return first_us;
}

uint64_t hosts_other_due_us(const struct pool *pool, const struct host *host)
{
	const struct hosts *hosts = &pool->database->hosts;
	uint64_t first_us = UINT64_MAX;

	if (hosts_has_other(pool, host))
		return 0;
	for (size_t i = 0; i < hosts->count; i++)
		if (hosts->list[i] != host && !hosts->list[i]->is_down)
			first_us =
			    time_earlier(first_us, host_due_us(pool, hosts->list[i]));
	return first_us;
}

bool hosts_has_candidate(const struct pool *pool, uint64_t now_us)
{
	return hosts_has_server(pool) || hosts_due_us(pool) <= now_us;
}

/* ---- shown ---- */

/* What another database, which the monitor tells now, was told about the host; or NULL.
 */
static const struct host_value *told_elsewhere(
    const struct database *db, const struct host *host)
{
	const struct database *other;

	list_for (other, &db->catalog->database_list, node) {
		bool is_told = !other->hosts.is_stale && hosts_are_judged(other);

		for (size_t i = 0; is_told && i < other->hosts.count; i++) {
			const struct host *h = other->hosts.list[i];
			if (h->port == host->port &&
			    strcmp(h->name ? h->name : "",
				host->name ? host->name : "") == 0)
				return &h->verdict.value;
		}
	}
	return NULL;
}

void hosts_show(
    const struct database *db, const struct host *host, struct host_verdict *v)
{
	bool is_judged = hosts_are_judged(db), is_known;
	const struct host_value *told = NULL;

	*v = host->verdict;
	if (!is_judged)
		v->is_fit = true;
	if (!is_judged && hosts_are_watched(db)) {
		*v =
		    (struct host_verdict){.value.report = host->report, .is_fit = true};
		v->value.state = !host->was_tried ? HOST_NOT_TRIED
				 : host->is_down  ? HOST_DOWN
						  : HOST_UP;
		snprintf(v->value.reason, sizeof(v->value.reason), "%s",
		    host->is_down ? host->last_error : "");
	} else if (!is_judged && v->value.report.role == HOST_ROLE_UNKNOWN)
		v->value.report = host->report;
	if (hosts_are_watched(db) ? db->hosts.is_stale || !is_judged
				  : v->value.state == HOST_NOT_TRIED)
		told = told_elsewhere(db, host);
	if (told) {
		/* whether it is fit is known if it says what it said then */
		is_known = told->state == HOST_UP &&
			   told->report.role == v->value.report.role &&
			   told->report.is_read_only == v->value.report.is_read_only &&
			   told->report.timeline == v->value.report.timeline;
		v->is_fit = !is_judged || !is_known || v->is_fit;
		v->value = *told;
	}
	if (v->value.state != HOST_UP && v->value.state != HOST_NOT_TRIED)
		v->value.report = (struct host_report){.role = HOST_ROLE_UNKNOWN};
}

void host_put_name(const struct host *host, struct buf *out)
{
	const char *name = host->name ? host->name : "unix";
	bool is_ipv6 = strchr(name, ':') != NULL;

	buf_printf(out, is_ipv6 ? "[%s]:%d" : "%s:%d", name, host->port);
}

static void describe(
    const struct database *db, const struct host *host, struct buf *out)
{
	struct host_verdict v;

	host_put_name(host, out);
	if (hosts_are_judged(db)) {
		host_group_describe(&host->verdict, out);
		return;
	}
	hosts_show(db, host, &v);
	host_group_describe(&v, out);
}

void hosts_describe(const struct database *db, struct buf *out)
{
	for (size_t i = 0; i < db->hosts.count; i++) {
		if (i > 0)
			buf_put_text(out, ", ");
		describe(db, db->hosts.list[i], out);
	}
}

/* What concerns the pool's user only. */
static void describe_share(
    const struct pool *pool, const struct pool_host *pool_host, struct buf *out)
{
	bool is_read_only = is_barred(pool, pool_host);

	if (!pool_host || (!is_read_only && !pool_host->refusal))
		return;
	buf_put_text(out, "; ");
	host_put_name(pool_host->host, out);
	buf_printf(out,
	    is_read_only ? " is read-only for user \"%s\"" : " refuses user \"%s\"",
	    pool->user->name);
	if (!is_read_only)
		buf_printf(out, " (%s)", pool_host->refusal);
}

void hosts_describe_lack(const struct pool *pool, struct buf *out)
{
	const struct database *db = pool->database;

	if (hosts_has_roles(db))
		buf_printf(out, "no host of database \"%s\" is %s: ", db->name,
		    setting_target_name((int)target_of(db)));
	else
		buf_printf(out, "no host of database \"%s\" serves: ", db->name);
	hosts_describe(db, out);
	for (size_t i = 0; i < db->hosts.count; i++)
		if (!db->hosts.list[i]->is_down)
			describe_share(
			    pool, pool_host_at(pool, db->hosts.list[i]), out);
}

const struct host *hosts_primary(const struct database *db)
{
	const struct hosts *hosts = &db->hosts;

	for (size_t i = 0; hosts_are_judged(db) && i < hosts->count; i++)
		if (hosts->list[i]->verdict.is_primary)
			return hosts->list[i];
	return NULL;
}
