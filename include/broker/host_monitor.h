/*
 * The monitor of hosts: one connection to each host of the databases that have several
 * hosts or ask for a role, while they have clients or servers.  It asks for role,
 * timeline and position, and tells all workers which hosts each database may use.
 * pool/host_watch.h and pool/host_group.h decide.  It lives at the control site.
 *
 * Its connections belong to no pool and count under no limit.  They log in as the user
 * of a pool of the database.
 */
#ifndef BROKER_HOST_MONITOR_H
#define BROKER_HOST_MONITOR_H

#include "session/site.h"

struct host;
struct host_report;

void host_monitor_init(struct site *site);
/* Closes its connections; they are gone some turns later. */
void host_monitor_end(struct site *site);
void host_monitor_done(struct site *site);
/* The configuration may have changed. */
void host_monitor_review(struct site *site);
/* A site wants to know how the hosts of its databases are, now, because of this one.
 * report: a pool has logged in there, and its server has reported this; NULL: neither.
 * Any site may call it. */
void host_monitor_hint(
    struct site *site, const struct host *host, const struct host_report *report);

#endif
