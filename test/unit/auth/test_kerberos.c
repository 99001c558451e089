/* Kerberos without a KDC: names, tokens that are none, and why there is no ticket. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "auth/helpers.h"
#include "auth/kerberos.h"
#include "base/mem.h"
#include "keytab.h"

static char dir[] = "/tmp/auth-kerberos-XXXXXX", keytab[64], config[64];

static int set_up(void **state)
{
	FILE *file;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(keytab, sizeof(keytab), "%s/keytab", dir);
	snprintf(config, sizeof(config), "%s/krb5.conf", dir);
	keytab_write(keytab);
	file = fopen(config, "w");
	assert_non_null(file);
	/* nobody listens there */
	fputs("[libdefaults]\n default_realm = EXAMPLE.COM\n dns_lookup_kdc = false\n"
	      " dns_canonicalize_hostname = false\n"
	      "[realms]\n EXAMPLE.COM = {\n  kdc = 127.0.0.1:9\n }\n",
	    file);
	fclose(file);
	setenv("KRB5_CONFIG", config, 1);
	setenv("KRB5CCNAME", "FILE:/nonexistent/cache", 1);
	setenv("KRB5RCACHEDIR", dir, 1);
	return 0;
}

static int clean_up(void **state)
{
	(void)state;
	unlink(keytab);
	unlink(config);
	rmdir(dir);
	return 0;
}

static void need_library(void)
{
	if (!kerberos_is_built()) {
		print_message("skipped: built without GSSAPI\n");
		skip();
	}
}

/* ---- names ---- */

static void is_user(const char *principal, bool is_left_out, const char *realm,
    bool is_caseless, const char *expected)
{
	struct err err;
	char *user = kerberos_user_of(principal, is_left_out, realm, is_caseless, &err);

	if (expected)
		assert_string_equal(user ? user : err.text, expected);
	else
		assert_null(user);
	mem_free(user);
}

static void names(void **state)
{
	(void)state;
	is_user("ann@EXAMPLE.COM", false, NULL, false, "ann@EXAMPLE.COM");
	is_user("ann@EXAMPLE.COM", true, NULL, false, "ann");
	is_user("ann/admin@EXAMPLE.COM", true, NULL, false, "ann/admin");
	is_user("ann@EXAMPLE.COM", true, "EXAMPLE.COM", false, "ann");
	is_user("ann@EXAMPLE.COM", true, "example.com", false, NULL);
	is_user("ann@EXAMPLE.COM", true, "example.com", true, "ann");
	is_user("ann@EXAMPLE.COM", false, "EXAMPLE", false, NULL);
	is_user("ann@EXAMPLE.COM.ORG", true, "EXAMPLE.COM", false, NULL);
	/* an @ in a part of the name does not begin the realm */
	is_user("ann\\@EXAMPLE.COM@EVIL", true, "EXAMPLE.COM", false, NULL);
	is_user("ann\\@x@EVIL", true, NULL, false, "ann\\@x");
	is_user("ann\\\\@EVIL", true, "EVIL", false, "ann\\\\");
	is_user("ann", true, NULL, false, "ann");
	is_user("ann", true, "EXAMPLE.COM", false, NULL);
	is_user("", true, NULL, false, "");
	is_user("@EXAMPLE.COM", true, "EXAMPLE.COM", false, "");
	is_user("ann\\", true, NULL, false, "ann\\");
	assert_string_equal(kerberos_keytab_path("/a"), "/a");
	assert_string_equal(kerberos_keytab_path("FILE:/a"), "/a");
	assert_null(kerberos_keytab_path(""));
	assert_null(kerberos_keytab_path("MEMORY:a"));
	assert_null(kerberos_keytab_path("a"));
}

/* ---- steps ---- */

/* Takes one step, which fails for this reason. */
static void fails(
    struct kerberos_exchange *x, const void *token, size_t len, const char *why)
{
	struct err err;
	struct buf out;

	buf_init(&out, 0);
	assert_int_equal(kerberos_step(x, token, len, &out, &err), KERBEROS_FAILED);
	if (!strstr(err.text, why))
		fail_msg("\"%s\" does not have \"%s\"", err.text, why);
	assert_int_equal(out.len, 0);
	assert_null(kerberos_client(x));
	buf_done(&out);
	kerberos_exchange_free(&x);
}

