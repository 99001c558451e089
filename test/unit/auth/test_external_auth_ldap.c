/* Logins against a real slapd: every way to reach it, and every way to fail. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "auth/external_auth.h"
#include "base/buf.h"
#include "scene.h"

#define PREFIX "ldapprefix=\"uid=\" ldapsuffix=\",ou=people,dc=example,dc=net\""
#define BASE   "ldapbasedn=\"dc=example,dc=net\""
#define SEARCHER                                        \
	"ldapbinddn=\"cn=searcher,dc=example,dc=net\" " \
	"ldapbindpasswd=\"searcher secret 8c2\""

static void need_ldap(void)
{
	const char *missing = getenv("SLAPD_MISSING");

	if (!external_auth_has_ldap())
		missing = "built without LDAP";
	if (!missing)
		return;
	print_message("skipped: %s\n", missing);
	skip();
}

/* %HOST, %PORT and %TLS_PORT in the text are the directory's. */
static char *fill_in(const char *text)
{
	static const char *const names[] = {"HOST", "PORT", "TLS_PORT"};
	struct buf out;
	char *filled;

	buf_init(&out, 0);
	while (*text) {
		size_t len = 0;
		for (size_t i = 0; *text == '%' && i < 3; i++)
			if (strncmp(text + 1, names[i], strlen(names[i])) == 0) {
				char variable[20];
				snprintf(
				    variable, sizeof(variable), "SLAPD_%s", names[i]);
				buf_put_text(&out, getenv(variable));
				len = 1 + strlen(names[i]);
			}
		if (len == 0)
			buf_put_u8(&out, (uint8_t)text[len++]);
		text += len;
	}
	filled = strdup(buf_text(&out));
	buf_done(&out);
	return filled;
}

static int check(
    const char *options, const char *user, const char *password, struct err *err)
{
	char *text = fill_in(options);
	struct ldap_options o;
	int result;

	memset(err, 0, sizeof(*err));
	result = ldap_options_parse(&o, text, err);
	free(text);
	if (result < 0)
		fail_msg("%s", err->text);
	result = external_auth_ldap_check(&o, user, password, NULL, err);
	ldap_options_done(&o);
	return result;
}

static void accepted(const char *options, const char *user, const char *password)
{
	struct err err;

	if (check(options, user, password, &err) < 0)
		fail_msg("%s, %s: %s", options, user, err.text);
}

static void refused(
    const char *options, const char *user, const char *password, const char *why)
{
	struct err err;

	if (check(options, user, password, &err) == 0)
		fail_msg("%s let %s in", options, user);
	if (!strstr(err.text, why))
		fail_msg("%s, %s: \"%s\"", options, user, err.text);
	/* The message never shows a password, neither the user's nor the searcher's. */
	assert_null(strstr(err.text, " secret "));
}

/* Runs first, before the library has read its environment, in a process of its own that
 * does not trust the directory's certificate. */
