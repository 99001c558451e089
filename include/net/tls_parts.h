/*
 * What the files of this room share; nobody else includes it.
 */
#ifndef NET_TLS_PARTS_H
#define NET_TLS_PARTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/x509.h>

#include "net/tls.h"

struct tls_context {
	SSL_CTX *ssl;
	BIO_METHOD *pipe;
	atomic_uint refs;
	bool is_server;
};

/* The name by which PostgreSQL is chosen in ALPN, as it is sent: with its length. */
#define TLS_ALPN "\012postgresql"
enum { TLS_ALPN_SIZE = 11 };

/* The oldest entry of OpenSSL's queue of errors, which says most; the rest is dropped.
 */
const char *tls_last_error(char *out, size_t size);

/* The way bytes take between a connection and OpenSSL. */
struct tls_pipe {
	tls_put_fn *put;
	void *ctx;         /* put's */
	const uint8_t *in; /* borrowed: the peer's bytes OpenSSL has not taken yet */
	size_t in_len;
	bool has_no_memory; /* put said so */
};
BIO_METHOD *tls_pipe_method(void);
/* pipe must outlive it.  NULL: no memory. */
BIO *tls_pipe_new(const BIO_METHOD *method, struct tls_pipe *pipe);

bool tls_cert_is_named(const X509 *cert, const char *name);
char *tls_cert_name_at(const X509 *cert, size_t i);
int tls_cert_hash(const X509 *cert, uint8_t out[TLS_HASH_MAX], size_t *len);

#endif
