/*
 * TLS as a filter of bytes, without sockets.  Only the files of net/tls include
 * OpenSSL's SSL interface.  A context is made from the files and settings of the
 * configuration; it is immutable, reference-counted, and shared by connections.  A
 * `struct tls` is one connection; a stream owns it (stream_start_tls), others may only
 * read from it.  The settings follow libpq and PostgreSQL: see the PostgreSQL
 * documentation, "Secure TCP/IP Connections with SSL".
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* ---- contexts ---- */

enum tls_peer_check {
	TLS_PEER_UNCHECKED, /* servers: request no certificate; clients: accept any */
	/* servers: request a certificate; if there is one, it must verify */
	TLS_PEER_IF_SHOWN,
	/* there must be a certificate that verifies against the CA */
	TLS_PEER_REQUIRED,
};

/* Strings are borrowed for the call; NULL and "" mean "not set". */
struct tls_config {
	/* The context is for accepting connections.  Errors then say "client_tls",
	 * otherwise "server_tls". */
	bool is_server;
	/* PEM files; the chain follows the certificate.  Servers need both; clients
	 * have both or none. */
	const char *cert_file, *key_file;
	/* PEM file; not set: the system's CA bundle, if anything is to be verified. */
	const char *ca_file;
	/* PEM file; if set, every CA of a chain must have a revocation list. */
	const char *crl_file;
	const char *protocols; /* "secure", "tlsv1.2,tlsv1.3", "!tlsv1.0", ... */
	/* up to TLS 1.2; "default" and others are understood */
	const char *ciphers;
	const char *tls13_ciphers; /* not set: OpenSSL's defaults */
	const char *dheparams;     /* "auto" or "none"; for servers */
	/* "auto" and "none" leave the choice to OpenSSL; otherwise names separated by
	 * ':'. */
	const char *ecdhcurve;
	enum tls_peer_check peer_check;
	/* Servers: let clients resume sessions.  The ticket keys are part of the
	 * context and end with it. */
	bool has_tickets;
};

struct tls_context;

/* OpenSSL's memory stays until the process is gone, because threads that nobody waits
 * for may still use it during the exit.  To be called before OpenSSL is used. */
void tls_stay_at_exit(void);
/* Returns a context with one reference.  NULL: err is complete, e.g. "TLS setup failed:
 * failed to load CA: ..." or "invalid client_tls_protocols: V". */
struct tls_context *tls_context_new(const struct tls_config *config, struct err *err);
/* Returns an OpenSSL object that accepts one connection, for a library that takes it
 * over and frees it; ALPN is then for HTTP.  NULL: no memory.  The context must outlive
 * it. */
struct ssl_st;
struct ssl_st *tls_context_accept(struct tls_context *context);
struct tls_context *tls_context_ref(struct tls_context *context);
void tls_context_unref(struct tls_context **context); /* *context may be NULL */

/* ---- one connection ---- */

/* Borrowed for the call that gets it. */
struct tls_peer_config {
	/* Clients: the server as the user named it, a name or an IP address; NULL:
	 * none.  Names are sent as SNI, IP addresses are not. */
	const char *host;
	/* Clients: the server's certificate must be for `host` (verify-full); the
	 * context must be TLS_PEER_REQUIRED. */
	bool checks_name;
	/* Clients: direct TLS, without SSLRequest: ALPN "postgresql" is offered, and
	 * the server must select it. */
	bool is_direct;
};

struct tls;

/* Takes bytes to be sent to the peer, in order.  -1: no memory. */
typedef int tls_put_fn(void *ctx, const uint8_t *p, size_t len);

enum tls_status {
	TLS_DONE,   /* the handshake is complete, or bytes were read */
	TLS_HUNGRY, /* all input is used, and more is needed */
	TLS_CLOSED, /* the peer sent close_notify */
	TLS_FAILED, /* err says why; an alert for the peer may have been put */
};

/* peer may be NULL for servers.  NULL: no memory, or host cannot be sent as SNI.  Takes
 * a reference to the context. */
