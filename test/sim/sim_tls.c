/*
 * OpenSSL at the other end of the pooler's connections.  Bytes of an actor pass through
 * it on their way to a segment, and back; nothing in it waits.
 */
#include "sim_tls.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/mem.h"

enum {
	SSL_REQUEST = 80877103,
	HANDSHAKE = 22, /* the type of the first record */
	DAY_S = 86400,
};

static const char certificate[] = "tls.crt", private_key[] = "tls.key";
static const unsigned char alpn[] = "\12postgresql";

/* Between an actor and its end of the connection. */
struct secure {
	SSL *ssl;         /* NULL: not yet, or in clear */
	BIO *in, *out;    /* owned by ssl */
	struct buf waits; /* what the actor has sent, until the handshake is over */
	enum tls_way way;
	bool is_asking, is_clear, has_failed;
};

static struct {
	SSL_CTX *client, *server;
	SSL_SESSION *last; /* one that a client may go on with */
	uint64_t rng, random;
	const char *client_mode, *server_mode; /* NULL: this run has no TLS */
	bool is_direct;                        /* to the second host */
} tls;

/* ---- chance and time ---- */

static int random_bytes(unsigned char *out, int len)
{
	for (int i = 0; i < len; i++)
		out[i] = (unsigned char)draw(&tls.random);
	return 1;
}

static int random_status(void)
{
	return 1;
}

/* OpenSSL's call of the C library finds this one. */
time_t time(time_t *out);
time_t __wrap_time(time_t *out);

time_t time(time_t *out)
{
	return __wrap_time(out);
}

void sim_tls_init(void)
{
	static const RAND_METHOD method = {
	    .bytes = random_bytes, .pseudorand = random_bytes, .status = random_status};

	tls.random = rng_for("OpenSSL", 0);
	RAND_set_rand_method(&method);
	/* without it, each reload reads the authorities of the machine */
	setenv("SSL_CERT_FILE", "/dev/null", 1);
	setenv("SSL_CERT_DIR", "/dev/null", 1);
}

/* ---- what this run has ---- */

static void write_certificate(void)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	X509_NAME *name = X509_get_subject_name(cert);
	FILE *f = fopen(certificate, "w"), *g = fopen(private_key, "w");

	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_time_adj_ex(X509_getm_notBefore(cert), -1, 0, &(time_t){time(NULL)});
	X509_time_adj_ex(X509_getm_notAfter(cert), 1000, 0, &(time_t){time(NULL)});
	X509_NAME_add_entry_by_txt(
	    name, "CN", MBSTRING_ASC, (const unsigned char *)"sim", -1, -1, 0);
	X509_set_issuer_name(cert, name);
	X509_set_pubkey(cert, key);
	X509_set_version(cert, X509_VERSION_3);
	MUST(X509_sign(cert, key, EVP_sha256()) > 0 && f && g &&
		 PEM_write_X509(f, cert) == 1 &&
		 PEM_write_PrivateKey(g, key, NULL, NULL, 0, NULL, NULL) == 1,
	    "no certificate");
	fclose(f);
	fclose(g);
	X509_free(cert);
	EVP_PKEY_free(key);
}

