/*
 * Two ends of one TLS connection in memory, and what carries bytes between them.
 */
#ifndef TEST_NET_PAIR_H
#define TEST_NET_PAIR_H

#include "base/buf.h"
#include "net/tls.h"

struct end {
	struct tls *tls;
	struct buf out;         /* on its way to the other end */
	struct buf got;         /* decrypted */
	enum tls_status status; /* of the last step */
	struct err err;
};

struct pair {
	struct end client, server;
	size_t piece; /* bytes that arrive at once; 0: all */
};

/* Ends with a certificate for "server.test" and 127.0.0.1 of "ca"; what is set in the
 * two configurations counts, else what is usual. */
struct tls_context *server_context(const struct tls_config *config);
struct tls_context *client_context(const struct tls_config *config);

/* Takes the references. */
void pair_init(struct pair *pair, struct tls_context *server,
    struct tls_context *client, const struct tls_peer_config *peer);
void pair_done(struct pair *pair);
/* Carry bytes until none are left. */
void pair_run(struct pair *pair);
/* All three, and what came of it; the pair stays. */
void pair_expect_done(struct pair *pair);
void pair_say(struct end *from, const void *p, size_t len);

/* The usual certificates: ca, server, client. */
int make_usual_certs(void **state);
int drop_certs(void **state);

#endif