static void tokens_that_are_none(void **state)
{
	static const char *const tokens[] = {"x", "\x60", "\x60\x84\xff\xff\xff\xff",
	    "p secret", "`\x0b\x06\x09*\x86H\x86\xf7\x12\x01\x02\x02"};
	char *big = calloc(1, 65535);
	struct buf out;
	struct err err;

	(void)state;
	need_library();
	for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++)
		fails(kerberos_accept_new(keytab), tokens[i], strlen(tokens[i]),
		    "accepting GSS security context failed: ");
	fails(kerberos_accept_new(keytab), big, 65535,
	    "accepting GSS security context failed: ");
	free(big);
	/* nothing at all begins a negotiation, which then has to go on */
	struct kerberos_exchange *x = kerberos_accept_new(keytab);
	buf_init(&out, 0);
	assert_int_equal(kerberos_step(x, NULL, 0, &out, &err), KERBEROS_MORE);
	assert_true(out.len > 0);
	assert_null(kerberos_client(x));
	buf_done(&out);
	fails(x, "x", 1, "accepting GSS security context failed: ");
}

static void keys_that_are_none(void **state)
{
	(void)state;
	need_library();
	fails(
	    kerberos_accept_new("/nonexistent/keytab"), "x", 1, "/nonexistent/keytab");
	fails(kerberos_accept_new(config), "x", 1, "no keys to read tickets with: ");
}

static void no_end(void **state)
{
	struct kerberos_exchange *x = kerberos_accept_new("/nonexistent/keytab");
	struct err err;
	struct buf out;

	(void)state;
	buf_init(&out, 0);
	for (int i = 0; i < 8; i++)
		(void)kerberos_step(x, NULL, 0, &out, &err);
	fails(x, "x", 1, "does not end");
}

/* ---- tickets ---- */

static void fails_to_connect(
    const char *keyfile, const char *principal, const char *service, const char *why)
{
	struct kerberos_ticket *t = kerberos_ticket_new(keyfile, principal, service);

	fails(kerberos_connect_new(t), NULL, 0, why);
	fails(kerberos_renew_new(t), NULL, 0, why);
	assert_int_equal(kerberos_ticket_due(t), UINT64_MAX);
	assert_false(kerberos_ticket_claim(t, UINT64_MAX - 1));
	assert_true(kerberos_ticket_ended(t, 0));
	kerberos_ticket_unref(&t);
}

static void no_ticket(void **state)
{
	(void)state;
	need_library();
	fails_to_connect("/nonexistent/keytab", "", "postgres@localhost",
	    "no Kerberos ticket from /nonexistent/keytab: ");
	fails_to_connect(keytab, "absent", "postgres@localhost",
	    "no Kerberos ticket for absent from ");
	fails_to_connect("", "", "postgres@localhost", "no Kerberos ticket");
	fails_to_connect(keytab, "", "postgres@localhost", "Cannot contact any KDC");
	fails_to_connect(keytab, "postgres/localhost", "postgres@localhost",
	    "Cannot contact any KDC");
	fails_to_connect(keytab, "@@@", "postgres@localhost", "no Kerberos ticket");
}

static void *connect_in_thread(void *ticket)
{
	for (int i = 0; i < 10; i++)
		fails(kerberos_connect_new(ticket), NULL, 0, "Cannot contact any KDC");
	return NULL;
}

static void many_want_one(void **state)
{
	struct kerberos_ticket *t =
	    kerberos_ticket_new(keytab, "", "postgres@localhost");
	pthread_t threads[8];

	(void)state;
	need_library();
	for (size_t i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, connect_in_thread, t);
	for (size_t i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	kerberos_ticket_unref(&t);
}

/* ---- jobs ---- */

static void count(struct kerberos_job *job)
{
	assert_int_equal(job->result, KERBEROS_FAILED);
	assert_non_null(job->exchange);
	++*(int *)job->owner;
}

static void as_jobs(void **state)
{
	struct err err;
	struct helpers *helpers = helpers_new(1, 1, NULL, &err);
	int done = 0;

	(void)state;
	assert_non_null(helpers);
	for (int i = 0; i < 50; i++) {
		struct kerberos_exchange *x = kerberos_accept_new(keytab);
		struct kerberos_job *job = kerberos_job_new(
		    HELPERS_ACCEPT, &x, (const uint8_t *)"x", 1, count, &done);
		assert_null(x);
		assert_int_equal(helpers_submit(helpers, &job->job, &err), 0);
		if (i % 2)
			helpers_cancel(&job->job);
	}
	while (done < 25) {
		usleep(1000);
		helpers_collect(helpers);
	}
	assert_int_equal(done, 25);
	struct kerberos_exchange *x = kerberos_accept_new(keytab);
	struct kerberos_job *unused =
	    kerberos_job_new(HELPERS_ACCEPT, &x, NULL, 0, count, &done);
	kerberos_job_discard(unused);
	helpers_free(&helpers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names),
	    cmocka_unit_test(tokens_that_are_none),
	    cmocka_unit_test(keys_that_are_none),
	    cmocka_unit_test(no_end),
	    cmocka_unit_test(no_ticket),
	    cmocka_unit_test(many_want_one),
	    cmocka_unit_test(as_jobs),
	};

	return cmocka_run_group_tests_name("kerberos", tests, set_up, clean_up);
}
