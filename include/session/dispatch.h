/*
 * New connections go from the control site, which accepts them, to workers.
 */
#ifndef SESSION_DISPATCH_H
#define SESSION_DISPATCH_H

#include <stdbool.h>

#include "net/sock.h"

struct worker;
struct site;

/* To be called on each site's thread when it has its place among the workers, and
 * before it gives it up.  Nothing happens to a site without one. */
void dispatch_init(struct site *site);
void dispatch_done(struct site *site);

/* Sends a new connection to this worker (workers_pick), which owns the descriptor from
 * now on; or to another one, if this one does not take it.  workers_ops.admit gets it
 * there. Only the control thread may call it. */
void dispatch_send(
    struct worker *to, int fd, const struct sock_addr *remote, bool is_unix);

#endif
