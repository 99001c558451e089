/*
 * The client's side of a SCRAM-SHA-256 exchange: proves a password, or keys taken from
 * a client's login, and makes the server prove itself.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "auth/base64.h"
#include "auth/scram.h"
#include "auth/scram_message.h"
#include "base/mem.h"

enum { STEP_FIRST, STEP_FINAL, STEP_DERIVE, STEP_VERIFY, STEP_OVER };

void scram_cache_done(struct scram_cache *c)
{
	mem_free(c->salt);
	mem_wipe(c, sizeof(*c));
}

void scram_client_init(struct scram_client *c, const char *password,
    const struct scram_keys *keys, struct scram_cache *cache,
    const struct scram_binding *binding)
{
	assert(password || keys);
	memset(c, 0, sizeof(*c));
	buf_init(&c->final, 0);
	buf_init(&c->message, 0);
	c->binding = binding;
	c->gs2_flag = binding && binding->hash ? 'y' : 'n';
	c->password = password;
	c->keys = keys;
	c->cache = cache;
}

void scram_client_done(struct scram_client *c)
{
	mem_free(c->client_first_bare);
	mem_free(c->nonce);
	buf_done(&c->final);
	buf_done(&c->message);
	mem_wipe(c, sizeof(*c));
}

const char *scram_client_select(
    struct scram_client *c, bool is_offered, bool is_plus_offered, struct err *err)
{
	bool may_bind = c->binding && c->binding->hash;

	if (may_bind && is_plus_offered) {
		c->gs2_flag = 'p';
		return SCRAM_MECHANISM_PLUS;
	}
	if (c->binding && c->binding->is_required) {
		err_set(err, "channel binding is required, but %s",
		    may_bind ? "the server does not offer it"
			     : "the connection to the server has nothing to bind to");
		return NULL;
	}
	if (is_offered)
		return SCRAM_MECHANISM;
	err_set(
	    err, "none of the server's SASL authentication mechanisms are supported");
	return NULL;
}

static int client_first_step(struct scram_client *c, struct buf *out, struct err *err)
{
	static const struct scram_field nothing = {"", 0};

	c->nonce = scram_make_nonce(&nothing, NULL);
	/* PostgreSQL takes the user from the startup packet and ignores this one */
	if (!c->nonce || asprintf(&c->client_first_bare, "n=,r=%s", c->nonce) < 0) {
		c->client_first_bare = NULL;
		return scram_no_memory(err);
	}
	if (c->gs2_flag == 'p')
		buf_put_text(out, SCRAM_BOUND_HEADER);
	else
		buf_printf(out, "%c,,", c->gs2_flag);
	buf_put_text(out, c->client_first_bare);
	return out->failed ? scram_no_memory(err) : 0;
}

static int read_iterations(const struct scram_field *f, uint32_t *out, struct err *err)
{
	uint64_t value = 0;

	for (size_t i = 0; i < f->len; i++) {
		if (f->text[i] < '0' || f->text[i] > '9')
			return scram_malformed(err, "invalid iteration count");
		if (value <= SCRAM_ITERATIONS_MAX)
			value = value * 10 + (uint64_t)(f->text[i] - '0');
	}
	if (value == 0)
		return scram_malformed(err, "invalid iteration count");
	if (value > SCRAM_ITERATIONS_MAX)
		return err_set(err, "server asks for more than %d SCRAM iterations",
		    SCRAM_ITERATIONS_MAX);
	*out = (uint32_t)value;
	return 0;
}

static int read_challenge(struct scram_client *c, struct scram_reader *r,
    struct scram_field *nonce, struct err *err)
{
	size_t own_len = strlen(c->nonce);
	struct scram_field salt, iterations;

	if (scram_read_field(r, 'r', nonce, err) < 0)
		return -1;
	if (!scram_is_printable(nonce))
		return scram_malformed(err, "non-printable characters in nonce");
	if (nonce->len <= own_len || memcmp(nonce->text, c->nonce, own_len) != 0)
		return err_set(err, "invalid SCRAM response (nonce does not match)");
	if (scram_read_field(r, 's', &salt, err) < 0)
		return -1;
	if (base64_decode(salt.text, salt.len, c->salt, SCRAM_SALT_MAX, &c->salt_len) <
		0 ||
	    c->salt_len == 0)
		return scram_malformed(err, "invalid salt");
	if (scram_read_field(r, 'i', &iterations, err) < 0 ||
	    read_iterations(&iterations, &c->iterations, err) < 0)
		return -1;
	return scram_skip_extensions(r, '\0', err);
}

/* Makes the proof that we have the keys, and the signature that the server must
 * send. */
static int client_prove(struct scram_client *c, const struct scram_keys *keys,
    struct buf *out, struct err *err)
{
	uint8_t stored_key[SCRAM_KEY_LEN], proof[SCRAM_KEY_LEN];

