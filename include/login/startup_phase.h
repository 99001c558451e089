/*
 * The startup phase of a client's connection (protocol.md 2): SSLRequest,
 * GSSENCRequest, CancelRequest, or TLS from the first byte, up to the StartupMessage.
 */
#ifndef LOGIN_STARTUP_PHASE_H
#define LOGIN_STARTUP_PHASE_H

#include <stdbool.h>
#include <stdint.h>

#include "session/client.h"
#include "session/site.h"

/* Begins with a connection that was accepted.  is_spare: on a reserved descriptor,
 * which only a console may keep. */
void startup_phase_begin(struct site *site, int fd, const struct sock_addr *remote,
    bool is_unix, bool is_spare);
/* Takes over a connection that another process has accepted.  bytes are what the peer
 * has sent so far: a cancel request whose key that process does not know. */
void startup_phase_admit(
    struct site *site, int fd, enum passed_from from, const uint8_t *bytes, size_t len);
/* workers_ops.admit and workers_ops.readmit: for connections from other sites of this
 * process. */
void startup_phase_admit_new(
    struct site *site, int fd, const struct sock_addr *remote, bool is_unix);
void startup_phase_readmit(struct client *client);

#endif
