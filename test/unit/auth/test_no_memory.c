/*
 * SCRAM and the jobs of helper threads, when there is no memory for a part of them:
 * they fail, nothing leaks, and a wrong proof is never taken for a right one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../no_memory.h"
#include "auth/external_auth.h"
#include "auth/kerberos.h"
#include "auth/key_cache.h"
#include "auth/oauth_check.h"
#include "auth/password_job.h"
#include "auth/saslprep.h"
#include "auth/scram.h"

/* ---- SCRAM ---- */

struct exchange {
	struct scram_server server;
	struct scram_client client;
	struct buf to_server, to_client;
};

static enum scram_result client_step(struct exchange *x)
{
	struct err err;
	uint8_t salted[SCRAM_KEY_LEN];
	enum scram_result result;

	buf_clear(&x->to_server);
	result = scram_client_step(
	    &x->client, x->to_client.bytes, x->to_client.len, &x->to_server, &err);
	if (result != SCRAM_DERIVE)
		return result;
	const struct scram_due due = scram_client_due(&x->client);
	if (scram_derive(&due, salted) < 0)
		return SCRAM_FAIL;
	return scram_client_resume(&x->client, salted, &x->to_server, &err);
}

static enum scram_result server_step(struct exchange *x)
{
	struct err err;

	buf_clear(&x->to_client);
	return scram_server_step(
	    &x->server, x->to_server.bytes, x->to_server.len, &x->to_client, &err);
}

/* Whether each side has proven itself to the other one. */
static bool is_proven(struct exchange *x)
{
	return client_step(x) == SCRAM_MORE && server_step(x) == SCRAM_MORE &&
	       client_step(x) == SCRAM_MORE && server_step(x) == SCRAM_DONE &&
	       client_step(x) == SCRAM_DONE;
}

static bool is_proven_with(const char *password)
{
	struct scram_verifier verifier;
	struct exchange x = {0};
	bool is_on = no_memory.is_on;

	no_memory.is_on = false;
	scram_verifier_from_password(&verifier, "pencil", 5);
	no_memory.is_on = is_on;
	scram_server_init(&x.server, &verifier, false, NULL);
	scram_client_init(&x.client, password, NULL, NULL, NULL);
	buf_init(&x.to_server, 0);
	buf_init(&x.to_client, 0);
	bool result = is_proven(&x);
	scram_server_done(&x.server);
	scram_client_done(&x.client);
	scram_verifier_done(&verifier);
	buf_done(&x.to_server);
	buf_done(&x.to_client);
	return result;
}

static void exchange_fails(void **state)
{
	(void)state;
	for_each_failure(n)
	{
		no_memory.is_on = true;
		bool is_right = is_proven_with("pencil");
		no_memory.is_on = false;
		assert_true(is_right || no_memory_has_failed());
	}
	for_each_failure(n)
	{
		no_memory.is_on = true;
		assert_false(is_proven_with("pen"));
		no_memory.is_on = false;
	}
}

/* The longer one needs more than one block while it is taken apart. */
static void password_is_not_prepared(void **state)
{
	static const char *const passwords[] = {"ascii", "\xc3\xa9\xc2\xaa",
	    "\xef\xb7\xba\xef\xb7\xba\xef\xb7\xba\xef\xb7\xba\xef\xb7\xba"};

	(void)state;
	for (size_t i = 0; i < sizeof(passwords) / sizeof(passwords[0]); i++)
		for_each_failure(n)
		{
			no_memory.is_on = true;
			char *prepared;
			int result = saslprep(passwords[i], &prepared);
			no_memory.is_on = false;
			assert_int_equal(result, no_memory_has_failed() ? -1 : 0);
			assert_int_equal(!prepared, no_memory_has_failed());
			mem_free_secret(prepared);
		}
}

/* ---- jobs ---- */

static void logins_are_not_made(void **state)
{
	(void)state;
	for_each_failure(n)
	{
		no_memory.is_on = true;
		struct external_auth *pam =
		    external_auth_new_pam("u", "secret", "host", NULL, NULL);
		struct external_auth *ldap =
		    external_auth_new_ldap("u", "secret", "ldapserver=x", NULL, NULL);
		no_memory.is_on = false;
		assert_int_equal(!pam || !ldap, no_memory_has_failed());
		if (pam)
			external_auth_discard(pam);
		if (ldap)
			external_auth_discard(ldap);
	}
}

static void derivation_is_not_made(void **state)
{
	const struct scram_due due = {.password = "secret",
	    .salt = (const uint8_t *)"salt",
	    .salt_len = 4,
	    .iterations = 1};

	(void)state;
	for_each_failure(n)
	{
		no_memory.is_on = true;
		struct key_job *job = key_job_new(&due, 0, NULL, NULL);
		no_memory.is_on = false;
		assert_int_equal(!job, no_memory_has_failed());
		if (job)
			key_job_discard(job);
	}
}

static void token_is_not_taken(void **state)
{
	const struct oauth_request request = {.token = "secret",
	    .token_len = 6,
	    .issuer = "https://x",
	    .scope = "s",
	    .command = "true"};

	(void)state;
	for_each_failure(n)
	{
		struct kerberos_exchange *x = kerberos_accept_new("");
		no_memory.is_on = true;
		struct kerberos_job *step = kerberos_job_new(
		    HELPERS_TICKET, &x, (const uint8_t *)"token", 5, NULL, NULL);
		struct oauth_check *check = oauth_check_new(&request, 0, NULL, NULL);
		no_memory.is_on = false;
		assert_int_equal(!step || !check, no_memory_has_failed());
		if (step)
			kerberos_job_discard(step);
		if (check)
			oauth_check_discard(check);
		kerberos_exchange_free(&x);
	}
}

static void file_is_not_read(void **state)
{
	const struct password_request request = {.file = __FILE__, .host = ""};
	struct err err;

	(void)state;
	for_each_failure(n)
	{
		no_memory.is_on = true;
		char *got = password_job_fetch(&request, NULL, &err);
		no_memory.is_on = false;
		assert_int_equal(!got, no_memory_has_failed());
		if (!got)
			assert_non_null(strstr(err.text, "out of memory"));
		mem_free_secret(got);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(exchange_fails),
	    cmocka_unit_test(password_is_not_prepared),
	    cmocka_unit_test(logins_are_not_made),
	    cmocka_unit_test(derivation_is_not_made),
	    cmocka_unit_test(token_is_not_taken),
	    cmocka_unit_test(file_is_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
