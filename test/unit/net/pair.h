/*
 * Two ends of one TLS connection in memory, and what carries bytes between them.
 */
#ifndef TEST_NET_PAIR_H
#define TEST_NET_PAIR_H

#include "base/buf.h"
#include "net/tls.h"

struct end {
	struct tls *tls;
	struct buf out;         /* bytes on their way to the other end */
	struct buf got;         /* decrypted */
	enum tls_status status; /* result of the last step */
	struct err err;
};

struct pair {
	struct end client, server;
	size_t piece; /* bytes that arrive at a time; 0: all */
};

/* Contexts with a certificate for "server.test" and 127.0.0.1 of "ca"; the
 * configuration overrides the usual values. */
struct tls_context *server_context(const struct tls_config *config);
struct tls_context *client_context(const struct tls_config *config);

/* The pair takes over the references to the contexts. */
void pair_init(struct pair *pair, struct tls_context *server,
    struct tls_context *client, const struct tls_peer_config *peer);
void pair_done(struct pair *pair);
/* Carry bytes until none are left. */
void pair_run(struct pair *pair);
/* Carries all bytes and fails unless both handshakes are complete. */
void pair_expect_done(struct pair *pair);
void pair_say(struct end *from, const void *p, size_t len);

/* The usual certificates: ca, server, client. */
int make_usual_certs(void **state);
int drop_certs(void **state);

#endif
