/*
 * TLS between a simulated peer and its connection, by OpenSSL.  What OpenSSL draws and
 * takes for the time comes from the simulation, so that a run repeats exactly.
 */
#ifndef TEST_SIM_SIM_TLS_H
#define TEST_SIM_SIM_TLS_H

#include <stdio.h>

#include "sim.h"

/* How a client begins. */
enum tls_way {
	TLS_WAY_NONE,
	TLS_WAY_PREFER, /* asks, and goes on in clear if it is refused */
	TLS_WAY_ASK,    /* asks, and leaves if it is refused */
	TLS_WAY_DIRECT, /* begins with the handshake */
};

/* To be called before anything else uses OpenSSL. */
void sim_tls_init(void);
/* Makes the certificate, and decides what this run has. */
void sim_tls_begin(void);
void sim_tls_put_settings(FILE *f);
/* The certificate's files have changed, though not what is in them. */
void sim_tls_touch(void (*set_time)(const char *file));
const char *sim_tls_database_options(void);

enum tls_way sim_tls_choose(uint64_t *rng);
/* A way in which the pooler lets everybody in. */
enum tls_way sim_tls_sure(void);
/* Whether the pooler lets nobody in by this way. */
bool sim_tls_is_refused(enum tls_way way);

/* The actor connects, and begins like this. */
void sim_tls_connect(struct actor *a, enum tls_way way);
/* A client has sent SSLRequest, which is taken already; false: it was refused. */
bool sim_tls_accept(struct actor *a, uint64_t *rng);
/* Whether these first bytes are those of a handshake; then it has begun. */
bool sim_tls_accept_direct(struct actor *a, const uint8_t *bytes, size_t len);

/* ---- for actors ---- */

void sim_tls_put(struct actor *a, const void *bytes, size_t len);
void sim_tls_take(struct actor *a, const void *bytes, size_t len);
bool sim_tls_has_failed(const struct actor *a);
void sim_tls_say_goodbye(struct actor *a);
void sim_tls_free(struct actor *a);

#endif
