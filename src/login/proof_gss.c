/*
 * GSSAPI with a client: each of its tokens is a job for a helper thread, which answers
 * with a token or knows who the client is.  Then realm and ident map of the rule decide
 * whether it may log in as the user, whom nobody else has to know.
 */
#include "login/proof_gss.h"

#include <string.h>
#include <strings.h>

#include "auth/kerberos.h"
#include "login/login_state.h"
#include "login/proof_external.h"
#include "login/proof_sasl.h"
#include "wire/codec.h"

static bool is_named(void *ctx, const char *name)
{
	return strcmp(ctx, name) == 0;
}

static bool is_named_caselessly(void *ctx, const char *name)
{
	return strcasecmp(ctx, name) == 0;
}

static const char *name_at(void *ctx, size_t i)
{
	return i == 0 ? ctx : NULL;
}

/* With the principal in hand, PROOF_DONE: it may log in as the user. */
static void stepped(struct kerberos_job *job)
{
	struct client *client = job->owner;
	struct login *login = client->login;
	const struct hba_rule *rule = login->rule;
	bool is_caseless = site_settings(client->conn.site)->krb_caseins_users;
	enum proof proof = job->result == KERBEROS_MORE ? PROOF_MORE : PROOF_FAILED;
	char word[LOG_WORD], *name = NULL;

	login->kerberos = job->exchange;
	job->exchange = NULL;
	if (!client->conn.is_doomed && job->out.len)
		proof_send_auth(
		    client, AUTH_REQ_GSS_CONTINUE, job->out.bytes, job->out.len);
	if (job->result == KERBEROS_DONE)
		name = kerberos_user_of(kerberos_client(login->kerberos),
		    rule->is_realm_left_out, rule->realm, is_caseless, &job->err);
	if (name) {
		const struct ident_names names = {
		    .is_name = is_caseless ? is_named_caselessly : is_named,
		    .name_at = name_at,
		    .ctx = name,
		    .is_caseless = is_caseless,
		};
		if (ident_may_any(
			login->rules->ident, rule->map, &names, login->startup.user))
			proof = PROOF_DONE;
		err_set(&job->err, "%s may not log in as %s", name,
		    conn_log_word(&client->conn, word, login->startup.user));
		mem_free(name);
	}
	if (proof == PROOF_FAILED)
		conn_log(&client->conn, LEVEL_WARNING | KIND_AUTH, "GSSAPI: %s",
		    job->err.text);
	proof_external_end(client, proof);
}

enum proof proof_gss_message(struct client *client, const struct message *m)
{
	struct login *login = client->login;
	struct kerberos_job *job;

	if (!login->kerberos)
		login->kerberos = kerberos_accept_new(
		    site_settings(client->conn.site)->krb_server_keyfile);
	job = kerberos_job_new(HELPERS_ACCEPT, &login->kerberos, message_body(m),
	    message_body_len(m), stepped, client);
	if (!job) {
		client_fatal(client, ERROR_OUT_OF_MEMORY);
		return PROOF_REFUSED;
	}
	if (proof_external_submit(client, &job->job) == 0)
		return PROOF_MORE;
	kerberos_job_discard(job);
	return PROOF_REFUSED;
}
