/*
 * Connections that come through a proxy (proxy_protocol_from).  They begin with a
 * header in which the proxy names the client's address.
 */
#ifndef LOGIN_PROXY_H
#define LOGIN_PROXY_H

#include "session/client.h"

/* Does proxy_protocol_from list the address that this connection comes from? */
bool proxy_is_expected(const struct client *client);
/* Reads the header of the PROXY protocol, takes over the client's address from it, and
 * continues with the phase `next`.  Closes a connection that begins with anything else.
 */
void proxy_expect(struct client *client, const struct conn_ops *next);

#endif
