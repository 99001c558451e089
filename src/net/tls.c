#include "net/tls.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/mem.h"
#include "net/sock.h"
#include "net/tls_parts.h"

struct tls {
	SSL *ssl;
	struct tls_context *context;
	char *host; /* name that the certificate must have; NULL: any */
	/* NULL: nothing has failed; after a failure nothing continues */
	struct err *failure;
	struct tls_pipe pipe;
	bool needs_alpn;
	/* the handshake was completed once (OpenSSL's own flag may change back) */
	bool is_complete;
};

/* ---- birth and death ---- */

/* Is called for each certificate of the chain, the peer's own last. */
static int check_name(int is_good, X509_STORE_CTX *store)
{
	SSL *ssl =
	    X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	const struct tls *tls = SSL_get_app_data(ssl);

	if (!is_good || X509_STORE_CTX_get_error_depth(store) > 0)
		return is_good;
	if (tls_cert_is_named(X509_STORE_CTX_get0_cert(store), tls->host))
		return 1;
	X509_STORE_CTX_set_error(store, X509_V_ERR_HOSTNAME_MISMATCH);
	return 0;
}

static int set_up_client(struct tls *tls, const struct tls_peer_config *peer)
{
	struct sock_addr address;
	bool is_name =
	    peer->host && *peer->host && sock_addr_parse(peer->host, 0, &address) < 0;

	if (is_name && !SSL_set_tlsext_host_name(tls->ssl, peer->host))
		return -1;
	if (peer->checks_name) {
		assert(peer->host);
		tls->host = mem_strdup(peer->host);
		/* only here, because OpenSSL needs 96 bytes to store it */
		SSL_set_app_data(tls->ssl, tls);
		SSL_set_verify(tls->ssl, SSL_VERIFY_PEER, check_name);
	}
	if (peer->is_direct && SSL_set_alpn_protos(tls->ssl,
				   (const unsigned char *)TLS_ALPN, TLS_ALPN_SIZE) != 0)
		return -1;
	tls->needs_alpn = peer->is_direct;
	SSL_set_connect_state(tls->ssl);
	return 0;
}

struct tls *tls_new(struct tls_context *context, const struct tls_peer_config *peer,
    tls_put_fn *put, void *ctx, struct err *err)
{
	struct tls *tls = mem_zero(sizeof(*tls));
	BIO *bio = tls_pipe_new(context->pipe, &tls->pipe);
	char reason[sizeof(err->text) / 2];

	tls->context = tls_context_ref(context);
	tls->pipe = (struct tls_pipe){.put = put, .ctx = ctx};
	tls->ssl = SSL_new(context->ssl);
	if (!bio || !tls->ssl) {
		BIO_free(bio);
		goto failed;
	}
	SSL_set_bio(tls->ssl, bio, bio);
	if (context->is_server)
		SSL_set_accept_state(tls->ssl);
	else if (set_up_client(tls, peer) < 0)
		goto failed;
	return tls;
failed:
	err_set(err, "cannot start TLS: %s", tls_last_error(reason, sizeof(reason)));
	tls_free(&tls);
	return NULL;
}

void tls_free(struct tls **pp)
{
	struct tls *tls = *pp;

	*pp = NULL;
	if (!tls)
		return;
	SSL_free(tls->ssl);
	tls_context_unref(&tls->context);
	mem_free(tls->host);
	mem_free(tls->failure);
	mem_free(tls);
}

/* ---- input ---- */

void tls_set_input(struct tls *tls, const uint8_t *p, size_t len)
{
	tls->pipe.in = p;
	tls->pipe.in_len = len;
}

const uint8_t *tls_input(const struct tls *tls, size_t *len)
{
	*len = tls->pipe.in_len;
	return tls->pipe.in;
}

bool tls_has_input(const struct tls *tls)
{
	return tls->failure || tls->pipe.in_len > 0 || SSL_pending(tls->ssl) > 0 ||
	       (SSL_get_shutdown(tls->ssl) & SSL_RECEIVED_SHUTDOWN);
}

