/*
 * Lets PAM check a password in one conversation, on the calling thread, with a handle
 * of its own.  A build without PAM refuses every login.
 */
#include "auth/external_auth.h"
#include "config.h"

#ifdef HAVE_PAM

#	include <stdlib.h>
#	include <string.h>

#	include <security/pam_appl.h>

#	define SERVICE "pgbouncer"

bool external_auth_has_pam(void)
{
	return true;
}

/* The memory of the answer is freed by PAM with free(). */
static int answer(int style, const char *password, char **reply)
{
	switch (style) {
	case PAM_PROMPT_ECHO_OFF:
		*reply = strdup(password);
		return *reply ? PAM_SUCCESS : PAM_BUF_ERR;
	case PAM_ERROR_MSG:
	case PAM_TEXT_INFO:
		return PAM_SUCCESS;
	default:
		/* there is nobody to answer any other question */
		return PAM_CONV_ERR;
	}
}

static void drop_answers(struct pam_response *replies, int count)
{
	for (int i = 0; i < count; i++)
		if (replies[i].resp) {
			explicit_bzero(replies[i].resp, strlen(replies[i].resp));
			free(replies[i].resp);
		}
	free(replies);
}

static int converse(int count, const struct pam_message **messages,
    struct pam_response **responses, void *password)
{
	struct pam_response *replies;

	if (count <= 0 || count > PAM_MAX_NUM_MSG)
		return PAM_CONV_ERR;
	replies = calloc((size_t)count, sizeof(*replies));
	if (!replies)
		return PAM_BUF_ERR;
	for (int i = 0; i < count; i++) {
		char *text = NULL;
		int code = answer(messages[i]->msg_style, password, &text);
		replies[i].resp = text;
		if (code != PAM_SUCCESS) {
			drop_answers(replies, count);
			return code;
		}
	}
	*responses = replies;
	return PAM_SUCCESS;
}

static int failed(pam_handle_t *handle, const char *function, int code, struct err *err)
{
	return err_set(err, "%s() failed: %s", function, pam_strerror(handle, code));
}

static int ask_pam(pam_handle_t *handle, const char *host, int *code, struct err *err)
{
	*code = pam_set_item(handle, PAM_RHOST, host);
	if (*code != PAM_SUCCESS)
		return failed(handle, "pam_set_item", *code, err);
	*code = pam_authenticate(handle, PAM_SILENT);
	if (*code != PAM_SUCCESS)
		return failed(handle, "pam_authenticate", *code, err);
	*code = pam_acct_mgmt(handle, PAM_SILENT);
	if (*code != PAM_SUCCESS)
		return failed(handle, "pam_acct_mgmt", *code, err);
	return 0;
}

int external_auth_pam_check(
    const char *user, const char *password, const char *host, struct err *err)
{
	const struct pam_conv conversation = {
	    .conv = converse, .appdata_ptr = (char *)password};
	pam_handle_t *handle = NULL;
	int code = pam_start(SERVICE, user, &conversation, &handle);
	int result;

	if (code != PAM_SUCCESS)
		return failed(handle, "pam_start", code, err);
	result = ask_pam(handle, host, &code, err);
	pam_end(handle, code);
	return result;
}

#else

bool external_auth_has_pam(void)
{
	return false;
}

int external_auth_pam_check(
    const char *user, const char *password, const char *host, struct err *err)
{
	(void)user;
	(void)password;
	(void)host;
	return err_set_row(err, ERROR_PAM_UNSUPPORTED);
}

#endif
