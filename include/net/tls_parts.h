/*
 * Private to net/tls.
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

/* The protocol name of PostgreSQL in ALPN, as it is sent: with its length in front. */
#define TLS_ALPN "\012postgresql"
enum { TLS_ALPN_SIZE = 11 };

/* Prints the oldest entry of OpenSSL's queue of errors, which is the most specific, and
 * clears the queue. */
const char *tls_last_error(char *out, size_t size);

/* Moves bytes between a connection and OpenSSL. */
struct tls_pipe {
	tls_put_fn *put;
	void *ctx; /* argument of put */
	/* borrowed: bytes of the peer that OpenSSL has not taken yet */
	const uint8_t *in;
	size_t in_len;
	bool has_no_memory; /* put has failed */
};
BIO_METHOD *tls_pipe_method(void);
/* pipe must outlive the BIO.  NULL: no memory. */
BIO *tls_pipe_new(const BIO_METHOD *method, struct tls_pipe *pipe);

/* Whether the certificate is for the host of this name: subjectAltName (DNS; IP if name
 * is an IP address) or subject CN; not case-sensitive; the * of "*.domain.tld" stands
 * for one label. */
bool tls_cert_is_named(const X509 *cert, const char *name);
char *tls_cert_name_at(const X509 *cert, size_t i);
int tls_cert_hash(const X509 *cert, uint8_t out[TLS_HASH_MAX], size_t *len);

#endif
