/*
 * TLS: bytes in, bytes out, no sockets.  The only room that includes OpenSSL's SSL
 * interface.  A context is what a configuration makes of files and words; it is
 * immutable, reference-counted and shared by any number of connections.  A `struct tls`
 * is one connection; streams own it (stream_start_tls), others only ask it questions.
 * What the words mean: PostgreSQL documentation, "Secure TCP/IP Connections with SSL".
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* ---- contexts ---- */

enum tls_peer_check {
	TLS_PEER_UNCHECKED, /* servers: ask for no certificate; clients: believe any */
	TLS_PEER_IF_SHOWN,  /* servers: ask for one; if it is shown it must verify */
	TLS_PEER_REQUIRED,  /* a certificate that verifies up to the CA */
};

/* Strings are borrowed for the call; NULL and "" mean "not set". */
struct tls_config {
	/* We accept; also says "client_tls" or "server_tls" in errors. */
	bool is_server;
	/* PEM; the chain follows the certificate.  Servers need both, clients have both
	 * or none. */
	const char *cert_file, *key_file;
	/* PEM; not set: the system's bundle, if anything is to be checked. */
	const char *ca_file;
	/* PEM; set: every CA of a chain must have a revocation list. */
	const char *crl_file;
	const char *protocols;     /* "secure", "tlsv1.2,tlsv1.3", "!tlsv1.0", ... */
	const char *ciphers;       /* up to TLS 1.2; "default" and the like */
	const char *tls13_ciphers; /* not set: OpenSSL's defaults */
	const char *dheparams;     /* "auto", "none"; for servers */
	/* "auto" and "none": OpenSSL's choice; else names, separated by ':'. */
	const char *ecdhcurve;
	enum tls_peer_check peer_check;
	/* Servers: let clients resume sessions; the ticket keys live in the context and
	 * die with it. */
	bool has_tickets;
};

struct tls_context;

/* One reference.  NULL: err is complete, e.g. "TLS setup failed: failed to load CA:
 * ..." or "invalid client_tls_protocols: V". */
struct tls_context *tls_context_new(const struct tls_config *config, struct err *err);
/* OpenSSL's own object for a connection that a library takes over, which frees it: it
 * accepts, and speaks HTTP inside.  NULL: no memory.  The context must outlive it. */
struct ssl_st;
struct ssl_st *tls_context_accept(struct tls_context *context);
struct tls_context *tls_context_ref(struct tls_context *context);
void tls_context_unref(struct tls_context **context); /* *context may be NULL */

/* ---- one connection ---- */

/* Borrowed for the call that gets it. */
struct tls_peer_config {
	/* Clients: the server as the user named it, a name or an IP literal; NULL:
	 * none. Names are sent as SNI, IPs never. */
	const char *host;
	/* Clients: its certificate must be for `host` (verify-full); the context must
	 * be TLS_PEER_REQUIRED. */
	bool checks_name;
	/* Clients: TLS without SSLRequest: ALPN "postgresql" is offered and must be
	 * selected. */
	bool is_direct;
};

struct tls;

/* Takes what is to be sent to the peer, in order.  -1: no memory. */
typedef int tls_put_fn(void *ctx, const uint8_t *p, size_t len);

enum tls_status {
	TLS_DONE,   /* the handshake is complete; bytes were read */
	TLS_HUNGRY, /* all input is used up and more is needed */
	TLS_CLOSED, /* the peer said close_notify */
	TLS_FAILED, /* err says why; an alert for the peer may have been put */
};

/* peer may be NULL for servers.  NULL: no memory, or host cannot be an SNI name.  The
 * context is referenced. */
struct tls *tls_new(struct tls_context *context, const struct tls_peer_config *peer,
    tls_put_fn *put, void *ctx, struct err *err);
void tls_free(struct tls **tls);

/* What it puts goes there from now on. */
void tls_set_output(struct tls *tls, tls_put_fn *put, void *ctx);

/* The peer's bytes: a borrowed window that must live until it is used up, replaced or
 * the connection is freed.  Whoever replaces it keeps what is left. */
void tls_set_input(struct tls *tls, const uint8_t *p, size_t len);
const uint8_t *tls_input(const struct tls *tls, size_t *len);

/* Clients speak first: call once with no input.  TLS_DONE, TLS_HUNGRY or TLS_FAILED
 * ("certificate verify failed: certificate has expired", "wrong version number", ...).
 */
enum tls_status tls_handshake(struct tls *tls, struct err *err);
bool tls_speaks_first(const struct tls *tls);
bool tls_is_complete(const struct tls *tls);

/* Decrypt up to cap bytes (*len of them; TLS_DONE even if it was the last there is). */
enum tls_status tls_read(
    struct tls *tls, uint8_t *out, size_t cap, size_t *len, struct err *err);
/* The same for one byte that stays unread: is there anything, or did the peer leave? */
enum tls_status tls_peek(struct tls *tls, struct err *err);
/* Is there anything to read or to be told without more from the peer? */
bool tls_has_input(const struct tls *tls);
/* Encrypt, after the handshake: all (TLS_DONE) or nothing.  TLS_HUNGRY: the peer is in
 * the middle of a message of its own handshake; again when more came. */
enum tls_status tls_write(
    struct tls *tls, const uint8_t *p, size_t len, struct err *err);
/* What the first TLS_FAILED said; NULL: nothing failed. */
const struct err *tls_failure(const struct tls *tls);
/* Say close_notify, if the handshake is complete and nothing failed. */
void tls_close(struct tls *tls);

/* ---- questions, once the handshake is complete ---- */

enum { TLS_TEXT = 128, TLS_HASH_MAX = 64 };

/* What was negotiated: "TLSv1.3/TLS_AES_256_GCM_SHA384/ECDH=X25519". */
const char *tls_describe(const struct tls *tls, char out[TLS_TEXT]);
/* Did the peer show a certificate (that verified, where checked)?  For servers. */
bool tls_has_client_certificate(const struct tls *tls);
/* Is the peer's certificate for this name: subjectAltName (DNS; IP if name is an IP
 * literal) or subject CN; not case-sensitive; "*.domain.tld" stands for one label. */
bool tls_peer_is_named(const struct tls *tls, const char *name);
/* Its names as they are written there, one by one: subjectAltName (DNS), then subject
 * CN.  The caller frees with mem_free; NULL ends. */
char *tls_peer_name_at(const struct tls *tls, size_t i);
/* Was ALPN "postgresql" agreed on?  (A peer that offers other protocols only is
 * refused in the handshake.) */
bool tls_has_alpn(const struct tls *tls);
bool tls_is_resumed(const struct tls *tls);
/* Channel binding tls-server-end-point (RFC 5929 section 4.1): the hash of the
 * server's certificate, which is ours (is_own_cert) or the peer's.  -1: there is none,
 * or its signature names no hash (Ed25519), so there can be no channel binding. */
int tls_end_point_hash(
    const struct tls *tls, bool is_own_cert, uint8_t out[TLS_HASH_MAX], size_t *len);

#endif