/* ---- work ---- */

static void fail(struct tls *tls, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void fail(struct tls *tls, const char *fmt, ...)
{
	struct err err = {.sqlstate = SQLSTATE_CONNECTION_FAILURE};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err.text, sizeof(err.text), fmt, ap);
	va_end(ap);
	tls->failure = mem_dup(&err, sizeof(err));
	tls->pipe.in_len = 0;
}

static void fail_for_reason(struct tls *tls)
{
	unsigned long code = ERR_peek_error();
	char reason[200];

	if (tls->pipe.has_no_memory)
		fail(tls, "%s", error_text(ERROR_OUT_OF_MEMORY));
	else if (ERR_GET_LIB(code) == ERR_LIB_SSL &&
		 ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED) {
		long result = SSL_get_verify_result(tls->ssl);
		if (result == X509_V_ERR_HOSTNAME_MISMATCH)
			fail(tls,
			    "certificate verify failed: name \"%s\" not present in "
			    "server certificate",
			    tls->host);
		else
			fail(tls, "certificate verify failed: %s",
			    X509_verify_cert_error_string(result));
	} else if (code)
		fail(tls, "%s", tls_last_error(reason, sizeof(reason)));
	else
		fail(tls, "unknown TLS failure");
}

static enum tls_status failed(const struct tls *tls, struct err *err)
{
	if (err)
		*err = *tls->failure;
	return TLS_FAILED;
}

/* Explains why OpenSSL did less than was asked. */
static enum tls_status explain(struct tls *tls, int result, struct err *err)
{
	switch (SSL_get_error(tls->ssl, result)) {
	case SSL_ERROR_WANT_READ:
		return TLS_HUNGRY;
	case SSL_ERROR_ZERO_RETURN:
		return TLS_CLOSED;
	default:
		fail_for_reason(tls);
		ERR_clear_error();
		return failed(tls, err);
	}
}

enum tls_status tls_handshake(struct tls *tls, struct err *err)
{
	if (tls->failure)
		return failed(tls, err);
	ERR_clear_error();
	int result = SSL_do_handshake(tls->ssl);
	if (result != 1)
		return explain(tls, result, err);
	if (tls->needs_alpn && !tls_has_alpn(tls)) {
		fail(tls, "the server did not select ALPN protocol \"postgresql\"");
		return failed(tls, err);
	}
	tls->is_complete = true;
	return TLS_DONE;
}

bool tls_speaks_first(const struct tls *tls)
{
	return !tls->context->is_server;
}

bool tls_is_complete(const struct tls *tls)
{
	return tls->is_complete;
}

const struct err *tls_failure(const struct tls *tls)
{
	return tls->failure;
}

/* Reads as many records as fit.  What stopped it is reported by the next call. */
enum tls_status tls_read(
    struct tls *tls, uint8_t *out, size_t cap, size_t *len, struct err *err)
{
	*len = 0;
	if (tls->failure)
		return failed(tls, err);
	ERR_clear_error();
	while (*len < cap) {
		size_t room = cap - *len;
		int got = SSL_read(
		    tls->ssl, out + *len, room < INT_MAX ? (int)room : INT_MAX);
		if (got <= 0) {
			enum tls_status status = explain(tls, got, err);
			return *len > 0 ? TLS_DONE : status;
		}
		*len += (size_t)got;
		if (!tls_has_input(tls))
			break;
	}
	return TLS_DONE;
}

enum tls_status tls_peek(struct tls *tls, struct err *err)
{
	char next;

	if (tls->failure)
		return failed(tls, err);
	ERR_clear_error();
	int got = SSL_peek(tls->ssl, &next, 1);
	return got > 0 ? TLS_DONE : explain(tls, got, err);
}

enum tls_status tls_write(
    struct tls *tls, const uint8_t *p, size_t len, struct err *err)
{
	assert(len <= INT_MAX);
	if (tls->failure)
		return failed(tls, err);
	if (len == 0)
		return TLS_DONE;
	ERR_clear_error();
	int result = SSL_write(tls->ssl, p, (int)len);
	return result > 0 ? TLS_DONE : explain(tls, result, err);
}

