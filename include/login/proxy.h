/*
 * Connections that a proxy carries (proxy_protocol_from): its header comes first and
 * says who the client is.
 */
#ifndef LOGIN_PROXY_H
#define LOGIN_PROXY_H

#include "session/client.h"

/* Does the setting list the address that this connection comes from? */
bool proxy_is_expected(const struct client *client);
/* The connection must begin with a header of the PROXY protocol: read it, take over the
 * client's address, then go on with the next phase.  A connection that begins with
 * anything else is closed. */
void proxy_expect(struct client *client, const struct conn_ops *next);

#endif
