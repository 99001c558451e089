/*
 * Contexts from configurations: the settings, the files, and the errors of wrong ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "certs.h"
#include "net/tls.h"
#include "pair.h"

static int make_certs(void **state)
{
	make_usual_certs(state);
	certs_make("rsa", &(struct cert_wish){.issuer = "ca", .key = CERT_RSA});
	return 0;
}

static struct tls_config usual(bool is_server)
{
	return (struct tls_config){
	    .is_server = is_server,
	    .cert_file = certs_path("server.crt"),
	    .key_file = certs_path("server.key"),
	};
}

static void expect_error(const struct tls_config *config, const char *text)
{
	struct err err;

	assert_null(tls_context_new(config, &err));
	assert_string_equal(err.text, text);
}

static void expect_good(const struct tls_config *config)
{
	struct err err;
	struct tls_context *context = tls_context_new(config, &err);

	if (!context)
		fail_msg("%s", err.text);
	struct tls_context *again = tls_context_ref(context);
	assert_ptr_equal(again, context);
	tls_context_unref(&context);
	assert_null(context);
	tls_context_unref(&again);
	tls_context_unref(&again);
}

static void test_protocols(void **state)
{
	static const char *const good[] = {"secure", "default", "all", "tlsv1",
	    "TLSv1.2", "tlsv1.0:tlsv1.1", "tlsv1.2,tlsv1.3", "!tlsv1.0", "all,!tlsv1.3",
	    " tlsv1.2 , tlsv1.3 ", "tlsv1.0,tlsv1.2", ""};
	static const char *const bad[] = {"tlsv9", "tlsv1.2,", ",", "!all",
	    "tlsv1.2 tlsv1.3", "tlsv1.2,!tlsv1.2", "!"};

	(void)state;
	for (int is_server = 0; is_server < 2; is_server++) {
		struct tls_config c = usual(is_server);
		for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
			c.protocols = good[i];
			expect_good(&c);
		}
		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			char text[100];
			c.protocols = bad[i];
			snprintf(text, sizeof(text), "invalid %s_tls_protocols: %s",
			    is_server ? "client" : "server", bad[i]);
			expect_error(&c, text);
		}
	}
}

/* Returns the versions that a list really allows. */
static void test_protocol_lists_at_work(void **state)
{
	static const struct {
		const char *list, *version; /* NULL: the list is refused */
		const char *client;
	} cases[] = {
	    {"secure", "TLSv1.3", "all"},
	    {"secure", "TLSv1.2", "tlsv1.2"},
	    {"secure", NULL, "tlsv1.1"},
	    {"all", "TLSv1.1", "tlsv1.1"},
	    {"all,!tlsv1.3", "TLSv1.2", "all"},
	    {"!tlsv1.3:!tlsv1.1", "TLSv1.2", "all"},
	    {"tlsv1.0,tlsv1.2", NULL, "tlsv1.1"},
	    {"tlsv1.0,tlsv1.2", "TLSv1", "tlsv1.0"},
	    {"", NULL, "tlsv1.1"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tls_config server = {
		    .protocols = cases[i].list, .ciphers = "ALL@SECLEVEL=0"};
		struct tls_config client = {
		    .protocols = cases[i].client, .ciphers = "ALL@SECLEVEL=0"};
		struct pair p;
		pair_init(&p, server_context(&server), client_context(&client),
		    &(struct tls_peer_config){});
		pair_run(&p);
		assert_int_equal(
		    tls_is_complete(p.server.tls), cases[i].version != NULL);
		if (cases[i].version) {
			char out[TLS_TEXT];
			tls_describe(p.server.tls, out);
			*strchr(out, '/') = '\0';
			assert_string_equal(out, cases[i].version);
		}
		pair_done(&p);
	}
}

static void test_words(void **state)
{
	struct tls_config c = usual(true);

	(void)state;
	c.ciphers = "nothing-like-that";
	expect_error(&c, "invalid client_tls_ciphers: nothing-like-that");
	c.is_server = false;
	expect_error(&c, "invalid server_tls_ciphers: nothing-like-that");
	c.is_server = true;
	c.ciphers = "Fast";
	c.dheparams = "legacy";
	expect_error(&c, "invalid client_tls_dheparams: legacy");
	c.dheparams = "none";
	c.ecdhcurve = "P-1";
	expect_error(&c, "invalid client_tls_ecdhecurve: P-1 (client_tls_ecdhcurve)");
	c.ecdhcurve = "X25519:prime256v1";
	c.tls13_ciphers = "TLS_WRONG";
	expect_error(&c, "TLS setup failed: failed to set the TLSv1.3 cipher suites: "
			 "client_tls13_ciphers is TLS_WRONG");
	c.tls13_ciphers = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384";
	expect_good(&c);
	c.ecdhcurve = "none";
	expect_good(&c);
}

static void expect_file_error(
    const struct tls_config *c, const char *format, const char *file)
{
	char text[300];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(text, sizeof(text), format, file);
#pragma GCC diagnostic pop
	expect_error(c, text);
}

static void test_own_certificate(void **state)
{
	static const char mismatch[] =
	    "TLS setup failed: private/public key mismatch: client_tls_key_file does "
	    "not belong to client_tls_cert_file";
	struct tls_config c = usual(true);

	(void)state;
	c.cert_file = "/nowhere/f";
	expect_error(&c,
	    "TLS setup failed: failed to load certificate file \"/nowhere/f\": No "
	    "such file or directory");
	c.cert_file = certs_path("server.key");
	expect_file_error(&c,
	    "TLS setup failed: failed to load certificate file \"%s\": no start line",
	    c.cert_file);
	c = usual(true);
	c.key_file = "/nowhere/f";
	expect_error(&c,
	    "TLS setup failed: failed to load private key file \"/nowhere/f\": No "
	    "such file or directory");
	c.key_file = certs_path("client.key");
	expect_error(&c, mismatch);
	c.key_file = certs_path("rsa.key");
	expect_error(&c, mismatch);
}

static void test_half_of_a_certificate(void **state)
{
	static const char half[] =
	    "TLS setup failed: a certificate and its key must both be given: "
	    "server_tls_cert_file and server_tls_key_file";
	struct tls_config c = usual(true);

	(void)state;
	c.key_file = NULL;
	expect_error(&c, "To allow TLS connections from clients, client_tls_key_file "
			 "and client_tls_cert_file must be set.");
	c.is_server = false;
	expect_error(&c, half);
	c = usual(false);
	c.cert_file = "";
	expect_error(&c, half);
	c.key_file = "";
	expect_good(&c);
}

/* OpenSSL does not ask for a password on the terminal. */
static void test_encrypted_key(void **state)
{
	static const char text[] =
	    "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
	    "MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgxWcZ7KJB2vQICCAAw\n"
	    "DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEAAAAAAAAAAAAAAAAAAAAAAEgZAA\n"
	    "-----END ENCRYPTED PRIVATE KEY-----\n";
	struct tls_config c = usual(true);
	struct err err;

	(void)state;
	c.key_file = certs_path("locked.crl");
	FILE *f = fopen(c.key_file, "w");
	fputs(text, f);
	fclose(f);
	assert_null(tls_context_new(&c, &err));
	assert_non_null(strstr(err.text, "failed to load private key file"));
	remove(c.key_file);
}

static void test_trust(void **state)
{
	struct tls_config c = usual(true);

	(void)state;
	c.peer_check = TLS_PEER_REQUIRED;
	expect_good(&c); /* the system's bundle */
	c.ca_file = "/nowhere/f";
	expect_file_error(&c,
	    "TLS setup failed: failed to load CA: No such file or directory (%s)",
	    c.ca_file);
	c.ca_file = certs_path("server.key");
	expect_file_error(&c,
	    "TLS setup failed: failed to load CA: no certificate or crl found (%s)",
	    c.ca_file);
	c.ca_file = certs_path("ca.crt");
	c.crl_file = "/nowhere/f";
	expect_error(&c,
	    "TLS setup failed: failed to load CRL file \"/nowhere/f\": No such file "
	    "or directory");
	c.crl_file = certs_path("ca.crt");
	expect_file_error(&c,
	    "TLS setup failed: failed to load CRL file \"%s\": no start line",
	    c.crl_file);
	certs_revoke("ca", NULL);
	c.crl_file = certs_path("ca.crl");
	expect_good(&c);
}

static void test_dates(void **state)
{
	struct tls_dates dates;
	FILE *both = fopen(certs_path("both.crt"), "w");
	char line[256];

	(void)state;
	certs_make("old", &(struct cert_wish){.cn = "old\n", .is_expired = true});
	certs_make("young", &(struct cert_wish){.cn = "young"});
	assert_int_equal(tls_dates_read("/nowhere/f", false, &dates), -1);
	assert_int_equal(tls_dates_read(certs_path("server.key"), false, &dates), -1);
	assert_int_equal(tls_dates_read(certs_path("old.crt"), false, &dates), 0);
	assert_true(dates.begins_s < dates.ends_s && dates.ends_s < time(NULL));
	assert_string_equal(dates.subject, "CN=old\\0A,O=tests");
	assert_int_equal(tls_dates_read(certs_path("young.crt"), true, &dates), 0);
	assert_true(dates.begins_s <= time(NULL) && dates.ends_s > time(NULL));
	for (int i = 0; i < 2; i++) {
		FILE *one = fopen(certs_path(i ? "old.crt" : "young.crt"), "r");
		while (fgets(line, sizeof(line), one))
			fputs(line, both);
		fclose(one);
	}
	fclose(both);
	assert_int_equal(tls_dates_read(certs_path("both.crt"), false, &dates), 0);
	assert_string_equal(dates.subject, "CN=old\\0A,O=tests");
	assert_int_equal(tls_dates_read(certs_path("both.crt"), true, &dates), 0);
	assert_string_equal(dates.subject, "CN=young,O=tests");
	remove(certs_path("both.crt"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_protocols),
	    cmocka_unit_test(test_protocol_lists_at_work),
	    cmocka_unit_test(test_words),
	    cmocka_unit_test(test_own_certificate),
	    cmocka_unit_test(test_half_of_a_certificate),
	    cmocka_unit_test(test_encrypted_key),
	    cmocka_unit_test(test_trust),
	    cmocka_unit_test(test_dates),
	};

	return cmocka_run_group_tests_name(
	    "tls_context", tests, make_certs, drop_certs);
}
