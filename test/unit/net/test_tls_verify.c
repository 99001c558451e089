/*
 * Verification of certificates: those of clients and servers, names, expiry,
 * revocation; the hash for channel binding.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include "base/mem.h"
#include "certs.h"
#include "pair.h"

static int make_certs(void **state)
{
	make_usual_certs(state);
	certs_make("expired",
	    &(struct cert_wish){.issuer = "ca", .cn = "alice", .is_expired = true});
	certs_make("other-ca", &(struct cert_wish){.cn = "another CA", .is_ca = true});
	certs_make(
	    "stranger", &(struct cert_wish){.issuer = "other-ca", .cn = "alice"});
	certs_make("revoked", &(struct cert_wish){.issuer = "ca", .cn = "alice"});
	certs_revoke("ca", "revoked");
	return 0;
}

/* name NULL: the client shows no certificate. */
static struct tls_context *client_with(const char *name)
{
	char cert[40], key[40];

	if (!name)
		return client_context(&(struct tls_config){});
	snprintf(cert, sizeof(cert), "%s.crt", name);
	snprintf(key, sizeof(key), "%s.key", name);
	return client_context(&(struct tls_config){
	    .cert_file = certs_path(cert), .key_file = certs_path(key)});
}

static void expect_client(const struct tls_config *server, const char *name,
    const char *reason, bool has_certificate)
{
	struct pair p;

	pair_init(
	    &p, server_context(server), client_with(name), &(struct tls_peer_config){});
	pair_run(&p);
	if (reason) {
		assert_int_equal(p.server.status, TLS_FAILED);
		assert_string_equal(p.server.err.text, reason);
		assert_int_equal(p.client.status, TLS_FAILED);
	} else {
		assert_true(tls_is_complete(p.server.tls));
		assert_int_equal(p.server.status, TLS_HUNGRY);
		assert_int_equal(
		    tls_has_client_certificate(p.server.tls), has_certificate);
	}
	pair_done(&p);
}

static void test_client_certificates(void **state)
{
	static const char *const protocols[] = {"tlsv1.2", "tlsv1.3"};
	static const char untrusted[] =
	    "certificate verify failed: unable to get local issuer certificate";

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct tls_config c = {
		    .protocols = protocols[i], .peer_check = TLS_PEER_REQUIRED};
		expect_client(&c, "client", NULL, true);
		expect_client(&c, NULL, "peer did not return a certificate", false);
		expect_client(&c, "expired",
		    "certificate verify failed: certificate has expired", false);
		expect_client(&c, "stranger", untrusted, false);
		expect_client(&c, "revoked", NULL, true);
		c.peer_check = TLS_PEER_IF_SHOWN;
		expect_client(&c, "client", NULL, true);
		expect_client(&c, NULL, NULL, false);
		expect_client(&c, "stranger", untrusted, false);
		c.peer_check = TLS_PEER_UNCHECKED;
		expect_client(&c, "stranger", NULL, false);
		c.peer_check = TLS_PEER_REQUIRED;
		c.crl_file = certs_path("ca.crl");
		expect_client(&c, "client", NULL, true);
		expect_client(&c, "revoked",
		    "certificate verify failed: certificate revoked", false);
	}
}

/* A chain of this many CAs between the root and the client. */
static void expect_chain(int length, bool is_good)
{
	char name[24] = "ca", issuer[24], file[24];

	for (int i = 0; i < length; i++) {
		memcpy(issuer, name, sizeof(name));
		snprintf(name, sizeof(name), "chain-%d", i);
		certs_make(name,
		    &(struct cert_wish){.issuer = issuer, .cn = name, .is_ca = true});
	}
	certs_make("deep", &(struct cert_wish){.issuer = name, .cn = "deep"});
	FILE *to = fopen(certs_path("deep.crt"), "a");
	for (int i = length - 1; i >= 0; i--) {
		uint8_t bytes[4000];
		snprintf(file, sizeof(file), "chain-%d.crt", i);
		FILE *from = fopen(certs_path(file), "r");
		fwrite(bytes, 1, fread(bytes, 1, sizeof(bytes), from), to);
		fclose(from);
	}
	fclose(to);
	expect_client(&(struct tls_config){.peer_check = TLS_PEER_REQUIRED}, "deep",
	    is_good ? NULL : "certificate verify failed: certificate chain too long",
	    true);
}

