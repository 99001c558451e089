/*
 * The channel to the name servers: c-ares' descriptors and timeouts in the loop.
 * Private to net/dns.
 */
#ifndef NET_DNS_CHANNEL_H
#define NET_DNS_CHANNEL_H

#include <stddef.h>

#include "base/err.h"
#include "base/list.h"
#include "net/loop.h"

struct ares_channeldata; /* c-ares' own */

struct dns_channel {
	struct ares_channeldata *ares;
	struct list sockets; /* c-ares' descriptors */
	struct deadline timeout;
	size_t pending_count; /* questions that have no answer yet; kept by who asks */
	/* borrowed */
	struct loop *loop;
};

/* -1: the resolver cannot be started, and there is nothing to undo. */
int dns_channel_init(struct dns_channel *channel, struct loop *loop,
    const char *resolv_conf, struct err *err);
/* All questions end with ARES_EDESTRUCTION. */
void dns_channel_done(struct dns_channel *channel);
/* To be called after a question was asked: c-ares may want to be woken earlier. */
void dns_channel_follow(struct dns_channel *channel);

#endif
