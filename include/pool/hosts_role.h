/*
 * Which hosts are fit for target_session_attrs, judged by what is known of their
 * roles.  These functions change nothing.
 *
 * The monitor of hosts tells.  What a server of a pool has reported since counts too.
 * Before the first verdict, a host that has not reported counts as fit.
 */
#ifndef POOL_HOSTS_ROLE_H
#define POOL_HOSTS_ROLE_H

#include "base/buf.h"
#include "pool/hosts.h"

/* Where the monitor looks after a database, what has failed is tried again after this
 * time, or sooner with a shorter server_login_retry: a login, or a host that refuses
 * while no other one serves. */
enum { HOSTS_RETRY_US = 1000000 };

/* Whether the database cares about roles. */
bool hosts_has_roles(const struct database *db);
/* Whether standbys that are too far behind are not used. */
bool hosts_has_lag_limit(const struct database *db);
/* Whether the monitor of hosts looks after the database: it has several hosts, or asks
 * for a role. */
bool hosts_are_watched(const struct database *db);
/* Whether the monitor has told about all of them, so that its verdicts count. */
bool hosts_are_judged(const struct database *db);
/* Whether the host has a suitable role, whether it is up or not. */
bool hosts_is_fit(const struct pool *pool, const struct host *host);
/* Whether the host is fit and up. */
bool hosts_may_serve(const struct pool *pool, const struct host *host);
bool hosts_has_server(const struct pool *pool);
/* Whether another host serves. */
bool hosts_has_other(const struct pool *pool, const struct host *host);
/* When a host that does not serve may be tried again; UINT64_MAX: it serves, or the
 * monitor tells. */
uint64_t host_due_us(const struct pool *pool, const struct host *host);
/* When the first of the hosts that do not serve may be tried again. */
uint64_t hosts_due_us(const struct pool *pool);
/* Since when another host serves: 0; when time alone brings one that does;
 * UINT64_MAX: an event has to. */
uint64_t hosts_other_due_us(const struct pool *pool, const struct host *host);
/* Whether some host serves or may be tried again. */
bool hosts_has_candidate(const struct pool *pool, uint64_t now_us);

/* Whether the host is fit to be the target of a SWITCHOVER, for any pool.  With
 * target_session_attrs=any, which is no role, it must be a primary.  A primary with an
 * older timeline is not. */
bool hosts_is_successor(const struct database *db, const struct host *host);

/* What views show of a host.  A database at rest, or that nobody has used yet, is told
 * nothing by the monitor of hosts: then *v has what another database was told about the
 * host. */
void hosts_show(
    const struct database *db, const struct host *host, struct host_verdict *v);
/* Appends a text such as "a:5432 is unfit (it is a standby), b:5432 is down (Connection
 * refused)". */
void hosts_describe(const struct database *db, struct buf *out);
/* Appends why a pool has no host: "no host of database "app" is read-write: ...". */
void hosts_describe_lack(const struct pool *pool, struct buf *out);
/* Appends "a:5432", or "unix:5432" for the Unix socket in unix_socket_dir. */
void host_put_name(const struct host *host, struct buf *out);

#endif