static int select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
    const unsigned char *in, unsigned in_len, void *arg)
{
	(void)ssl, (void)arg;
	return SSL_select_next_proto((unsigned char **)(uintptr_t)out, out_len, alpn,
		   sizeof(alpn) - 1, in, in_len) == OPENSSL_NPN_NEGOTIATED
		   ? SSL_TLSEXT_ERR_OK
		   : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int keep_session(SSL *ssl, SSL_SESSION *session)
{
	(void)ssl;
	SSL_SESSION_free(tls.last);
	tls.last = session;
	return 1;
}

void sim_tls_begin(void)
{
	static const char *const client_modes[] = {
	    "allow", "prefer", "require", "require", "disable"};
	static const char *const server_modes[] = {
	    "require", "prefer", "verify-ca", "disable"};

	tls.rng = rng_for("TLS", 0);
	if (!(world.options.faults & FAULT_TLS) || draw_chance(&tls.rng, 300))
		return;
	tls.client_mode = client_modes[draw_below(&tls.rng, 5)];
	tls.server_mode = server_modes[draw_below(&tls.rng, 4)];
	tls.is_direct = tls.server_mode[0] != 'p' && tls.server_mode[0] != 'd' &&
			draw_chance(&tls.rng, 500);
	write_certificate();
	tls.client = SSL_CTX_new(TLS_client_method());
	tls.server = SSL_CTX_new(TLS_server_method());
	MUST(SSL_CTX_load_verify_locations(tls.client, certificate, NULL) == 1 &&
		 SSL_CTX_use_certificate_chain_file(tls.server, certificate) == 1 &&
		 SSL_CTX_use_PrivateKey_file(
		     tls.server, private_key, SSL_FILETYPE_PEM) == 1,
	    "no context for TLS");
	SSL_CTX_set_verify(tls.client, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_session_cache_mode(tls.client, SSL_SESS_CACHE_CLIENT);
	SSL_CTX_sess_set_new_cb(tls.client, keep_session);
	SSL_CTX_set_alpn_select_cb(tls.server, select_alpn, NULL);
	if (draw_chance(&tls.rng, 300))
		SSL_CTX_set_max_proto_version(tls.client, TLS1_2_VERSION);
}

void sim_tls_put_settings(FILE *f)
{
	if (tls.client_mode)
		fprintf(f,
		    "client_tls_sslmode = %s\nclient_tls_cert_file = %s\n"
		    "client_tls_key_file = %s\nserver_tls_sslmode = %s\n"
		    "server_tls_ca_file = %s\n",
		    tls.client_mode, certificate, private_key, tls.server_mode,
		    certificate);
}

void sim_tls_touch(void (*set_time)(const char *file))
{
	if (!tls.client_mode)
		return;
	set_time(certificate);
	set_time(private_key);
}

const char *sim_tls_database_options(void)
{
	return tls.is_direct ? " sslnegotiation=direct" : "";
}

enum tls_way sim_tls_choose(uint64_t *rng)
{
	return tls.client_mode ? (enum tls_way)draw_below(rng, 4) : TLS_WAY_NONE;
}

enum tls_way sim_tls_sure(void)
{
	return tls.client_mode && tls.client_mode[0] == 'r' ? TLS_WAY_ASK
							    : TLS_WAY_NONE;
}

bool sim_tls_is_refused(enum tls_way way)
{
	if (!tls.client_mode)
		return false;
	return (way == TLS_WAY_NONE && tls.client_mode[0] == 'r') ||
	       (way >= TLS_WAY_ASK && tls.client_mode[0] == 'd');
}

/* ---- one connection ---- */

/* What OpenSSL has for the peer. */
static void pass_on(struct actor *a)
{
	struct secure *s = a->secure;
	char *bytes;
	long len = BIO_get_mem_data(s->out, &bytes);

	buf_put(&a->out, bytes, (size_t)len);
	BIO_reset(s->out);
}

/* Notes a failure.  False: there is nothing more to do without further bytes. */
static bool note_result(struct secure *s, int result)
{
	int error = SSL_get_error(s->ssl, result);

	ERR_clear_error();
	if (result > 0)
		return true;
	s->has_failed = s->has_failed || (error != SSL_ERROR_WANT_READ &&
					     error != SSL_ERROR_ZERO_RETURN);
	return false;
}

static void begin(struct secure *s, bool is_server)
{
	s->ssl = SSL_new(is_server ? tls.server : tls.client);
	s->in = BIO_new(BIO_s_mem());
	s->out = BIO_new(BIO_s_mem());
	BIO_set_mem_eof_return(s->in, -1);
	SSL_set_bio(s->ssl, s->in, s->out);
	is_server ? SSL_set_accept_state(s->ssl) : SSL_set_connect_state(s->ssl);
	if (s->way == TLS_WAY_DIRECT)
		SSL_set_alpn_protos(s->ssl, alpn, sizeof(alpn) - 1);
	if (!is_server && tls.last && draw_chance(&tls.rng, 300))
		SSL_set_session(s->ssl, tls.last);
	s->is_asking = false;
}

/* Goes on with the handshake; behind it, what waits leaves, in one record or more. */
static void go_on(struct actor *a)
{
	struct secure *s = a->secure;
	size_t at = 0;

	if (s->is_clear) {
		buf_put(&a->out, s->waits.bytes, s->waits.len);
		buf_clear(&s->waits);
	}
	if (!s->ssl || s->has_failed)
		return;
	if (!SSL_is_init_finished(s->ssl))
		(void)note_result(s, SSL_do_handshake(s->ssl));
	if (SSL_is_init_finished(s->ssl) && !s->has_failed) {
		while (at < s->waits.len) {
			size_t n = s->waits.len - at;
			if (draw_fault(&tls.rng, FAULT_SPLIT, 50000))
				n = draw_between(&tls.rng, 1, n);
			MUST(SSL_write(s->ssl, s->waits.bytes + at, (int)n) == (int)n,
			    "nothing is encrypted");
			at += n;
		}
		buf_clear(&s->waits);
	}
	pass_on(a);
}

static struct secure *secure_new(struct actor *a, enum tls_way way)
{
	struct secure *s = a->secure = mem_zero(sizeof(*s));

	s->way = way;
	buf_init(&s->waits, 0);
	return s;
}

void sim_tls_connect(struct actor *a, enum tls_way way)
{
	uint8_t request[8];
	struct secure *s;

	if (way == TLS_WAY_NONE)
		return;
	s = secure_new(a, way);
	if (way == TLS_WAY_DIRECT) {
		begin(s, false);
		go_on(a);
		return;
	}
	put_u32(request, sizeof(request));
	put_u32(request + 4, SSL_REQUEST);
	buf_put(&a->out, request, sizeof(request));
	s->is_asking = true;
}

bool sim_tls_accept(struct actor *a, uint64_t *rng)
{
	bool is_refused = !tls.server_mode || a->secure ||
			  (tls.server_mode[0] == 'p' && draw_chance(rng, 300));

	actor_send(a, is_refused ? "N" : "S", 1);
	if (!is_refused)
		begin(secure_new(a, TLS_WAY_ASK), true);
	return !is_refused;
}

bool sim_tls_accept_direct(struct actor *a, const uint8_t *bytes, size_t len)
{
	uint8_t *copy;

	if (!tls.server_mode || a->secure || !len || *bytes != HANDSHAKE)
		return false;
	copy = mem_dup(bytes, len);
	actor_take(a, len);
	begin(secure_new(a, TLS_WAY_ASK), true);
	sim_tls_take(a, copy, len);
	mem_free(copy);
	actor_send(a, "", 0);
	return true;
}

void sim_tls_put(struct actor *a, const void *bytes, size_t len)
{
	buf_put(&a->secure->waits, bytes, len);
	go_on(a);
}

/* The answer to SSLRequest. */
static void take_answer(struct secure *s, uint8_t answer)
{
	MUST(answer == 'S' || answer == 'N', "SSLRequest is answered with %d", answer);
	if (answer == 'S')
		begin(s, false);
	else if (s->way == TLS_WAY_PREFER)
		s->is_clear = true;
	else
		s->has_failed = true;
	s->is_asking = false;
}

void sim_tls_take(struct actor *a, const void *bytes, size_t len)
{
	struct secure *s = a->secure;
	uint8_t room[4096];
	int got;

	if (s->is_clear) {
		buf_put(&a->in, bytes, len);
		return;
	}
	if (s->is_asking) {
		/* one that refuses a client may be in clear */
		if (*(const uint8_t *)bytes == 'E') {
			s->has_failed = true;
			return;
		}
		take_answer(s, *(const uint8_t *)bytes);
		MUST(len == 1 || !s->ssl, "more follows the answer to SSLRequest");
		if (s->is_clear)
			buf_put(&a->in, (const uint8_t *)bytes + 1, len - 1);
	} else if (s->ssl) {
		BIO_write(s->in, bytes, (int)len);
	}
	go_on(a);
	while (s->ssl && !s->has_failed &&
	       note_result(s, got = SSL_read(s->ssl, room, sizeof(room))))
		buf_put(&a->in, room, (size_t)got);
	if (s->ssl)
		go_on(a);
}

bool sim_tls_has_failed(const struct actor *a)
{
	return a->secure && a->secure->has_failed;
}

void sim_tls_say_goodbye(struct actor *a)
{
	struct secure *s = a->secure;

	if (!s || !s->ssl || s->has_failed || !SSL_is_init_finished(s->ssl))
		return;
	(void)SSL_shutdown(s->ssl);
	pass_on(a);
}

void sim_tls_free(struct actor *a)
{
	struct secure *s = a->secure;

	if (!s)
		return;
	SSL_free(s->ssl);
	buf_done(&s->waits);
	mem_free(s);
	a->secure = NULL;
}
