/*
 * The server's side of a SCRAM-SHA-256 exchange.  It does not look up users: it gets a
 * verifier, which is real or a mock.
 */
#include <assert.h>
#include <string.h>

#include "auth/base64.h"
#include "auth/scram.h"
#include "auth/scram_message.h"
#include "base/mem.h"
#include "base/text.h"

enum { STEP_FIRST, STEP_FINAL, STEP_OVER };

void scram_server_init(struct scram_server *s, const struct scram_verifier *verifier,
    bool is_mock, const struct scram_binding *binding)
{
	memset(s, 0, sizeof(*s));
	s->verifier = verifier;
	s->is_mock = is_mock;
	s->binding = binding;
}

static bool may_bind(const struct scram_server *s)
{
	return s->binding && s->binding->hash;
}

static bool may_go_unbound(const struct scram_server *s)
{
	return !s->binding || !s->binding->is_required;
}

void scram_server_offer(const struct scram_server *s, const char *mechanisms[3])
{
	if (may_bind(s))
		*mechanisms++ = SCRAM_MECHANISM_PLUS;
	if (may_go_unbound(s))
		*mechanisms++ = SCRAM_MECHANISM;
	*mechanisms = NULL;
}

int scram_server_select(struct scram_server *s, const char *mechanism)
{
	s->has_plus = strcmp(mechanism, SCRAM_MECHANISM_PLUS) == 0;
	if (s->has_plus)
		return may_bind(s) ? 0 : -1;
	return strcmp(mechanism, SCRAM_MECHANISM) == 0 && may_go_unbound(s) ? 0 : -1;
}

void scram_server_done(struct scram_server *s)
{
	mem_free(s->client_first_bare);
	mem_free(s->server_first);
	mem_free(s->nonce);
	mem_wipe(s, sizeof(*s));
}

/* Reads the flag up to the comma: "n", "y" or "p=tls-server-end-point". */
static int read_gs2_flag(
    struct scram_server *s, struct scram_reader *r, struct err *err)
{
	struct scram_field type;

	s->gs2_flag = *r->at;
	if (s->gs2_flag == 'p') {
		if (!may_bind(s))
			return err_set(err, "client requires SCRAM channel binding, "
					    "but it is not supported");
		if (scram_read_field(r, 'p', &type, err) < 0)
			return -1;
		if (!s->has_plus)
			return err_set(err,
			    "client binds SCRAM to a channel without having selected "
			    "%s",
			    SCRAM_MECHANISM_PLUS);
		if (!scram_is_text(
			&type, SCRAM_BINDING_TYPE, strlen(SCRAM_BINDING_TYPE)))
			return err_set(err,
			    "client uses an unsupported SCRAM channel binding type");
		return 0;
	}
	if (s->gs2_flag != 'n' && s->gs2_flag != 'y')
		return scram_malformed(err, "unexpected channel binding flag");
	if (s->has_plus)
		return err_set(err,
		    "client selected %s and does not bind SCRAM to the "
		    "channel",
		    SCRAM_MECHANISM_PLUS);
	/* the client supports binding but saw no offer of it, so somebody in between
	 * removed it */
	if (s->gs2_flag == 'y' && may_bind(s))
		return err_set(err, "client thinks that we do not offer SCRAM channel "
				    "binding, but we do");
	if (!may_go_unbound(s))
		return err_set(err, "SCRAM channel binding is required");
	if (r->end - r->at < 2 || r->at[1] != ',')
		return scram_malformed(
		    err, "comma expected after channel binding flag");
	r->at += 2;
	return 0;
}

/* Reads the GS2 header in front of the bare message: the flag and an empty identity. */
static int read_gs2_header(
    struct scram_server *s, struct scram_reader *r, struct err *err)
{
	if (read_gs2_flag(s, r, err) < 0)
		return -1;
	if (!r->at || r->at == r->end)
		return scram_malformed(
		    err, "comma expected after channel binding flag");
	if (*r->at == 'a')
		return err_set(err,
		    "client uses an authorization identity, but it is not supported");
	if (*r->at != ',')
		return scram_malformed(err, "unexpected attribute before user name");
	r->at++;
	return 0;
}

static int server_answer_first(struct scram_server *s,
    const struct scram_field *client_nonce, struct buf *out, struct err *err)
{
	const struct scram_verifier *v = s->verifier;
	char salt[BASE64_LEN(SCRAM_SALT_MAX) + 1], rounds[sizeof("4294967295")];
	struct buf message;
	int result = 0;

	assert(v->salt_len <= SCRAM_SALT_MAX);
	s->nonce = scram_make_nonce(client_nonce, s->mem);
	if (!s->nonce)
		return scram_no_memory(err);
	base64_encode(v->salt, v->salt_len, salt);
	text_append_number(rounds, rounds + sizeof(rounds), v->iterations);
	buf_init(&message, 0);
	buf_room(&message,
	    strlen(s->nonce) + strlen(salt) + sizeof("r=,s=,i=") + sizeof(rounds));
	buf_put_text(&message, "r=");
	buf_put_text(&message, s->nonce);
	buf_put_text(&message, ",s=");
	buf_put_text(&message, salt);
	buf_put_text(&message, ",i=");
	buf_put_text(&message, rounds);
	if (!message.failed) {
		buf_put(out, message.bytes, message.len);
		s->server_first =
		    scram_copy_text((const char *)message.bytes, message.len);
	}
	if (!s->server_first || out->failed)
		result = scram_no_memory(err);
	buf_done(&message);
	return result;
}

