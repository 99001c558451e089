/*
 * How clients and administrators prove who they are.
 */
#include "sim_login.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/scram.h"
#include "auth/secret.h"
#include "wire/codec.h"

void sim_proof_begin(struct sim_proof *p, const char *user, bool is_wrong)
{
	sim_proof_done(p);
	p->is_wrong = is_wrong;
	snprintf(p->user, sizeof(p->user), "%s", user);
	snprintf(p->password, sizeof(p->password), "%s of %s",
	    is_wrong ? "no password" : "password", user);
}

void sim_proof_done(struct sim_proof *p)
{
	if (p->has_scram)
		scram_client_done(&p->scram);
	p->has_scram = false;
}

static void answer_md5(struct sim_proof *p, const uint8_t *salt, struct buf *out)
{
	char answer[MD5_TEXT_LEN + 1];
	struct secret secret;

	secret_init(&secret, p->password);
	MUST(secret_md5_answer(&secret, p->user, salt, answer) == 0, "no MD5");
	secret_done(&secret);
	codec_put_password(out, answer);
}

static void begin_scram(
    struct sim_proof *p, const uint8_t *data, size_t len, struct buf *out)
{
	struct err err;
	struct buf first;

	MUST(!p->has_scram && codec_sasl_offers_mechanism(data, len, "SCRAM-SHA-256"),
	    "a strange demand for a proof");
	scram_client_init(&p->scram, p->password, NULL, NULL, NULL);
	p->has_scram = true;
	MUST(scram_client_select(&p->scram, true, false, &err), "%s", err.text);
	buf_init(&first, 0);
	MUST(scram_client_step(&p->scram, NULL, 0, &first, &err) == SCRAM_MORE, "%s",
	    err.text);
	codec_put_sasl_initial(out, "SCRAM-SHA-256", first.bytes, first.len);
	buf_done(&first);
}

static void go_on_scram(
    struct sim_proof *p, const uint8_t *data, size_t len, struct buf *out)
{
	uint8_t salted[SCRAM_KEY_LEN];
	struct scram_due due;
	struct buf last;
	struct err err;

	buf_init(&last, 0);
	MUST(p->has_scram &&
		 scram_client_step(&p->scram, data, len, &last, &err) == SCRAM_DERIVE,
	    "a strange message of SCRAM");
	due = scram_client_due(&p->scram);
	scram_derive(&due, salted);
	MUST(scram_client_resume(&p->scram, salted, &last, &err) == SCRAM_MORE, "%s",
	    err.text);
	codec_put_sasl_response(out, last.bytes, last.len);
	buf_done(&last);
}

bool sim_proof_answer(
    struct sim_proof *p, const uint8_t *body, size_t len, struct buf *out)
{
	const uint8_t *data;
	uint32_t request;
	size_t data_len;
	struct buf unused;
	struct err err;

	MUST(codec_read_auth(body, len, &request, &data, &data_len) == 0,
	    "a broken demand for a proof");
	switch (request) {
	case AUTH_REQ_OK:
		MUST(!p->is_wrong, "%s gets in with a wrong password", p->user);
		return true;
	case AUTH_REQ_CLEARTEXT:
		codec_put_password(out, p->password);
		break;
	case AUTH_REQ_MD5:
		answer_md5(p, data, out);
		break;
	case AUTH_REQ_SASL:
		begin_scram(p, data, data_len, out);
		break;
	case AUTH_REQ_SASL_CONTINUE:
		go_on_scram(p, data, data_len, out);
		break;
	case AUTH_REQ_SASL_FINAL:
		buf_init(&unused, 0);
		MUST(scram_client_step(&p->scram, data, data_len, &unused, &err) ==
			 SCRAM_DONE,
		    "the pooler has no proof: %s", err.text);
		buf_done(&unused);
		break;
	default:
		failed("a demand for a proof of kind %u", request);
	}
	return false;
}