static void test_chain_depth(void **state)
{
	(void)state;
	expect_chain(6, true);
	expect_chain(7, false);
}

/* ---- servers ---- */

static void expect_server(const char *cert, const char *ca, enum tls_peer_check check,
    const struct tls_peer_config *peer, const char *reason)
{
	char cert_file[40], key_file[40];
	struct pair p;

	snprintf(cert_file, sizeof(cert_file), "%s.crt", cert);
	snprintf(key_file, sizeof(key_file), "%s.key", cert);
	pair_init(&p,
	    server_context(&(struct tls_config){
		.cert_file = certs_path(cert_file), .key_file = certs_path(key_file)}),
	    client_context(
		&(struct tls_config){.ca_file = certs_path(ca), .peer_check = check}),
	    peer);
	pair_run(&p);
	if (reason) {
		assert_int_equal(p.client.status, TLS_FAILED);
		assert_non_null(strstr(p.client.err.text, reason));
		/* The server gets an alert, too. */
		assert_int_equal(p.server.status, TLS_FAILED);
	} else {
		if (p.client.status == TLS_FAILED)
			fail_msg("%s: %s", cert, p.client.err.text);
		assert_true(tls_is_complete(p.server.tls));
	}
	pair_done(&p);
}

static void test_server_chains(void **state)
{
	const struct tls_peer_config peer = {.host = "elsewhere.test"};

	(void)state;
	expect_server("server", "ca.crt", TLS_PEER_REQUIRED, &peer, NULL);
	expect_server("server", "other-ca.crt", TLS_PEER_UNCHECKED, &peer, NULL);
	expect_server("expired", "ca.crt", TLS_PEER_UNCHECKED, &peer, NULL);
	expect_server("server", "other-ca.crt", TLS_PEER_REQUIRED, &peer,
	    "signed certificate in certificate chain");
	expect_server("expired", "ca.crt", TLS_PEER_REQUIRED, &peer,
	    "certificate verify failed: certificate has expired");
}

/* The server's file has its own certificate only; the next one is among its CAs. */
static void test_completed_chain(void **state)
{
	const struct tls_peer_config peer = {.host = "elsewhere.test"};
	struct tls_config server = {.peer_check = TLS_PEER_IF_SHOWN};
	struct pair p;

	(void)state;
	certs_make("middle",
	    &(struct cert_wish){.issuer = "ca", .cn = "middle", .is_ca = true});
	certs_make("leaf", &(struct cert_wish){.issuer = "middle", .cn = "leaf"});
	server.cert_file = certs_path("leaf.crt");
	server.key_file = certs_path("leaf.key");
	server.ca_file = certs_path("middle.crt");
	pair_init(&p, server_context(&server),
	    client_context(&(struct tls_config){
		.ca_file = certs_path("ca.crt"), .peer_check = TLS_PEER_REQUIRED}),
	    &peer);
	pair_run(&p);
	if (p.client.status == TLS_FAILED)
		fail_msg("%s", p.client.err.text);
	assert_true(tls_is_complete(p.server.tls));
	pair_done(&p);
}

static void expect_name(const char *cert, const char *host, bool is_good)
{
	const struct tls_peer_config peer = {.host = host, .checks_name = true};
	char reason[200];

	snprintf(reason, sizeof(reason),
	    "certificate verify failed: name \"%s\" not present in server certificate",
	    host);
	expect_server(
	    cert, "ca.crt", TLS_PEER_REQUIRED, &peer, is_good ? NULL : reason);
}

