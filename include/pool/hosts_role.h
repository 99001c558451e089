/*
 * Which hosts are fit for target_session_attrs, judged by what is known of their
 * roles.  These functions change nothing.
 *
 * The role of a host is the one that its server reported last.  A host that has not
 * reported yet counts as fit; the next login shows its role.
 */
#ifndef POOL_HOSTS_ROLE_H
#define POOL_HOSTS_ROLE_H

#include "base/buf.h"
#include "pool/hosts.h"

/* Whether the database cares about roles. */
bool hosts_has_roles(const struct database *db);
/* Whether clients should wait although no host serves: there are other hosts, or the
 * role of this one may change. */
bool hosts_are_awaited(const struct database *db);
/* Whether standbys that are too far behind are not used. */
bool hosts_has_lag_limit(const struct database *db);
/* Whether the monitor of hosts looks after the database: it has several hosts, and a
 * host_hung_timeout or a limit of replication lag. */
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
/* Whether the host's pause is over or its role must be checked again. */
bool hosts_is_due(const struct pool *pool, const struct host *host, uint64_t now_us);
/* When a host that does not serve becomes due; UINT64_MAX: it serves, or is being
 * tried. */
uint64_t host_due_us(const struct pool *pool, const struct host *host);
/* When the first of the hosts that do not serve becomes due; UINT64_MAX: all serve. */
uint64_t hosts_due_us(const struct pool *pool);
/* When a host must be checked although no client needs it; UINT64_MAX: never. */
uint64_t hosts_look_us(const struct pool *pool);
/* Whether some host serves or is due. */
bool hosts_has_candidate(const struct pool *pool, uint64_t now_us);
/* Whether a login to the host now would only show whether it can be used. */
bool hosts_is_look(const struct pool *pool, const struct host *host, uint64_t now_us);

/* Whether the host is fit to be the target of a SWITCHOVER, for any pool.  With
 * target_session_attrs=any, which is no role, it must be a primary. */
bool hosts_is_successor(const struct database *db, const struct host *host);

/* For SHOW HOSTS.  State: "up", "down", "probing" or "unfit", and where the monitor of
 * hosts knows "refuses", "hangs" or "not tried".  Role: "primary",
 * "standby", "read-only" or NULL. */
const char *hosts_state_shown(const struct database *db, const struct host *host);
/* Why it is in that state, as the monitor of hosts says; NULL: it says nothing. */
const char *hosts_reason_shown(const struct database *db, const struct host *host);
const char *host_role_shown(const struct host *host);
/* Appends a text such as "a:5432 is standby, b:5432 is down (connect failed)". */
void hosts_describe(const struct hosts *hosts, struct buf *out);
/* Appends "a:5432", or "unix:5432" for the Unix socket in unix_socket_dir. */
void host_put_name(const struct host *host, struct buf *out);

#endif