	scram_stored_key(keys->client_key, stored_key);
	scram_sign(stored_key, c->message.bytes, c->message.len, proof);
	for (size_t i = 0; i < SCRAM_KEY_LEN; i++)
		proof[i] ^= keys->client_key[i];
	scram_sign(
	    keys->server_key, c->message.bytes, c->message.len, c->server_signature);
	buf_put(out, c->final.bytes, c->final.len);
	buf_put_text(out, ",p=");
	scram_put_key(out, proof);
	if (out->failed)
		return scram_no_memory(err);
	c->step = STEP_VERIFY;
	return 0;
}

static int client_read_first(
    struct scram_client *c, struct scram_reader *r, struct err *err)
{
	const char *server_first = r->at;
	struct scram_field nonce;
	const struct scram_binding *binding = c->binding;

	if (read_challenge(c, r, &nonce, err) < 0)
		return -1;
	buf_put_text(&c->final, "c=");
	scram_put_binding(&c->final, c->gs2_flag, binding ? binding->hash : NULL,
	    binding ? binding->len : 0);
	buf_put_text(&c->final, ",r=");
	buf_put(&c->final, nonce.text, nonce.len);
	if (c->final.failed)
		return scram_no_memory(err);
	return scram_auth_message(&c->message,
	    &(struct scram_transcript){
		.client_first_bare = c->client_first_bare,
		.server_first = server_first,
		.server_first_len = (size_t)(r->end - server_first),
		.client_final = (const char *)c->final.bytes,
		.client_final_len = c->final.len,
	    },
	    err);
}

static enum scram_result client_final_step(
    struct scram_client *c, struct scram_reader *r, struct buf *out, struct err *err)
{
	const struct scram_keys *keys = c->keys;

	if (client_read_first(c, r, err) < 0)
		return SCRAM_FAIL;
	if (!keys && c->cache && c->cache->iterations == c->iterations &&
	    c->cache->salt_len == c->salt_len &&
	    memcmp(c->cache->salt, c->salt, c->cache->salt_len) == 0)
		keys = &c->cache->keys;
	if (keys)
		return client_prove(c, keys, out, err) < 0 ? SCRAM_FAIL : SCRAM_MORE;
	c->step = STEP_DERIVE;
	return SCRAM_DERIVE;
}

struct scram_due scram_client_due(const struct scram_client *c)
{
	return (struct scram_due){
	    .password = c->password,
	    .salt = c->salt,
	    .salt_len = c->salt_len,
	    .iterations = c->iterations,
	};
}

enum scram_result scram_client_resume(struct scram_client *c,
    const uint8_t salted[SCRAM_KEY_LEN], struct buf *out, struct err *err)
{
	struct scram_keys keys = {0};
	int result;

	assert(c->step == STEP_DERIVE);
	c->step = STEP_OVER;
	scram_client_key(salted, keys.client_key);
	scram_server_key(salted, keys.server_key);
	if (c->cache) {
		scram_cache_done(c->cache);
		c->cache->keys = keys;
		c->cache->salt = mem_dup(c->salt, c->salt_len);
		c->cache->salt_len = c->salt_len;
		c->cache->iterations = c->iterations;
	}
	result = client_prove(c, &keys, out, err);
	mem_wipe(&keys, sizeof(keys));
	return result < 0 ? SCRAM_FAIL : SCRAM_MORE;
}

static int client_check_server(
    const struct scram_client *c, struct scram_reader *r, struct err *err)
{
	uint8_t signature[SCRAM_KEY_LEN];
	struct scram_field f;

	if (scram_next_letter(r) == 'e') {
		if (scram_read_field(r, 'e', &f, err) < 0 || !scram_is_printable(&f))
			return scram_malformed(err, "invalid error attribute");
		return err_set(err, "server reported a SCRAM error: %.*s",
		    (int)(f.len < 100 ? f.len : 100), f.text);
	}
	if (scram_read_field(r, 'v', &f, err) < 0 ||
	    scram_read_key(&f, signature, err) < 0 ||
	    scram_skip_extensions(r, '\0', err) < 0)
		return -1;
	if (!mem_equal_const_time(signature, c->server_signature, SCRAM_KEY_LEN))
		return err_set(err, "invalid server signature");
	return 0;
}

enum scram_result scram_client_step(struct scram_client *c, const uint8_t *in,
    size_t len, struct buf *out, struct err *err)
{
	int step = c->step;
	struct scram_reader r;

	c->step = STEP_OVER;
	switch (step) {
	case STEP_FIRST:
		if (client_first_step(c, out, err) < 0)
			return SCRAM_FAIL;
		c->step = STEP_FINAL;
		return SCRAM_MORE;
	case STEP_FINAL:
		if (scram_reader_init(&r, in, len, err) < 0)
			return SCRAM_FAIL;
		return client_final_step(c, &r, out, err);
	case STEP_VERIFY:
		if (scram_reader_init(&r, in, len, err) < 0 ||
		    client_check_server(c, &r, err) < 0)
			return SCRAM_FAIL;
		return SCRAM_DONE;
	case STEP_DERIVE:
		err_set(err, "SCRAM message before it was due");
		return SCRAM_FAIL;
	default:
		err_set(err, "SCRAM message after the end of the exchange");
		return SCRAM_FAIL;
	}
}