static void test_certificate_is_checked(void **state)
{
	pid_t child;
	int status;

	(void)state;
	need_ldap();
	child = fork();
	if (child == 0) {
		struct err err;
		int result;
		setenv("LDAPTLS_CACERT", "/dev/null", 1);
		result = check(
		    "ldapserver=%HOST ldapport=%TLS_PORT ldapscheme=ldaps " PREFIX,
		    "ann", "ann secret 5e1", &err);
		_exit(result < 0 && strstr(err.text, "LDAP login failed") ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void test_simple_bind(void **state)
{
	static const char options[] = "ldapserver=%HOST ldapport=%PORT " PREFIX;

	(void)state;
	need_ldap();
	accepted(options, "ann", "ann secret 5e1");
	accepted(options, "bob", "bob secret 9a4");
	refused(options, "ann", "bob secret 9a4",
	    "LDAP login failed for user \"uid=ann,ou=people,dc=example,dc=net\" on "
	    "server \"ldap://127.0.0.1:");
	refused(options, "ann", "bob secret 9a4", "Invalid credentials");
	refused(options, "nobody", "ann secret 5e1", "Invalid credentials");
	refused(options, "a,,b", "ann secret 5e1", "LDAP login failed for user");
	/* A directory would accept a bind with an empty password. */
	refused(options, "ann", "", "empty password");
}

static void test_search(void **state)
{
	static const char open[] = "ldapserver=%HOST ldapport=%PORT " BASE;
	static const char bound[] =
	    "ldapserver=%HOST ldapport=%PORT " BASE " " SEARCHER;

	(void)state;
	need_ldap();
	accepted(open, "ann", "ann secret 5e1");
	refused(open, "ann", "x", "LDAP login failed for user \"uid=ann,ou=people,");
	refused(open, "nobody", "x", "LDAP user \"nobody\" does not exist");
	refused(open, "ann", "", "empty password");
	/* Only the searcher's account sees sue and the second twin. */
	refused(open, "sue", "sue secret 3f0", "LDAP user \"sue\" does not exist");
	accepted(bound, "sue", "sue secret 3f0");
	accepted(open, "twin", "twin secret 1d7");
	refused(bound, "twin", "twin secret 1d7", "LDAP user \"twin\" is not unique");
	refused(open, "a*", "ann secret 5e1", "invalid character in user name");
	refused(open, "*", "ann secret 5e1", "invalid character in user name");
	refused("ldapserver=%HOST ldapport=%PORT " BASE
		" ldapbinddn=\"cn=searcher,dc=example,dc=net\" ldapbindpasswd=\"a "
		"secret 1\"",
	    "ann", "ann secret 5e1",
	    "could not perform initial LDAP bind for ldapbinddn \"cn=searcher,");
}

static void test_filters_and_scopes(void **state)
{
	(void)state;
	need_ldap();
	accepted("ldapserver=%HOST ldapport=%PORT " BASE " ldapsearchattribute=mail",
	    "ann@example.net", "ann secret 5e1");
	accepted("ldapserver=%HOST ldapport=%PORT " BASE
		 " ldapsearchfilter=(|(uid=$username)(mail=$username@example.net))",
	    "bob", "bob secret 9a4");
	/* This filter finds every user. */
	refused("ldapserver=%HOST ldapport=%PORT " BASE
		" ldapsearchfilter=(objectClass=*)",
	    "bob", "bob secret 9a4", "LDAP user \"bob\" is not unique");
	refused("ldapserver=%HOST ldapport=%PORT " BASE " ldapsearchfilter=((", "bob",
	    "bob secret 9a4", "could not search LDAP for filter \"((\"");
	refused("ldapserver=%HOST ldapport=%PORT ldapbasedn=dc=nowhere", "bob",
	    "bob secret 9a4", "No such object");
	accepted("ldapurl=\"ldap://%HOST:%PORT/dc=example,dc=net?uid?sub\"", "ann",
	    "ann secret 5e1");
	refused("ldapurl=\"ldap://%HOST:%PORT/dc=example,dc=net?uid?one\"", "ann",
	    "ann secret 5e1", "does not exist");
	accepted("ldapurl=\"ldap://%HOST:%PORT/ou=people,dc=example,dc=net?uid?one\"",
	    "ann", "ann secret 5e1");
	accepted("ldapurl=\"ldap://%HOST:%PORT/uid=ann,ou=people,dc=example,dc=net"
		 "??base?(uid=$username)\"",
	    "ann", "ann secret 5e1");
}

static void test_tls(void **state)
{
	(void)state;
	need_ldap();
	accepted("ldapserver=%HOST ldapport=%PORT ldaptls=1 " PREFIX, "ann",
	    "ann secret 5e1");
	accepted("ldapserver=%HOST ldapport=%PORT ldaptls=1 " BASE " " SEARCHER, "sue",
	    "sue secret 3f0");
	accepted("ldapserver=%HOST ldapport=%TLS_PORT ldapscheme=ldaps " PREFIX, "ann",
	    "ann secret 5e1");
	accepted("ldapurl=\"ldaps://%HOST:%TLS_PORT/dc=example,dc=net\"", "bob",
	    "bob secret 9a4");
	refused("ldapserver=%HOST ldapport=%TLS_PORT ldapscheme=ldaps " PREFIX, "ann",
	    "ann secret 5", "Invalid credentials");
	/* StartTLS fails on a TLS port, and the login does not go on without TLS. */
	refused("ldapserver=%HOST ldapport=%TLS_PORT ldaptls=1 " PREFIX, "ann",
	    "ann secret 5e1", "could not start LDAP TLS session");
}

static void test_hosts(void **state)
{
	(void)state;
	need_ldap();
	/* The first server that answers is used; port 1 refuses connections. */
	accepted("ldapserver=\"127.0.0.1:1 %HOST\" ldapport=%PORT " PREFIX, "ann",
	    "ann secret 5e1");
	refused("ldapserver=\"127.0.0.1:1 127.0.0.2:1\" " PREFIX, "ann",
	    "ann secret 5e1", "Can't contact LDAP server");
	refused("ldapserver=no-such-host.invalid " PREFIX, "ann", "ann secret 5e1",
	    "Can't contact LDAP server");
}

static void test_servers_from_dns(void **state)
{
	const char *missing = getenv("SRV_MISSING");

	(void)state;
	need_ldap();
	if (missing) {
		print_message("skipped: %s\n", missing);
		skip();
	}
	accepted(BASE, "ann", "ann secret 5e1");
	accepted(
	    "ldapurl=\"ldap:///ou=people,dc=example,dc=net\"", "ann", "ann secret 5e1");
	refused("ldapbasedn=\"dc=example,dc=org\"", "ann", "ann secret 5e1",
	    "could not find DNS SRV records for \"example.org\"");
	refused("ldapbasedn=\"ou=people\"", "ann", "ann secret 5e1",
	    "could not extract domain name from ldapbasedn");
}

/* ---- on helper threads ---- */

struct outcome {
	int count, result;
	char text[200];
};

static void note_outcome(struct external_auth *login)
{
	struct outcome *outcome = login->owner;

	outcome->count++;
	outcome->result = login->result;
	snprintf(outcome->text, sizeof(outcome->text), "%.190s", login->err.text);
}

static struct external_auth *submit(struct helpers *e, const char *options,
    const char *password, struct outcome *outcome)
{
	char *text = fill_in(options);
	struct external_auth *login =
	    external_auth_new_ldap("ann", password, text, note_outcome, outcome);

	free(text);
	assert_int_equal(helpers_submit(e, &login->job, NULL), 0);
	return login;
}

static void collect(struct helpers *e, const struct outcome *outcomes, int wanted)
{
	struct pollfd watch = {.fd = helpers_fd(e), .events = POLLIN};
	int count = 0;

	while (count < wanted) {
		assert_int_equal(poll(&watch, 1, 60000), 1);
		helpers_collect(e);
		count = 0;
		for (int i = 0; i < wanted; i++)
			count += outcomes[i].count;
	}
}

static void test_jobs(void **state)
{
	enum { LOGINS = 24 };
	static const char *const options[] = {
	    "ldapserver=%HOST ldapport=%PORT " PREFIX,
	    "ldapserver=%HOST ldapport=%PORT ldaptls=1 " BASE,
	    "ldapserver=%HOST ldapport=%TLS_PORT ldapscheme=ldaps " PREFIX,
	};
	struct outcome outcomes[LOGINS] = {{0}};
	struct outcome bad = {0};
	struct helpers *e;

	(void)state;
	need_ldap();
	e = helpers_new(4, LOGINS, NULL, NULL);
	for (int i = 0; i < LOGINS; i++)
		submit(e, options[i % 3], i % 2 ? "ann secret 5e1" : "wrong",
		    &outcomes[i]);
	collect(e, outcomes, LOGINS);
	for (int i = 0; i < LOGINS; i++) {
		if (outcomes[i].result != (i % 2 ? 0 : -1))
			fail_msg("login %d: %s", i, outcomes[i].text);
		assert_int_equal(*outcomes[i].text == '\0', i % 2);
	}
	submit(e, "ldapservers=x", "ann secret 5e1", &bad);
	collect(e, &bad, 1);
	assert_int_equal(bad.result, -1);
	assert_string_equal(bad.text, "invalid LDAP option: \"ldapservers\"");
	helpers_free(&e);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* When a directory takes requests and does not answer them, the thread is free again
 * soon after the client has left, also in the middle of a TLS handshake. */
static void test_silent_directory(void **state)
{
	static const char *const options[] = {
	    "ldapserver=%HOST ldapport=%PORT " PREFIX,
	    "ldapserver=%HOST ldapport=%PORT ldaptls=1 " PREFIX,
	    "ldapserver=%HOST ldapport=%TLS_PORT ldapscheme=ldaps " PREFIX,
	};
	pid_t slapd;

	(void)state;
	need_ldap();
	slapd = atoi(getenv("SLAPD_PID"));
	for (size_t i = 0; i < 3; i++) {
		struct helpers *e = helpers_new(1, 1, NULL, NULL);
		struct outcome outcome = {0};
		struct external_auth *login;
		double start;

		assert_int_equal(kill(slapd, SIGSTOP), 0);
		login = submit(e, options[i], "ann secret 5e1", &outcome);
		while (helpers_waiting(e, HELPERS_ASK) > 0)
			usleep(1000);
		start = now();
		helpers_cancel(&login->job);
		helpers_free(&e);
		assert_int_equal(kill(slapd, SIGCONT), 0);
		assert_true(now() - start < 2.5);
		assert_int_equal(outcome.count, 0);
	}
	accepted(options[2], "ann", "ann secret 5e1");
}

static void test_without_ldap(void **state)
{
	struct ldap_options o = {0};
	struct err err;

	(void)state;
	if (external_auth_has_ldap())
		return;
	assert_int_equal(external_auth_ldap_check(&o, "ann", "x", NULL, &err), -1);
	assert_string_equal(err.text, "ldap is not supported by this build");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_certificate_is_checked),
	    cmocka_unit_test(test_simple_bind),
	    cmocka_unit_test(test_search),
	    cmocka_unit_test(test_filters_and_scopes),
	    cmocka_unit_test(test_tls),
	    cmocka_unit_test(test_hosts),
	    cmocka_unit_test(test_servers_from_dns),
	    cmocka_unit_test(test_jobs),
	    cmocka_unit_test(test_silent_directory),
	    cmocka_unit_test(test_without_ldap),
	};

	(void)argc;
	scene_enter("test/integration/slapd.py", argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
