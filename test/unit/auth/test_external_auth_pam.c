/* Logins against a real PAM service, whose modules come with libpam_wrapper. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "auth/external_auth.h"
#include "scene.h"

static void need_pam(void)
{
	const char *missing = getenv("PAM_MISSING");

	if (!external_auth_has_pam())
		missing = "built without PAM";
	if (!missing)
		return;
	print_message("skipped: %s\n", missing);
	skip();
}

static void expect(
    const char *user, const char *password, const char *host, const char *why)
{
	struct err err = {{0}, {0}};
	int result = external_auth_pam_check(user, password, host, &err);

	if (result != (why ? -1 : 0))
		fail_msg("%s: %d, %s", user, result, err.text);
	if (why && strncmp(err.text, why, strlen(why)) != 0)
		fail_msg("%s: \"%s\"", user, err.text);
	assert_null(strstr(err.text, "pamsecret"));
}

static void test_external_authment(void **state)
{
	static const char *const rejected = "pam_authenticate() failed: ";
	static const char *const no_account = "pam_acct_mgmt() failed: ";

	(void)state;
	need_pam();
	expect("pam_ann", "ann pamsecret 6b3", "127.0.0.1", NULL);
	expect("pam_bob", "bob pamsecret 2c8", "unix", NULL);
	expect("pam_ann", "bob pamsecret 2c8", "127.0.0.1", rejected);
	expect("pam_ann", "ann pamsecret 6b", "127.0.0.1", rejected);
	expect("pam_ann", "", "127.0.0.1", rejected);
	expect("nobody_here", "ann pamsecret 6b3", "127.0.0.1", rejected);
	/* The password is right, but the account is locked. */
	expect("pam_locked", "locked pamsecret 4e1", "127.0.0.1", no_account);
	/* Account modules look at PAM_RHOST. */
	expect("pam_ann", "ann pamsecret 6b3", "192.0.2.1", no_account);
}

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

static void test_side_by_side(void **state)
{
	enum { LOGINS = 20 };
	struct outcome outcomes[LOGINS] = {{0}};
	struct helpers *e;
	struct pollfd watch = {.events = POLLIN};
	int count = 0;

	(void)state;
	need_pam();
	e = helpers_new(4, LOGINS, NULL, NULL);
	watch.fd = helpers_fd(e);
	for (int i = 0; i < LOGINS; i++) {
		struct external_auth *login = external_auth_new_pam("pam_ann",
		    i % 2 ? "ann pamsecret 6b3" : "wrong", "127.0.0.1", note_outcome,
		    &outcomes[i]);
		assert_int_equal(helpers_submit(e, &login->job, NULL), 0);
	}
	while (count < LOGINS) {
		assert_int_equal(poll(&watch, 1, 60000), 1);
		helpers_collect(e);
		count = 0;
		for (int i = 0; i < LOGINS; i++)
			count += outcomes[i].count;
	}
	for (int i = 0; i < LOGINS; i++) {
		assert_int_equal(outcomes[i].count, 1);
		assert_int_equal(outcomes[i].result, i % 2 ? 0 : -1);
		assert_int_equal(*outcomes[i].text == '\0', i % 2);
	}
	helpers_free(&e);
}

static void test_without_pam(void **state)
{
	(void)state;
	if (external_auth_has_pam())
		return;
	expect("pam_ann", "ann pamsecret 6b3", "unix",
	    "pam is not supported by this build");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_external_authment),
	    cmocka_unit_test(test_side_by_side),
	    cmocka_unit_test(test_without_pam),
	};

	(void)argc;
	scene_enter("test/integration/pam.py", argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
