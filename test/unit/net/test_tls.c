/*
 * Handshakes and bytes between two ends in memory: versions, ciphers, curves, ALPN,
 * resumption, closing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/ssl.h>

#include "base/mem.h"
#include "certs.h"
#include "pair.h"

static const struct tls_peer_config nobody;

static void start(
    struct pair *p, const struct tls_config *server, const struct tls_config *client)
{
	pair_init(p, server_context(server), client_context(client), &nobody);
}

/* What both ends report as negotiated. */
static void expect_negotiated(struct pair *p, const char *text)
{
	char out[TLS_TEXT];

	pair_expect_done(p);
	assert_string_equal(tls_describe(p->client.tls, out), text);
	assert_string_equal(tls_describe(p->server.tls, out), text);
}

static void expect_refused(struct pair *p, const char *server, const char *client)
{
	pair_run(p);
	assert_int_equal(p->server.status, TLS_FAILED);
	assert_int_equal(p->client.status, TLS_FAILED);
	assert_string_equal(p->server.err.text, server);
	assert_non_null(strstr(p->client.err.text, client));
	assert_non_null(tls_failure(p->server.tls));
	/* The failure is permanent. */
	assert_int_equal(tls_handshake(p->server.tls, NULL), TLS_FAILED);
	assert_false(tls_is_complete(p->server.tls));
}

static void test_versions_and_bytes(void **state)
{
	static const char *const protocols[] = {"tlsv1.2", "tlsv1.3"};
	static const char *const texts[] = {
	    "TLSv1.2/ECDHE-ECDSA-AES256-GCM-SHA384/ECDH=X25519",
	    "TLSv1.3/TLS_AES_256_GCM_SHA384/ECDH=X25519"};
	uint8_t large[40000];

	(void)state;
	memset(large, 'x', sizeof(large));
	for (int i = 0; i < 2; i++) {
		struct pair p;
		start(&p, &(struct tls_config){.protocols = protocols[i]},
		    &(struct tls_config){});
		expect_negotiated(&p, texts[i]);
		pair_say(&p.client, "to the server", 13);
		pair_say(&p.server, large, sizeof(large));
		pair_run(&p);
		assert_string_equal(buf_text(&p.server.got), "to the server");
		assert_int_equal(p.client.got.len, sizeof(large));
		assert_memory_equal(p.client.got.bytes, large, sizeof(large));
		tls_close(p.client.tls);
		pair_run(&p);
		assert_int_equal(p.server.status, TLS_CLOSED);
		assert_true(tls_has_input(p.server.tls));
		pair_done(&p);
	}
}

static void test_bytes_come_one_by_one(void **state)
{
	static const char *const protocols[] = {"tlsv1.2", "tlsv1.3"};

	(void)state;
	for (int i = 0; i < 2; i++) {
		for (size_t piece = 1; piece < 40; piece += piece < 7 ? 1 : 11) {
			struct pair p;
			start(&p, &(struct tls_config){.has_tickets = true},
			    &(struct tls_config){.protocols = protocols[i]});
			p.piece = piece;
			pair_expect_done(&p);
			pair_say(&p.client, "question", 8);
			pair_say(&p.server, "answer", 6);
			pair_run(&p);
			assert_string_equal(buf_text(&p.server.got), "question");
			assert_string_equal(buf_text(&p.client.got), "answer");
			pair_done(&p);
		}
	}
}

