/*
 * Makes a context from the settings and files of the configuration; and moves bytes
 * between a connection and OpenSSL, by a BIO without memory of its own, which reads
 * input in place and passes output on. tls.c uses both.
 */
#include <assert.h>
#include <string.h>
#include <strings.h>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/mem.h"
#include "net/tls_parts.h"

/* ---- bytes between a connection and OpenSSL ---- */

static int pipe_read(BIO *bio, char *out, int size)
{
	struct tls_pipe *pipe = BIO_get_data(bio);
	size_t n = size > 0 ? (size_t)size : 0;

	BIO_clear_retry_flags(bio);
	if (n > pipe->in_len)
		n = pipe->in_len;
	if (n == 0) {
		BIO_set_retry_read(bio);
		return -1;
	}
	memcpy(out, pipe->in, n);
	pipe->in += n;
	pipe->in_len -= n;
	return (int)n;
}

static int pipe_write(BIO *bio, const char *p, int len)
{
	struct tls_pipe *pipe = BIO_get_data(bio);

	BIO_clear_retry_flags(bio);
	if (len <= 0)
		return 0;
	if (pipe->put(pipe->ctx, (const uint8_t *)p, (size_t)len) < 0) {
		pipe->has_no_memory = true;
		return -1;
	}
	return len;
}

static long pipe_ctrl(BIO *bio, int command, long number, void *p)
{
	(void)bio, (void)number, (void)p;
	return command == BIO_CTRL_FLUSH;
}

BIO_METHOD *tls_pipe_method(void)
{
	BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "tls pipe");

	if (method && BIO_meth_set_read(method, pipe_read) &&
	    BIO_meth_set_write(method, pipe_write) &&
	    BIO_meth_set_ctrl(method, pipe_ctrl))
		return method;
	BIO_meth_free(method);
	return NULL;
}

BIO *tls_pipe_new(const BIO_METHOD *method, struct tls_pipe *pipe)
{
	BIO *bio = BIO_new(method);

	if (bio) {
		BIO_set_data(bio, pipe);
		BIO_set_init(bio, 1);
	}
	return bio;
}

enum {
	CHAIN_MOST = 6, /* most CA certificates between a certificate and its root */
	/* How long the verification of a certificate stays valid when sessions are
	 * resumed. */
	RESUME_SECONDS = 300,
	/* per connection: clients of a pooler open one connection at a time */
	TICKETS = 1,
	REASON = 200,
};

