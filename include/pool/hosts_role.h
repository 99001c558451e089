/*
 * Which hosts may be used for what target_session_attrs asks: judged by what is known
 * of their roles.  All here is asked, nothing changed.
 *
 * Of hosts the role is known that a server has told last.  One that has not told yet
 * counts as fit: the next login to it brings it out.
 */
#ifndef POOL_HOSTS_ROLE_H
#define POOL_HOSTS_ROLE_H

#include "base/buf.h"
#include "pool/hosts.h"

/* Are roles of any interest to the database? */
bool hosts_has_roles(const struct database *db);
/* Is there another host, or might the same one be another time?  Then clients wait
 * until one of them serves. */
bool hosts_are_awaited(const struct database *db);
/* Is the host one of those that are asked for, whether it is up or not? */
bool hosts_is_fit(const struct pool *pool, const struct host *host);
/* ... and up? */
bool hosts_may_serve(const struct pool *pool, const struct host *host);
bool hosts_has_server(const struct pool *pool);
/* Does one serve besides this one? */
bool hosts_has_other(const struct pool *pool, const struct host *host);
/* Its pause has ended, or its role is to be looked at again. */
bool hosts_is_due(const struct pool *pool, const struct host *host, uint64_t now_us);
/* When a host that does not serve is due; UINT64_MAX: it serves, or is being tried. */
uint64_t host_due_us(const struct pool *pool, const struct host *host);
/* When the next of the hosts that do not serve is due; UINT64_MAX: all serve. */
uint64_t hosts_due_us(const struct pool *pool);
/* When somebody has to look after a host though no client needs that now; UINT64_MAX:
 * never. */
uint64_t hosts_look_us(const struct pool *pool);
/* Does one serve, or is one due? */
bool hosts_has_candidate(const struct pool *pool, uint64_t now_us);
/* Would a login to the host now only show whether it can be used? */
bool hosts_is_look(const struct pool *pool, const struct host *host, uint64_t now_us);

/* Is the host fit whatever the pool?  For target_session_attrs=any, which is no role,
 * it is when it is a primary. */
bool hosts_is_successor(const struct database *db, const struct host *host);

/* For SHOW HOSTS: "up", "down", "probing" or "unfit"; "primary", "standby", "read-only"
 * or NULL. */
const char *hosts_state_shown(const struct database *db, const struct host *host);
const char *host_role_shown(const struct host *host);
/* Append "a:5432 is standby, b:5432 is down (connect failed)". */
void hosts_describe(const struct hosts *hosts, struct buf *out);
/* Append "a:5432"; a unix socket without a folder is "unix:5432". */
void host_put_name(const struct host *host, struct buf *out);

#endif