static void test_server_prefers_ciphers(void **state)
{
	struct pair p;

	(void)state;
	start(&p,
	    &(struct tls_config){.protocols = "tlsv1.2",
		.ciphers =
		    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384"},
	    &(struct tls_config){.ciphers = "ECDHE-ECDSA-AES256-GCM-SHA384:"
					    "ECDHE-ECDSA-AES128-GCM-SHA256"});
	expect_negotiated(&p, "TLSv1.2/ECDHE-ECDSA-AES128-GCM-SHA256/ECDH=X25519");
	pair_done(&p);
	start(&p, &(struct tls_config){.tls13_ciphers = "TLS_CHACHA20_POLY1305_SHA256"},
	    &(struct tls_config){});
	expect_negotiated(&p, "TLSv1.3/TLS_CHACHA20_POLY1305_SHA256/ECDH=X25519");
	pair_done(&p);
}

static void test_nothing_in_common(void **state)
{
	struct pair p;

	(void)state;
	start(&p, &(struct tls_config){.protocols = "tlsv1.2"},
	    &(struct tls_config){.protocols = "tlsv1.3"});
	expect_refused(&p, "unsupported protocol", "alert protocol version");
	pair_done(&p);
	start(&p,
	    &(struct tls_config){
		.protocols = "tlsv1.2", .ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256"},
	    &(struct tls_config){.ciphers = "ECDHE-ECDSA-AES256-GCM-SHA384"});
	expect_refused(&p, "no shared cipher", "alert handshake failure");
	pair_done(&p);
	start(&p, &(struct tls_config){.ecdhcurve = "P-384"},
	    &(struct tls_config){.ecdhcurve = "X25519"});
	expect_refused(&p, "no suitable key share", "alert handshake failure");
	pair_done(&p);
}

static void test_curves(void **state)
{
	static const char *const protocols[] = {"tlsv1.2", "tlsv1.3"};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct pair p;
		char out[TLS_TEXT];
		start(&p,
		    &(struct tls_config){
			.protocols = protocols[i], .ecdhcurve = "secp384r1"},
		    &(struct tls_config){});
		pair_expect_done(&p);
		tls_describe(p.server.tls, out);
		assert_string_equal(strrchr(out, '/'), "/ECDH=secp384r1");
		tls_describe(p.client.tls, out);
		assert_string_equal(strrchr(out, '/'), "/ECDH=secp384r1");
		pair_done(&p);
	}
}

static void test_plain_diffie_hellman(void **state)
{
	struct tls_config server = {
	    .protocols = "tlsv1.2", .ciphers = "DHE-RSA-AES256-GCM-SHA384"};
	char out[TLS_TEXT];
	struct pair p;

	(void)state;
	certs_make("rsa", &(struct cert_wish){.issuer = "ca", .key = CERT_RSA});
	server.cert_file = certs_path("rsa.crt");
	server.key_file = certs_path("rsa.key");
	start(&p, &server, &(struct tls_config){});
	pair_expect_done(&p);
	tls_describe(p.client.tls, out);
	assert_non_null(strstr(out, "TLSv1.2/DHE-RSA-AES256-GCM-SHA384/DH="));
	pair_done(&p);
	server.dheparams = "none";
	start(&p, &server, &(struct tls_config){});
	expect_refused(&p, "no shared cipher", "alert handshake failure");
	pair_done(&p);
}

static void test_no_tls_at_all(void **state)
{
	static const uint8_t words[] = "GET / HTTP/1.0\r\n\r\n";
	struct pair p;

	(void)state;
	start(&p, &(struct tls_config){}, &(struct tls_config){});
	tls_set_input(p.server.tls, words, sizeof(words) - 1);
	assert_int_equal(tls_handshake(p.server.tls, &p.server.err), TLS_FAILED);
	assert_string_equal(p.server.err.text, "http request");
	pair_done(&p);
	start(&p, &(struct tls_config){}, &(struct tls_config){});
	tls_handshake(p.client.tls, NULL);
	tls_set_input(p.client.tls, words + 4, sizeof(words) - 5);
	assert_int_equal(tls_handshake(p.client.tls, &p.client.err), TLS_FAILED);
	assert_string_equal(p.client.err.text, "wrong version number");
	assert_string_equal(p.client.err.sqlstate, "08006");
	pair_done(&p);
}

static void test_corrupt_record(void **state)
{
	struct pair p;

	(void)state;
	start(&p, &(struct tls_config){}, &(struct tls_config){});
	pair_expect_done(&p);
	pair_say(&p.client, "first", 5);
	pair_say(&p.client, "second", 6);
	p.client.out.bytes[p.client.out.len - 1] ^= 1;
	pair_run(&p);
	/* The bytes before the broken record are valid. */
	assert_string_equal(buf_text(&p.server.got), "first");
	assert_int_equal(p.server.status, TLS_FAILED);
	assert_string_equal(p.server.err.text, "decryption failed or bad record mac");
	assert_int_equal(p.client.status, TLS_FAILED);
	pair_done(&p);
}

static void test_alpn(void **state)
{
	const struct tls_peer_config direct = {.is_direct = true};
	struct pair p;

	(void)state;
	pair_init(&p, server_context(&(struct tls_config){}),
	    client_context(&(struct tls_config){}), &direct);
	pair_expect_done(&p);
	assert_true(tls_has_alpn(p.server.tls) && tls_has_alpn(p.client.tls));
	pair_done(&p);
	start(&p, &(struct tls_config){}, &(struct tls_config){});
	pair_expect_done(&p);
	assert_false(tls_has_alpn(p.server.tls) || tls_has_alpn(p.client.tls));
	pair_done(&p);
}

static void test_sni(void **state)
{
	static const char *const hosts[] = {"db.example", "127.0.0.1", "::1"};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct tls_peer_config peer = {.host = hosts[i]};
		struct pair p;
		pair_init(&p, server_context(&(struct tls_config){}),
		    client_context(&(struct tls_config){}), &peer);
		tls_handshake(p.client.tls, NULL);
		void *found = memmem(
		    p.client.out.bytes, p.client.out.len, hosts[i], strlen(hosts[i]));
		assert_int_equal(found != NULL, i == 0);
		pair_expect_done(&p);
		pair_done(&p);
	}
}

