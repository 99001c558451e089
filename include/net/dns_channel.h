/*
 * The connection to the name servers: watches the descriptors and timeouts of c-ares in
 * the loop.  Private to net/dns.
 */
#ifndef NET_DNS_CHANNEL_H
#define NET_DNS_CHANNEL_H

#include <stddef.h>

#include "base/err.h"
#include "base/list.h"
#include "net/loop.h"

struct ares_channeldata; /* the type of c-ares */

struct dns_channel {
	struct ares_channeldata *ares;
	struct list sockets; /* descriptors of c-ares */
	struct deadline timeout;
	/* queries without an answer yet; counted by those who send them */
	size_t pending_count;
	/* borrowed */
	struct loop *loop;
};

/* -1: the resolver cannot be started; dns_channel_done is then not needed. */
int dns_channel_init(struct dns_channel *channel, struct loop *loop,
    const char *resolv_conf, struct err *err);
/* Ends all queries with ARES_EDESTRUCTION. */
void dns_channel_done(struct dns_channel *channel);
/* Must be called after each query, because c-ares may need an earlier timeout. */
void dns_channel_follow(struct dns_channel *channel);

#endif