static void test_server_names(void **state)
{
	(void)state;
	certs_make(
	    "names", &(struct cert_wish){.issuer = "ca",
			 .cn = "cn.test",
			 .sans = "DNS:a.test,DNS:*.wild.test,DNS:*.top,DNS:10.0.0.9,"
				 "IP:10.0.0.1,IP:fd00::1"});
	certs_make("only-cn", &(struct cert_wish){.issuer = "ca", .cn = "*.cn.test"});
	certs_make("ip-cn", &(struct cert_wish){.issuer = "ca", .cn = "10.1.1.1"});
	expect_name("server", "server.test", true);
	expect_name("server", "127.0.0.1", true);
	expect_name("server", "127.0.0.2", false);
	expect_name("names", "A.TEST", true);
	expect_name("names", "cn.test", true);
	expect_name("names", "a.test.evil", false);
	expect_name("names", "a", false);
	expect_name("names", "x.wild.test", true);
	expect_name("names", "X.WILD.test", true);
	expect_name("names", "wild.test", false);
	expect_name("names", "x.y.wild.test", false);
	expect_name("names", ".wild.test", false);
	expect_name("names", "x.top", false);
	expect_name("names", "10.0.0.1", true);
	expect_name("names", "10.0.0.2", false);
	expect_name("names", "fd00::1", true);
	expect_name("names", "fd00:0::0:1", true);
	expect_name("names", "fd00::2", false);
	expect_name("only-cn", "db.cn.test", true);
	expect_name("only-cn", "cn.test", false);
	expect_name("ip-cn", "10.1.1.1", true);
	expect_name("ip-cn", "10.1.1.2", false);
}

static void test_wildcards_are_not_for_addresses(void **state)
{
	(void)state;
	certs_make(
	    "star-ip", &(struct cert_wish){
			   .issuer = "ca", .cn = "*.0.0.1", .sans = "DNS:*.0.0.1"});
	expect_name("star-ip", "127.0.0.1", false);
}

/* A name with a NUL must not match the part before the NUL. */
static void test_nul_in_a_name(void **state)
{
	(void)state;
	certs_make("nul", &(struct cert_wish){
			      .issuer = "ca", .cn = "good.test\0.evil", .cn_len = 15});
	expect_name("nul", "good.test", false);
}

/* The user name in a client certificate. */
static void test_user_names(void **state)
{
	struct pair p;

	(void)state;
	pair_init(&p,
	    server_context(&(struct tls_config){.peer_check = TLS_PEER_REQUIRED}),
	    client_with("client"), &(struct tls_peer_config){});
	pair_expect_done(&p);
	assert_true(tls_peer_is_named(p.server.tls, "alice"));
	assert_false(tls_peer_is_named(p.server.tls, "Alice"));
	assert_false(tls_peer_is_named(p.server.tls, "alic"));
	assert_false(tls_peer_is_named(p.server.tls, "alicex"));
	assert_false(tls_peer_is_named(p.server.tls, ""));
	assert_false(tls_peer_is_named(p.server.tls, "*"));
	pair_done(&p);
	pair_init(&p, server_context(&(struct tls_config){}), client_with(NULL),
	    &(struct tls_peer_config){});
	pair_expect_done(&p);
	assert_false(tls_peer_is_named(p.server.tls, "alice"));
	assert_false(tls_peer_is_named(p.server.tls, ""));
	pair_done(&p);
}

static void expect_name_at(const struct pair *p, size_t i, const char *expected)
{
	char *name = tls_peer_name_at(p->server.tls, i);

	if (expected)
		assert_string_equal(name, expected);
	else
		assert_null(name);
	mem_free(name);
}

static void test_names_one_by_one(void **state)
{
	struct pair p;

	(void)state;
	certs_make("many", &(struct cert_wish){.issuer = "ca",
			       .cn = "ann",
			       .sans = "DNS:a.test,IP:127.0.0.1,DNS:*.b.test"});
	pair_init(&p,
	    server_context(&(struct tls_config){.peer_check = TLS_PEER_REQUIRED}),
	    client_with("many"), &(struct tls_peer_config){});
	pair_expect_done(&p);
	expect_name_at(&p, 0, "a.test");
	expect_name_at(&p, 1, "*.b.test");
	expect_name_at(&p, 2, "ann");
	expect_name_at(&p, 3, NULL);
	pair_done(&p);
	pair_init(&p, server_context(&(struct tls_config){}), client_with(NULL),
	    &(struct tls_peer_config){});
	pair_expect_done(&p);
	expect_name_at(&p, 0, NULL);
	pair_done(&p);
}

/* ---- channel binding ---- */