/* ---- against an OpenSSL client ---- */

struct raw {
	SSL_CTX *ctx;
	SSL *ssl;
	struct end server;
};

static int put_raw(void *ctx, const uint8_t *p, size_t len)
{
	struct raw *raw = ctx;

	return BIO_write(SSL_get_rbio(raw->ssl), p, (int)len) > 0 ? 0 : -1;
}

static void raw_init(
    struct raw *raw, struct tls_context *context, SSL_SESSION *session, int version)
{
	raw->ctx = SSL_CTX_new(TLS_client_method());
	SSL_CTX_set_max_proto_version(raw->ctx, version);
	SSL_CTX_use_certificate_file(
	    raw->ctx, certs_path("client.crt"), SSL_FILETYPE_PEM);
	SSL_CTX_use_PrivateKey_file(
	    raw->ctx, certs_path("client.key"), SSL_FILETYPE_PEM);
	raw->ssl = SSL_new(raw->ctx);
	SSL_set_bio(raw->ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	SSL_set_connect_state(raw->ssl);
	if (session)
		SSL_set_session(raw->ssl, session);
	raw->server = (struct end){};
	buf_init(&raw->server.got, 0);
	raw->server.tls = tls_new(context, NULL, put_raw, raw, &raw->server.err);
}

/* Carries what the client has to send; returns false when there was nothing. */
static bool may_carry_raw(struct raw *raw)
{
	struct end *server = &raw->server;
	uint8_t bytes[20000], room[100];
	size_t len;
	int got = BIO_read(SSL_get_wbio(raw->ssl), bytes, sizeof(bytes));

	if (got <= 0)
		return false;
	tls_set_input(server->tls, bytes, (size_t)got);
	if (!tls_is_complete(server->tls))
		server->status = tls_handshake(server->tls, &server->err);
	while (tls_is_complete(server->tls)) {
		server->status =
		    tls_read(server->tls, room, sizeof(room), &len, &server->err);
		if (server->status != TLS_DONE)
			break;
		buf_put(&server->got, room, len);
	}
	tls_set_input(server->tls, NULL, 0);
	return true;
}

static int raw_run(struct raw *raw)
{
	char room[100];
	int result;

	do {
		result = SSL_do_handshake(raw->ssl);
		if (result == 1)
			SSL_read(raw->ssl, room, sizeof(room));
	} while (may_carry_raw(raw));
	return result;
}

static void raw_done(struct raw *raw)
{
	tls_free(&raw->server.tls);
	buf_done(&raw->server.got);
	SSL_free(raw->ssl);
	SSL_CTX_free(raw->ctx);
}

static bool is_resumed_next_time(
    struct tls_context *first, struct tls_context *second, int version)
{
	struct raw raw;

	raw_init(&raw, first, NULL, version);
	assert_int_equal(raw_run(&raw), 1);
	assert_false(tls_is_resumed(raw.server.tls));
	SSL_SESSION *session = SSL_get1_session(raw.ssl);
	SSL_shutdown(raw.ssl);
	raw_done(&raw);
	raw_init(&raw, second, session, version);
	assert_int_equal(raw_run(&raw), 1);
	bool is_resumed = tls_is_resumed(raw.server.tls);
	char out[TLS_TEXT];
	tls_describe(raw.server.tls, out);
	assert_true(strstr(out, "AES_256") || strstr(out, "AES256"));
	/* The client's certificate is part of the session. */
	assert_true(tls_has_client_certificate(raw.server.tls));
	assert_true(tls_peer_is_named(raw.server.tls, "alice"));
	raw_done(&raw);
	SSL_SESSION_free(session);
	return is_resumed;
}

static void test_resumption(void **state)
{
	static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
	struct tls_config with = {.has_tickets = true, .peer_check = TLS_PEER_REQUIRED};
	struct tls_config without = {.peer_check = TLS_PEER_REQUIRED};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct tls_context *a = server_context(&with),
				   *b = server_context(&with),
				   *none = server_context(&without);
		assert_true(is_resumed_next_time(a, a, versions[i]));
		/* The ticket keys belong to the context. */
		assert_false(is_resumed_next_time(a, b, versions[i]));
		assert_false(is_resumed_next_time(none, none, versions[i]));
		tls_context_unref(&a);
		tls_context_unref(&b);
		tls_context_unref(&none);
	}
}

