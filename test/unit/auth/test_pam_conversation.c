/*
 * What the modules of a PAM service may ask, and what may fail around them.  The
 * functions of PAM are those of this program.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "auth/external_auth.h"
#include "config.h"

#ifdef HAVE_PAM
#	include <security/pam_appl.h>

struct pam_handle {
	const struct pam_conv *conversation;
};

static struct {
	const char *fails; /* the function that fails; "": none */
	int styles[4], count;
	char answers[64]; /* of the last conversation, each with a comma */
} service;

static int result_of(const char *function)
{
	return strcmp(service.fails, function) == 0 ? PAM_SYSTEM_ERR : PAM_SUCCESS;
}

int pam_start(const char *name, const char *user, const struct pam_conv *conversation,
    pam_handle_t **handle)
{
	static struct pam_handle only;

	(void)name, (void)user;
	only.conversation = conversation;
	if (result_of("pam_start") != PAM_SUCCESS)
		return PAM_SYSTEM_ERR;
	*handle = &only;
	return PAM_SUCCESS;
}

int pam_end(pam_handle_t *handle, int code)
{
	(void)handle;
	return code;
}

int pam_set_item(pam_handle_t *handle, int kind, const void *item)
{
	(void)handle, (void)kind, (void)item;
	return result_of("pam_set_item");
}

const char *pam_strerror(pam_handle_t *handle, int code)
{
	(void)handle;
	return code == PAM_CONV_ERR ? "conversation" : "system";
}

int pam_authenticate(pam_handle_t *handle, int flags)
{
	struct pam_message messages[4];
	const struct pam_message *asked[4];
	struct pam_response *answers = NULL;
	int code;

	(void)flags;
	for (int i = 0; i < 4; i++) {
		messages[i] = (struct pam_message){service.styles[i], "?"};
		asked[i] = &messages[i];
	}
	code = handle->conversation->conv(
	    service.count, asked, &answers, handle->conversation->appdata_ptr);
	for (int i = 0; answers && i < service.count; i++) {
		strcat(service.answers, answers[i].resp ? answers[i].resp : "");
		strcat(service.answers, ",");
		free(answers[i].resp);
	}
	free(answers);
	return code == PAM_SUCCESS ? result_of("pam_authenticate") : code;
}

int pam_acct_mgmt(pam_handle_t *handle, int flags)
{
	(void)handle, (void)flags;
	return result_of("pam_acct_mgmt");
}

static void expect(const char *answers, const char *why)
{
	struct err err = {{0}, {0}};
	int result = external_auth_pam_check("u", "secret", "host", &err);

	assert_int_equal(result, why ? -1 : 0);
	assert_string_equal(err.text, why ? why : "");
	assert_string_equal(service.answers, answers);
	*service.answers = '\0';
}

static void modules_may_tell_and_ask_for_the_password(void **state)
{
	(void)state;
	service.fails = "";
	service.count = 3;
	service.styles[0] = PAM_TEXT_INFO;
	service.styles[1] = PAM_PROMPT_ECHO_OFF;
	service.styles[2] = PAM_ERROR_MSG;
	expect(",secret,,", NULL);
	/* nobody can answer this; what was answered before is not left behind */
	service.styles[2] = PAM_PROMPT_ECHO_ON;
	expect("", "pam_authenticate() failed: conversation");
	service.count = 0;
	expect("", "pam_authenticate() failed: conversation");
	service.count = PAM_MAX_NUM_MSG + 1;
	expect("", "pam_authenticate() failed: conversation");
}

static void each_function_may_fail(void **state)
{
	static const char *const functions[][2] = {{"pam_start", ""},
	    {"pam_set_item", ""}, {"pam_authenticate", "secret,"},
	    {"pam_acct_mgmt", "secret,"}};
	char why[64];

	(void)state;
	service.count = 1;
	service.styles[0] = PAM_PROMPT_ECHO_OFF;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		service.fails = functions[i][0];
		snprintf(why, sizeof(why), "%s() failed: system", service.fails);
		expect(functions[i][1], why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(modules_may_tell_and_ask_for_the_password),
	    cmocka_unit_test(each_function_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
	return 0;
}
#endif