void tls_stay_at_exit(void)
{
	OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

static bool is_set(const char *text)
{
	return text && *text;
}

static int set_up_failed(struct err *err, const char *what, const char *file)
{
	char reason[REASON];

	tls_last_error(reason, sizeof(reason));
	if (!file)
		return err_set(err, "TLS setup failed: %s: %s", what, reason);
	return err_set(err, "TLS setup failed: %s \"%s\": %s", what, file, reason);
}

/* The first word of the settings' names. */
static const char *side(const struct tls_config *config)
{
	return config->is_server ? "client" : "server";
}

static int invalid(
    struct err *err, const struct tls_config *config, const char *name, const char *v)
{
	ERR_clear_error();
	return err_set(err, "invalid %s_tls_%s: %s", side(config), name, v);
}

/* ---- protocols ---- */

enum { V10 = 1, V11 = 2, V12 = 4, V13 = 8, V_ALL = 15, V_SECURE = V12 | V13 };

struct protocol_word {
	const char *word;
	unsigned versions;
};

static const struct protocol_word protocol_words[] = {
    {"tlsv1.0", V10},
    {"tlsv1.1", V11},
    {"tlsv1.2", V12},
    {"tlsv1.3", V13},
    {"tlsv1", V_ALL},
    {"all", V_ALL},
    {"secure", V_SECURE},
    {"default", V_SECURE},
};

static unsigned word_versions(const char *word, size_t len)
{
	for (size_t i = 0; i < sizeof(protocol_words) / sizeof(protocol_words[0]);
	     i++) {
		const struct protocol_word *known = &protocol_words[i];
		if (strlen(known->word) == len &&
		    strncasecmp(known->word, word, len) == 0)
			return known->versions;
	}
	return 0;
}

/* 0: the list cannot be read, or it leaves no protocol. */
static unsigned parse_protocols(const char *list)
{
	unsigned versions = 0;
	bool is_first = true;

	for (;;) {
		list += strspn(list, " \t");
		bool removes = *list == '!';
		list += removes;
		size_t len = strcspn(list, ",:"), trimmed = len;
		while (trimmed > 0 && strchr(" \t", list[trimmed - 1]))
			trimmed--;
		unsigned some = word_versions(list, trimmed);
		if (!some)
			return 0;
		if (removes)
			versions = (is_first ? V_ALL : versions) & ~some;
		else
			versions |= some;
		is_first = false;
		if (!list[len])
			return versions;
		list += len + 1;
	}
}

/* OpenSSL's own configuration may set limits; the pooler's settings override them. */
static int set_protocols(SSL_CTX *ssl, const struct tls_config *config, struct err *err)
{
	static const struct {
		unsigned bit;
		int version;
		unsigned long off;
	} versions[] = {
	    {V10, TLS1_VERSION, SSL_OP_NO_TLSv1},
	    {V11, TLS1_1_VERSION, SSL_OP_NO_TLSv1_1},
	    {V12, TLS1_2_VERSION, SSL_OP_NO_TLSv1_2},
	    {V13, TLS1_3_VERSION, SSL_OP_NO_TLSv1_3},
	};
	unsigned wanted =
	    is_set(config->protocols) ? parse_protocols(config->protocols) : V_SECURE;
	int lowest = 0, highest = 0;

	if (!wanted)
		return invalid(err, config, "protocols", config->protocols);
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		if (!(wanted & versions[i].bit)) {
			SSL_CTX_set_options(ssl, versions[i].off);
			continue;
		}
		SSL_CTX_clear_options(ssl, versions[i].off);
		lowest = lowest ? lowest : versions[i].version;
		highest = versions[i].version;
	}
	if (!SSL_CTX_set_min_proto_version(ssl, lowest) ||
	    !SSL_CTX_set_max_proto_version(ssl, highest))
		return invalid(err, config, "protocols", config->protocols);
	return 0;
}

/* ---- ciphers and key exchange ---- */

static int set_ciphers(SSL_CTX *ssl, const struct tls_config *config, struct err *err)
{
	const char *ciphers = config->ciphers;
	bool is_default = !is_set(ciphers) || !strcasecmp(ciphers, "default") ||
			  !strcasecmp(ciphers, "secure") ||
			  !strcasecmp(ciphers, "normal") ||
			  !strcasecmp(ciphers, "fast");

	if (!is_default && !SSL_CTX_set_cipher_list(ssl, config->ciphers))
		return invalid(err, config, "ciphers", config->ciphers);
	if (is_set(config->tls13_ciphers) &&
	    !SSL_CTX_set_ciphersuites(ssl, config->tls13_ciphers)) {
		ERR_clear_error();
		return err_set(err,
		    "TLS setup failed: failed to set the TLSv1.3 cipher suites: "
		    "%s_tls13_ciphers is %s",
		    side(config), config->tls13_ciphers);
	}
	return 0;
}

static int set_key_exchange(
    SSL_CTX *ssl, const struct tls_config *config, struct err *err)
{
	const char *dh = is_set(config->dheparams) ? config->dheparams : "auto";
	const char *curve = is_set(config->ecdhcurve) ? config->ecdhcurve : "auto";

	if (strcasecmp(dh, "auto") != 0 && strcasecmp(dh, "none") != 0)
		return invalid(err, config, "dheparams", dh);
	SSL_CTX_set_dh_auto(ssl, strcasecmp(dh, "auto") == 0);
	/* `none` leaves ECDH on as well, because TLS 1.3 needs it */
	if (strcasecmp(curve, "auto") == 0 || strcasecmp(curve, "none") == 0)
		return 0;
	if (SSL_CTX_set1_groups_list(ssl, curve))
		return 0;
	/* log watchers know the wrong name */
	ERR_clear_error();
	return err_set(err, "invalid %s_tls_ecdhecurve: %s (%s_tls_ecdhcurve)",
	    side(config), curve, side(config));
}