static void test_renegotiation_is_refused(void **state)
{
	struct tls_context *context = server_context(&(struct tls_config){});
	struct raw raw;

	(void)state;
	raw_init(&raw, context, NULL, TLS1_2_VERSION);
	assert_int_equal(raw_run(&raw), 1);
	assert_int_equal(SSL_renegotiate(raw.ssl), 1);
	assert_int_equal(raw_run(&raw), -1);
	raw_done(&raw);
	tls_context_unref(&context);
}

static void test_other_protocols_are_refused(void **state)
{
	static const struct {
		const char *offer;
		size_t len;
		bool is_good;
	} offers[] = {{"\2h2", 3, false}, {"\2h2\012postgresql", 14, true},
	    {"\013postgresqlx", 12, false}, {"\012postgresql\2h2", 14, true}};

	(void)state;
	for (size_t i = 0; i < sizeof(offers) / sizeof(offers[0]); i++) {
		struct tls_context *context = server_context(&(struct tls_config){});
		struct raw raw;
		raw_init(&raw, context, NULL, TLS1_3_VERSION);
		tls_context_unref(&context);
		SSL_set_alpn_protos(
		    raw.ssl, (const uint8_t *)offers[i].offer, (unsigned)offers[i].len);
		assert_int_equal(raw_run(&raw), offers[i].is_good ? 1 : -1);
		assert_int_equal(tls_has_alpn(raw.server.tls), offers[i].is_good);
		if (!offers[i].is_good)
			assert_int_equal(raw.server.status, TLS_FAILED);
		raw_done(&raw);
	}
}

/* ---- against an OpenSSL server ---- */

static SSL *raw_server(SSL_CTX **ctx)
{
	*ctx = SSL_CTX_new(TLS_server_method());
	SSL_CTX_use_certificate_file(*ctx, certs_path("server.crt"), SSL_FILETYPE_PEM);
	SSL_CTX_use_PrivateKey_file(*ctx, certs_path("server.key"), SSL_FILETYPE_PEM);
	SSL *ssl = SSL_new(*ctx);
	SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	SSL_set_accept_state(ssl);
	return ssl;
}

static int large_ticket(SSL *ssl, void *ctx)
{
	static const uint8_t filling[3000];

	(void)ctx;
	return SSL_SESSION_set1_ticket_appdata(
	    SSL_get_session(ssl), filling, sizeof(filling));
}

static SSL_TICKET_RETURN any_ticket(SSL *ssl, SSL_SESSION *session,
    const unsigned char *name, size_t len, SSL_TICKET_STATUS status, void *ctx)
{
	(void)ssl, (void)session, (void)name, (void)len, (void)ctx;
	return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE
					    : SSL_TICKET_RETURN_IGNORE;
}

/* Bytes that the client wrote go to the raw server, which answers. */
static int feed_raw_server(SSL *ssl, struct pair *p)
{
	BIO_write(SSL_get_rbio(ssl), p->client.out.bytes, (int)p->client.out.len);
	buf_clear(&p->client.out);
	return SSL_do_handshake(ssl);
}