struct tls *tls_new(struct tls_context *context, const struct tls_peer_config *peer,
    tls_put_fn *put, void *ctx, struct err *err);
void tls_free(struct tls **tls);

/* Sets the bytes received from the peer: a borrowed range that must live until it is
 * used up, replaced, or the connection is freed.  Before replacing it, the caller saves
 * what was not used. */
void tls_set_input(struct tls *tls, const uint8_t *p, size_t len);
const uint8_t *tls_input(const struct tls *tls, size_t *len);

/* Goes on with the handshake.  A client calls it once without input, because clients
 * speak first.  Returns TLS_DONE, TLS_HUNGRY or TLS_FAILED ("certificate verify failed:
 * certificate has expired", "wrong version number", ...). */
enum tls_status tls_handshake(struct tls *tls, struct err *err);
bool tls_speaks_first(const struct tls *tls);
bool tls_is_complete(const struct tls *tls);

/* Decrypts up to cap bytes and sets *len.  TLS_DONE also with the last bytes. */
enum tls_status tls_read(
    struct tls *tls, uint8_t *out, size_t cap, size_t *len, struct err *err);
/* Looks for one byte without reading it: is there anything, or did the peer close? */
enum tls_status tls_peek(struct tls *tls, struct err *err);
/* Whether tls_read could return something without more input. */
bool tls_has_input(const struct tls *tls);
/* Encrypts bytes after the handshake: all (TLS_DONE) or nothing.  TLS_HUNGRY: the peer
 * has begun a handshake message of its own; try again when more input came. */
enum tls_status tls_write(
    struct tls *tls, const uint8_t *p, size_t len, struct err *err);
/* The error of the first TLS_FAILED; NULL: nothing has failed. */
const struct err *tls_failure(const struct tls *tls);
/* Sends close_notify, if the handshake is complete and nothing has failed. */
void tls_close(struct tls *tls);

/* ---- questions, once the handshake is complete ---- */

enum { TLS_TEXT = 128, TLS_HASH_MAX = 64 };

/* Describes the connection: "TLSv1.3/TLS_AES_256_GCM_SHA384/ECDH=X25519". */
const char *tls_describe(const struct tls *tls, char out[TLS_TEXT]);
/* For servers: whether the client sent a certificate (which verified, if that is
 * checked). */
bool tls_has_client_certificate(const struct tls *tls);
/* Whether this is one of the names of tls_peer_name_at, byte for byte: the names of
 * users are compared as PostgreSQL does, without the rules for names of hosts. */
bool tls_peer_is_named(const struct tls *tls, const char *name);
/* Returns the names in the peer's certificate one by one, as written there:
 * subjectAltName (DNS), then subject CN.  The caller frees each with mem_free; NULL: no
 * more. */
char *tls_peer_name_at(const struct tls *tls, size_t i);
/* Whether ALPN "postgresql" was negotiated.  (A peer that offers only other protocols
 * is refused during the handshake.) */
bool tls_has_alpn(const struct tls *tls);
bool tls_is_resumed(const struct tls *tls);
/* Channel binding tls-server-end-point (RFC 5929 section 4.1): the hash of the server's
 * certificate, which is ours (is_own_cert) or the peer's.  -1: there is no certificate,
 * or its signature has no hash (Ed25519), so channel binding is impossible. */
int tls_end_point_hash(
    const struct tls *tls, bool is_own_cert, uint8_t out[TLS_HASH_MAX], size_t *len);

/* ---- dates of certificates ---- */

struct tls_dates {
	int64_t begins_s, ends_s; /* seconds since 1970 */
	char subject[128];        /* of the certificate that ends first or last */
};

/* Reads a PEM file.  A certificate and its chain are valid while all of them are.  Of
 * authorities one is enough, so the file is as valid as the one that ends last.  -1:
 * the file has no certificate that can be read. */
int tls_dates_read(const char *path, bool is_authorities, struct tls_dates *out);

#endif