/* ---- files ---- */

/* Refuses encrypted keys, because there is nobody to ask for a passphrase. */
static int no_passphrase(char *out, int size, int is_writing, void *ctx)
{
	(void)out, (void)size, (void)is_writing, (void)ctx;
	return -1;
}

static int load_own(SSL_CTX *ssl, const struct tls_config *config, struct err *err)
{
	const char *cert = config->cert_file, *key = config->key_file;

	if (config->is_server && (!is_set(cert) || !is_set(key)))
		return err_set(err,
		    "To allow TLS connections from clients, client_tls_key_file and "
		    "client_tls_cert_file must be set.");
	if (!is_set(cert) && !is_set(key))
		return 0;
	if (!is_set(cert) || !is_set(key))
		return err_set(err,
		    "TLS setup failed: a certificate and its key must both be given: "
		    "%s_tls_cert_file and %s_tls_key_file",
		    side(config), side(config));
	SSL_CTX_set_default_passwd_cb(ssl, no_passphrase);
	if (!SSL_CTX_use_certificate_chain_file(ssl, cert))
		return set_up_failed(err, "failed to load certificate file", cert);
	if (!SSL_CTX_use_PrivateKey_file(ssl, key, SSL_FILETYPE_PEM)) {
		unsigned long code = ERR_peek_last_error();
		if (ERR_GET_LIB(code) == ERR_LIB_X509 &&
		    ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH)
			goto mismatch;
		return set_up_failed(err, "failed to load private key file", key);
	}
	if (!SSL_CTX_check_private_key(ssl))
		goto mismatch;
	return 0;
mismatch:
	ERR_clear_error();
	return err_set(err,
	    "TLS setup failed: private/public key mismatch: %s_tls_key_file does not "
	    "belong to %s_tls_cert_file",
	    side(config), side(config));
}

/* The name of the file follows the text that log watchers know. */
static int no_authorities(struct err *err, const char *file)
{
	char reason[REASON];

	tls_last_error(reason, sizeof(reason));
	return err_set(
	    err, "TLS setup failed: failed to load CA: %s (%s)", reason, file);
}

static int load_trust(SSL_CTX *ssl, const struct tls_config *config, struct err *err)
{
	const char *ca = config->ca_file;

	if (is_set(ca) && !SSL_CTX_load_verify_locations(ssl, ca, NULL))
		return no_authorities(err, ca);
	if (!is_set(ca) && config->peer_check != TLS_PEER_UNCHECKED &&
	    !SSL_CTX_set_default_verify_paths(ssl))
		return set_up_failed(err, "failed to load CA", NULL);
	/* clients that have several certificates choose one by this list */
	if (is_set(ca) && config->is_server &&
	    config->peer_check != TLS_PEER_UNCHECKED) {
		STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(ca);
		if (!names)
			return no_authorities(err, ca);
		SSL_CTX_set_client_CA_list(ssl, names);
	}
	if (is_set(config->crl_file)) {
		X509_STORE *store = SSL_CTX_get_cert_store(ssl);
		X509_LOOKUP *lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());
		if (!lookup || X509_load_crl_file(
				   lookup, config->crl_file, X509_FILETYPE_PEM) <= 0)
			return set_up_failed(
			    err, "failed to load CRL file", config->crl_file);
		X509_STORE_set_flags(
		    store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
	}
	return 0;
}

/* Adds the certificates to send with our own: those in its file, or those that lead to
 * a CA.  They are looked up once, because OpenSSL would otherwise search the CA files
 * in each handshake.  Intermediate certificates that are not found may still be known
 * to the peer. */
static void complete_chain(SSL_CTX *ssl)
{
	STACK_OF(X509) *chain = NULL;

	SSL_CTX_set_mode(ssl, SSL_MODE_NO_AUTO_CHAIN);
	SSL_CTX_get0_chain_certs(ssl, &chain);
	if (!SSL_CTX_get0_certificate(ssl) || sk_X509_num(chain) > 0)
		return;
	(void)SSL_CTX_build_cert_chain(
	    ssl, SSL_BUILD_CHAIN_FLAG_IGNORE_ERROR | SSL_BUILD_CHAIN_FLAG_CLEAR_ERROR);
	ERR_clear_error();
}