/* Nothing can be written while only half a ticket has come. */
static void test_write_amid_a_message(void **state)
{
	struct pair p;
	uint8_t bytes[20000];
	char room[10];
	SSL_CTX *ctx;
	SSL *ssl = raw_server(&ctx);
	size_t half = 600;

	(void)state;
	SSL_CTX_set_session_ticket_cb(ctx, large_ticket, any_ticket, NULL);
	SSL_set_max_send_fragment(ssl, 512);
	start(&p, &(struct tls_config){}, &(struct tls_config){});
	assert_int_equal(tls_handshake(p.client.tls, NULL), TLS_HUNGRY);
	feed_raw_server(ssl, &p);
	int got = BIO_read(SSL_get_wbio(ssl), bytes, sizeof(bytes));
	tls_set_input(p.client.tls, bytes, (size_t)got);
	assert_int_equal(tls_handshake(p.client.tls, NULL), TLS_DONE);
	assert_int_equal(feed_raw_server(ssl, &p), 1);
	got = BIO_read(SSL_get_wbio(ssl), bytes, sizeof(bytes));
	assert_true((size_t)got > half);
	tls_set_input(p.client.tls, bytes, half);
	assert_int_equal(tls_peek(p.client.tls, NULL), TLS_HUNGRY);
	const uint8_t *hello = (const uint8_t *)"hello";
	assert_int_equal(tls_write(p.client.tls, hello, 5, NULL), TLS_HUNGRY);
	assert_true(tls_is_complete(p.client.tls));
	tls_set_input(p.client.tls, bytes + half, (size_t)got - half);
	assert_int_equal(tls_peek(p.client.tls, NULL), TLS_HUNGRY);
	assert_int_equal(tls_write(p.client.tls, hello, 5, NULL), TLS_DONE);
	feed_raw_server(ssl, &p);
	assert_int_equal(SSL_read(ssl, room, sizeof(room)), 5);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	pair_done(&p);
}

/* The server does not know ALPN. */
static void test_direct_needs_alpn(void **state)
{
	const struct tls_peer_config direct = {.is_direct = true};
	struct pair p;
	uint8_t bytes[20000];
	SSL_CTX *ctx;
	SSL *ssl = raw_server(&ctx);

	(void)state;
	pair_init(&p, server_context(&(struct tls_config){}),
	    client_context(&(struct tls_config){}), &direct);
	tls_handshake(p.client.tls, NULL);
	feed_raw_server(ssl, &p);
	int got = BIO_read(SSL_get_wbio(ssl), bytes, sizeof(bytes));
	tls_set_input(p.client.tls, bytes, (size_t)got);
	assert_int_equal(tls_handshake(p.client.tls, &p.client.err), TLS_FAILED);
	assert_string_equal(p.client.err.text,
	    "the server did not select ALPN protocol \"postgresql\"");
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	pair_done(&p);
}

/* ---- faults on the pooler's side ---- */

static int put_nothing(void *ctx, const uint8_t *p, size_t len)
{
	(void)ctx, (void)p, (void)len;
	return -1;
}

static void test_no_memory_for_output(void **state)
{
	struct tls_context *context = client_context(&(struct tls_config){});
	struct err err;

	(void)state;
	struct tls *tls = tls_new(context, &nobody, put_nothing, NULL, &err);
	assert_int_equal(tls_handshake(tls, &err), TLS_FAILED);
	assert_string_equal(err.text, "out of memory");
	tls_free(&tls);
	tls_context_unref(&context);
}

static void test_impossible_host(void **state)
{
	struct tls_context *context = client_context(&(struct tls_config){});
	char host[400];
	struct err err;

	(void)state;
	memset(host, 'h', sizeof(host) - 1);
	host[sizeof(host) - 1] = '\0';
	struct tls_peer_config peer = {.host = host};
	assert_null(tls_new(context, &peer, put_nothing, NULL, &err));
	assert_non_null(strstr(err.text, "cannot start TLS: "));
	tls_context_unref(&context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_versions_and_bytes),
	    cmocka_unit_test(test_bytes_come_one_by_one),
	    cmocka_unit_test(test_write_amid_a_message),
	    cmocka_unit_test(test_server_prefers_ciphers),
	    cmocka_unit_test(test_nothing_in_common),
	    cmocka_unit_test(test_curves),
	    cmocka_unit_test(test_plain_diffie_hellman),
	    cmocka_unit_test(test_no_tls_at_all),
	    cmocka_unit_test(test_corrupt_record),
	    cmocka_unit_test(test_alpn),
	    cmocka_unit_test(test_sni),
	    cmocka_unit_test(test_resumption),
	    cmocka_unit_test(test_renegotiation_is_refused),
	    cmocka_unit_test(test_other_protocols_are_refused),
	    cmocka_unit_test(test_direct_needs_alpn),
	    cmocka_unit_test(test_no_memory_for_output),
	    cmocka_unit_test(test_impossible_host),
	};

	return cmocka_run_group_tests_name("tls", tests, make_usual_certs, drop_certs);
}
