/*
 * The parameters of a StartupMessage (protocol.md 3): which are kept, tracked, dropped
 * or refused.
 */
#ifndef LOGIN_STARTUP_H
#define LOGIN_STARTUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/scopes.h"
#include "session/client.h"

struct startup {
	char *user, *database; /* owned; never NULL after startup_read */
	char *sent_user;       /* owned: user before it was cut */
	uint32_t version;
	char **unsupported; /* owned: _pq_. names, for NegotiateProtocolVersion */
	size_t unsupported_count;
	/* owned: name and value of the first parameter that is not tracked, or NULL */
	char *untracked;
	bool is_option; /* it stood in options */
};

void startup_init(struct startup *s, uint32_t version);
void startup_done(struct startup *s);
/* Reads the StartupMessage; tracked parameters go to client->params.  -1: it is
 * refused, and the client has got an error. */
int startup_read(struct client *client, struct startup *s, const struct message *m);
/* Are parameters that are not tracked kept in this scope (NULL: in none), or are there
 * none?  -1: not, and the client has got an error. */
int startup_check_untracked(
    struct client *client, const struct startup *s, const struct scope *scope);
/* As if the packet had not been read: another site of the process reads it. */
void startup_forget(struct client *client);
/* The protocol version of the connection from now on. */
uint32_t startup_protocol(const struct startup *s);
/* Frees the names of options that are not supported, once the client has been told. */
void startup_forget_unsupported(struct startup *s);
/* Did the client ask for a protocol version or option that is not supported? */
bool startup_needs_negotiation(const struct startup *s);

#endif