void tls_close(struct tls *tls)
{
	if (tls->failure || !tls_is_complete(tls))
		return;
	ERR_clear_error();
	SSL_shutdown(tls->ssl);
	ERR_clear_error();
}

/* ---- questions ---- */

/* Prints "/ECDH=X25519" or "/DH=2048", as far as OpenSSL knows: sometimes it forgets
 * the peer's key, sometimes the group. */
static void put_key_exchange(const struct tls *tls, char *out, size_t size)
{
	EVP_PKEY *key = NULL;
	int kind = NID_undef, bits = 0, group = NID_undef;

	if (SSL_get_server_tmp_key(tls->ssl, &key)) {
		kind = EVP_PKEY_base_id(key);
		bits = EVP_PKEY_bits(key);
	}
	EVP_PKEY_free(key);
	if (kind == EVP_PKEY_X25519 || kind == EVP_PKEY_X448)
		group = kind;
#ifdef SSL_get_negotiated_group
	if (group == NID_undef && kind != EVP_PKEY_DH)
		group = (int)SSL_get_negotiated_group(tls->ssl);
#endif
	const char *name = group > 0 ? OBJ_nid2sn(group) : NULL;
	if (kind == EVP_PKEY_DH)
		snprintf(out, size, "/DH=%d", bits);
	else if (name && strncmp(name, "ffdhe", 5) == 0)
		snprintf(out, size, "/DH=%s", name + 5);
	else if (name)
		snprintf(out, size, "/ECDH=%s", name);
	else
		*out = '\0';
	ERR_clear_error();
}

const char *tls_describe(const struct tls *tls, char out[TLS_TEXT])
{
	char exchange[TLS_TEXT / 4] = "";

	/* a session resumed below TLS 1.3 has no key exchange of its own */
	if (!tls_is_resumed(tls) || SSL_version(tls->ssl) >= TLS1_3_VERSION)
		put_key_exchange(tls, exchange, sizeof(exchange));
	snprintf(out, TLS_TEXT, "%s/%s%s", SSL_get_version(tls->ssl),
	    SSL_get_cipher_name(tls->ssl), exchange);
	return out;
}

bool tls_has_client_certificate(const struct tls *tls)
{
	X509 *cert = SSL_get_peer_certificate(tls->ssl);

	X509_free(cert);
	return cert != NULL;
}

bool tls_peer_is_named(const struct tls *tls, const char *name)
{
	bool is_named = false;
	char *own;

	for (size_t i = 0; !is_named && (own = tls_peer_name_at(tls, i)); i++) {
		is_named = strcmp(own, name) == 0;
		mem_free(own);
	}
	return is_named;
}

char *tls_peer_name_at(const struct tls *tls, size_t i)
{
	X509 *cert = SSL_get_peer_certificate(tls->ssl);
	char *name = cert ? tls_cert_name_at(cert, i) : NULL;

	X509_free(cert);
	return name;
}

bool tls_has_alpn(const struct tls *tls)
{
	const unsigned char *name;
	unsigned len;

	SSL_get0_alpn_selected(tls->ssl, &name, &len);
	return len == TLS_ALPN_SIZE - 1 && memcmp(name, &TLS_ALPN[1], len) == 0;
}

bool tls_is_resumed(const struct tls *tls)
{
	return SSL_session_reused(tls->ssl) == 1;
}

int tls_end_point_hash(
    const struct tls *tls, bool is_own_cert, uint8_t out[TLS_HASH_MAX], size_t *len)
{
	X509 *peer = is_own_cert ? NULL : SSL_get_peer_certificate(tls->ssl);
	const X509 *cert = is_own_cert ? SSL_get_certificate(tls->ssl) : peer;
	int result = cert ? tls_cert_hash(cert, out, len) : -1;

	X509_free(peer);
	return result;
}