static int server_first_step(
    struct scram_server *s, struct scram_reader *r, struct buf *out, struct err *err)
{
	struct scram_field user, nonce;
	const char *bare;

	if (read_gs2_header(s, r, err) < 0)
		return -1;
	bare = r->at;
	/* the user name of the startup packet counts, as in PostgreSQL; this one is
	 * ignored */
	if (scram_read_field(r, 'n', &user, err) < 0 ||
	    scram_read_field(r, 'r', &nonce, err) < 0)
		return -1;
	if (!scram_is_printable(&nonce))
		return scram_malformed(err, "non-printable characters in nonce");
	if (scram_skip_extensions(r, '\0', err) < 0)
		return -1;
	s->client_first_bare = scram_copy_text(bare, (size_t)(r->end - bare));
	if (!s->client_first_bare)
		return scram_no_memory(err);
	return server_answer_first(s, &nonce, out, err);
}

/* Checks that the proof was made with the client key of the verifier.  Leaves that key
 * in s. */
static int server_check_proof(struct scram_server *s, const struct buf *message,
    const uint8_t proof[SCRAM_KEY_LEN], struct err *err)
{
	uint8_t signature[SCRAM_KEY_LEN], stored_key[SCRAM_KEY_LEN];

	scram_sign_with(s->sha256, s->verifier->stored_key, message->bytes,
	    message->len, signature);
	for (size_t i = 0; i < SCRAM_KEY_LEN; i++)
		s->client_key[i] = proof[i] ^ signature[i];
	scram_stored_key_with(s->sha256, s->client_key, stored_key);
	if (mem_equal_const_time(stored_key, s->verifier->stored_key, SCRAM_KEY_LEN) &&
	    !s->is_mock)
		return 0;
	mem_wipe(s->client_key, sizeof(s->client_key));
	return err_set_row(err, ERROR_PASSWORD_FAILED);
}

/* Whether it repeats the header of the first message and names this TLS connection. */
static bool is_bound_to(const struct scram_server *s, const struct scram_field *binding)
{
	struct buf expected;
	bool is_match;

	buf_init(&expected, 0);
	scram_put_binding(&expected, s->gs2_flag, may_bind(s) ? s->binding->hash : NULL,
	    may_bind(s) ? s->binding->len : 0);
	is_match = !expected.failed &&
		   scram_is_text(binding, (const char *)expected.bytes, expected.len);
	buf_done(&expected);
	return is_match;
}

static int server_final_step(
    struct scram_server *s, struct scram_reader *r, struct buf *out, struct err *err)
{
	const char *start = r->at, *proof_at;
	struct scram_field binding, nonce, proof_text;
	uint8_t proof[SCRAM_KEY_LEN], signature[SCRAM_KEY_LEN];
	struct buf message;
	int result;

	if (scram_read_field(r, 'c', &binding, err) < 0)
		return -1;
	if (!is_bound_to(s, &binding))
		return err_set(err, "SCRAM channel binding data does not match");
	if (scram_read_field(r, 'r', &nonce, err) < 0)
		return -1;
	if (!scram_is_text(&nonce, s->nonce, strlen(s->nonce)))
		return err_set(err, "invalid SCRAM response (nonce does not match)");
	if (scram_skip_extensions(r, 'p', err) < 0)
		return -1;
	proof_at = r->at;
	if (scram_read_field(r, 'p', &proof_text, err) < 0 ||
	    scram_read_key(&proof_text, proof, err) < 0)
		return -1;
	if (r->at)
		return scram_malformed(err, "garbage after the proof");
	result = scram_auth_message(&message,
	    &(struct scram_transcript){
		.client_first_bare = s->client_first_bare,
		.server_first = s->server_first,
		.server_first_len = strlen(s->server_first),
		.client_final = start,
		.client_final_len = (size_t)(proof_at - start) - 1,
	    },
	    err);
	if (result == 0)
		result = server_check_proof(s, &message, proof, err);
	if (result == 0) {
		scram_sign_with(s->sha256, s->verifier->server_key, message.bytes,
		    message.len, signature);
		buf_put_text(out, "v=");
		scram_put_key(out, signature);
		if (out->failed)
			result = scram_no_memory(err);
	}
	buf_done(&message);
	return result;
}

enum scram_result scram_server_step(struct scram_server *s, const uint8_t *in,
    size_t len, struct buf *out, struct err *err)
{
	int step = s->step;
	struct scram_reader r;
	int result;

	s->step = STEP_OVER;
	if (step == STEP_OVER) {
		err_set(err, "SCRAM message after the end of the exchange");
		return SCRAM_FAIL;
	}
	result = scram_reader_init(&r, in, len, err);
	if (result == 0)
		result = step == STEP_FIRST ? server_first_step(s, &r, out, err)
					    : server_final_step(s, &r, out, err);
	if (result < 0)
		return SCRAM_FAIL;
	if (step == STEP_FINAL)
		return SCRAM_DONE;
	s->step = STEP_FINAL;
	return SCRAM_MORE;
}
