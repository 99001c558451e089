/*
 * Counts the clients of all sites that have not proven who they are, in total and by
 * address, so that limits can be kept.  There is one table for a process, under a lock
 * of its own, which is held for microseconds.
 */
#ifndef SESSION_STRANGERS_H
#define SESSION_STRANGERS_H

#include "conf/settings.h"
#include "net/sock.h"

/* One for all workers (workers.h), or that of the only site. */
struct strangers;

struct strangers *strangers_new(void);
/* Nobody may be in it any more. */
void strangers_free(struct strangers **strangers);

enum strangers_verdict {
	STRANGERS_FIT,
	STRANGERS_OF_ADDRESS, /* more than max_login_clients_per_address */
	STRANGERS_OF_ALL,     /* more than max_login_clients */
};

/* Counts one more client from this address, also one that is too many.  Clients of unix
 * sockets have no address, and count in total only. */
enum strangers_verdict strangers_enter(struct strangers *strangers,
    const struct sock_addr *from, const struct settings *settings);
/* Whether more are counted than max_login_clients allows. */
bool strangers_are_too_many(
    const struct strangers *strangers, const struct settings *settings);
/* A client that was counted has proven who it is, or leaves. */
void strangers_leave(struct strangers *strangers, const struct sock_addr *from);

#endif