/* ---- the context ---- */

/* Refuses a peer that offers only other protocols, because it is no PostgreSQL client.
 * Connections of tls_context_accept, which have app data, are for HTTP. */
static int select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
    const unsigned char *in, unsigned in_len, void *ctx)
{
	(void)ctx;
	if (SSL_get_app_data(ssl))
		return SSL_TLSEXT_ERR_NOACK;
	while (in_len > 0) {
		unsigned size = 1u + in[0];
		if (size > in_len)
			break;
		if (size == TLS_ALPN_SIZE && memcmp(in, TLS_ALPN, size) == 0) {
			*out = in + 1;
			*out_len = in[0];
			return SSL_TLSEXT_ERR_OK;
		}
		in += size;
		in_len -= size;
	}
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int set_up(SSL_CTX *ssl, const struct tls_config *config, struct err *err)
{
	unsigned char id[SSL_MAX_SSL_SESSION_ID_LENGTH];

	SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
	if (set_protocols(ssl, config, err) < 0 || set_ciphers(ssl, config, err) < 0 ||
	    set_key_exchange(ssl, config, err) < 0 || load_own(ssl, config, err) < 0 ||
	    load_trust(ssl, config, err) < 0)
		return -1;
	complete_chain(ssl);
	int mode = SSL_VERIFY_NONE;
	if (config->peer_check != TLS_PEER_UNCHECKED)
		mode = SSL_VERIFY_PEER;
	if (config->peer_check == TLS_PEER_REQUIRED)
		mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
	SSL_CTX_set_verify(ssl, mode, NULL);
	SSL_CTX_set_verify_depth(ssl, CHAIN_MOST);
	if (config->is_server) {
		mem_random(id, sizeof(id));
		SSL_CTX_set_session_id_context(ssl, id, sizeof(id));
		SSL_CTX_set_options(ssl, SSL_OP_CIPHER_SERVER_PREFERENCE);
		SSL_CTX_set_timeout(ssl, RESUME_SECONDS);
		SSL_CTX_set_num_tickets(ssl, config->has_tickets ? TICKETS : 0);
		if (!config->has_tickets)
			SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET);
		SSL_CTX_set_alpn_select_cb(ssl, select_alpn, NULL);
	}
	return 0;
}

SSL *tls_context_accept(struct tls_context *context)
{
	SSL *ssl = SSL_new(context->ssl);

	if (!ssl)
		return NULL;
	SSL_set_app_data(ssl, context);
	SSL_set_accept_state(ssl);
	return ssl;
}

struct tls_context *tls_context_new(const struct tls_config *config, struct err *err)
{
	struct tls_context *context = mem_zero(sizeof(*context));

	ERR_clear_error();
	*context = (struct tls_context){
	    .ssl = SSL_CTX_new(
		config->is_server ? TLS_server_method() : TLS_client_method()),
	    .pipe = tls_pipe_method(),
	    .refs = 1,
	    .is_server = config->is_server,
	};
	if (!context->ssl || !context->pipe) {
		set_up_failed(err, "no context", NULL);
		tls_context_unref(&context);
	} else if (set_up(context->ssl, config, err) < 0) {
		tls_context_unref(&context);
	}
	/* loading a file leaves errors in OpenSSL's queue even when it succeeds */
	ERR_clear_error();
	return context;
}

struct tls_context *tls_context_ref(struct tls_context *context)
{
	atomic_fetch_add(&context->refs, 1);
	return context;
}

void tls_context_unref(struct tls_context **pp)
{
	struct tls_context *context = *pp;

	*pp = NULL;
	if (!context)
		return;
	assert(context->refs > 0);
	if (atomic_fetch_sub(&context->refs, 1) > 1)
		return;
	SSL_CTX_free(context->ssl);
	BIO_meth_free(context->pipe);
	mem_free(context);
}