static void expect_hash(const char *name, const char *md)
{
	char cert_file[40], key_file[40];
	uint8_t own[TLS_HASH_MAX], peers[TLS_HASH_MAX], wanted[EVP_MAX_MD_SIZE];
	size_t own_len, peers_len;
	unsigned wanted_len;
	struct pair p;
	int der_len;

	snprintf(cert_file, sizeof(cert_file), "%s.crt", name);
	snprintf(key_file, sizeof(key_file), "%s.key", name);
	pair_init(&p,
	    server_context(&(struct tls_config){
		.cert_file = certs_path(cert_file), .key_file = certs_path(key_file)}),
	    client_context(&(struct tls_config){}), &(struct tls_peer_config){});
	pair_expect_done(&p);
	int own_result = tls_end_point_hash(p.server.tls, true, own, &own_len);
	assert_int_equal(
	    tls_end_point_hash(p.client.tls, false, peers, &peers_len), own_result);
	/* Neither end has the certificate for the hash of the other direction. */
	assert_int_equal(tls_end_point_hash(p.client.tls, true, wanted, &own_len), -1);
	assert_int_equal(tls_end_point_hash(p.server.tls, false, wanted, &own_len), -1);
	if (md) {
		uint8_t *der = certs_der(name, &der_len);
		EVP_Digest(der, (size_t)der_len, wanted, &wanted_len,
		    EVP_get_digestbyname(md), NULL);
		mem_free(der);
		assert_int_equal(own_result, 0);
		assert_int_equal(peers_len, wanted_len);
		assert_memory_equal(own, wanted, wanted_len);
		assert_memory_equal(peers, wanted, wanted_len);
	} else {
		assert_int_equal(own_result, -1);
	}
	pair_done(&p);
}

static void test_end_point_hash(void **state)
{
	(void)state;
	certs_make("ec256", &(struct cert_wish){.cn = "a"});
	certs_make("ec384", &(struct cert_wish){.cn = "a", .hash = "sha384"});
	certs_make("rsa512",
	    &(struct cert_wish){.cn = "a", .hash = "sha512", .key = CERT_RSA});
	certs_make("ed", &(struct cert_wish){.cn = "a", .key = CERT_ED25519});
	/* The signature decides, not the key: an RSA key signed with ECDSA. */
	certs_make("mixed",
	    &(struct cert_wish){.issuer = "ca", .hash = "sha384", .key = CERT_RSA});
	expect_hash("ec256", "sha256");
	expect_hash("ec384", "sha384");
	expect_hash("rsa512", "sha512");
	expect_hash("mixed", "sha384");
	expect_hash("ed", NULL);
}

/* A weak hash of the signature is replaced by SHA-256. */
static void test_end_point_hash_of_sha1(void **state)
{
	uint8_t out[TLS_HASH_MAX], wanted[EVP_MAX_MD_SIZE];
	unsigned wanted_len;
	size_t len;
	int der_len;
	struct pair p;

	(void)state;
	certs_make(
	    "weak", &(struct cert_wish){.cn = "a", .hash = "sha1", .key = CERT_RSA});
	pair_init(&p,
	    server_context(&(struct tls_config){.ciphers = "DEFAULT@SECLEVEL=0",
		.cert_file = certs_path("weak.crt"),
		.key_file = certs_path("weak.key")}),
	    client_context(&(struct tls_config){.ciphers = "DEFAULT@SECLEVEL=0"}),
	    &(struct tls_peer_config){});
	pair_expect_done(&p);
	uint8_t *der = certs_der("weak", &der_len);
	EVP_Digest(der, (size_t)der_len, wanted, &wanted_len, EVP_sha256(), NULL);
	mem_free(der);
	assert_int_equal(tls_end_point_hash(p.client.tls, false, out, &len), 0);
	assert_int_equal(len, wanted_len);
	assert_memory_equal(out, wanted, len);
	pair_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_client_certificates),
	    cmocka_unit_test(test_chain_depth),
	    cmocka_unit_test(test_server_chains),
	    cmocka_unit_test(test_completed_chain),
	    cmocka_unit_test(test_server_names),
	    cmocka_unit_test(test_wildcards_are_not_for_addresses),
	    cmocka_unit_test(test_nul_in_a_name),
	    cmocka_unit_test(test_user_names),
	    cmocka_unit_test(test_names_one_by_one),
	    cmocka_unit_test(test_end_point_hash),
	    cmocka_unit_test(test_end_point_hash_of_sha1),
	};

	return cmocka_run_group_tests_name("tls_verify", tests, make_certs, drop_certs);
}
