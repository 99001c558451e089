/*
 * The client's end of a SCRAM-SHA-256 exchange: proves a password, or keys that came by
 * pass-through, and makes the server prove itself.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "auth/base64.h"
#include "auth/scram.h"
#include "auth/scram_message.h"
#include "base/mem.h"

enum { STEP_FIRST, STEP_FINAL, STEP_VERIFY, STEP_OVER };

void scram_cache_done(struct scram_cache *c)
{
	mem_free(c->salt);
	mem_wipe(c, sizeof(*c));
}

void scram_client_init(struct scram_client *c, const char *password,
    const struct scram_keys *keys, struct scram_cache *cache)
{
	assert(password || keys);
	memset(c, 0, sizeof(*c));
	c->password = password;
	c->keys = keys;
	c->cache = cache;
}

void scram_client_done(struct scram_client *c)
{
	mem_free(c->client_first_bare);
	mem_free(c->nonce);
	mem_wipe(c, sizeof(*c));
}

static int client_first_step(struct scram_client *c, struct buf *out, struct err *err)
{
	static const struct scram_field nothing = {"", 0};

	c->nonce = scram_make_nonce(&nothing);
	/* PostgreSQL takes the user from the startup packet; this one stays empty. */
	if (!c->nonce || asprintf(&c->client_first_bare, "n=,r=%s", c->nonce) < 0) {
		c->client_first_bare = NULL;
		return scram_no_memory(err);
	}
	buf_put_text(out, "n,,");
	buf_put_text(out, c->client_first_bare);
	return out->failed ? scram_no_memory(err) : 0;
}

struct challenge {
	struct scram_field nonce;
	uint8_t salt[SCRAM_SALT_MAX];
	size_t salt_len;
	uint32_t iterations;
};

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

static int read_challenge(const struct scram_client *c, struct scram_reader *r,
    struct challenge *challenge, struct err *err)
{
	size_t own_len = strlen(c->nonce);
	struct scram_field salt, iterations;

	if (scram_read_field(r, 'r', &challenge->nonce, err) < 0)
		return -1;
	if (!scram_is_printable(&challenge->nonce))
		return scram_malformed(err, "non-printable characters in nonce");
	if (challenge->nonce.len <= own_len ||
	    memcmp(challenge->nonce.text, c->nonce, own_len) != 0)
		return err_set(err, "invalid SCRAM response (nonce does not match)");
	if (scram_read_field(r, 's', &salt, err) < 0)
		return -1;
	if (base64_decode(salt.text, salt.len, challenge->salt, SCRAM_SALT_MAX,
		&challenge->salt_len) < 0 ||
	    challenge->salt_len == 0)
		return scram_malformed(err, "invalid salt");
	if (scram_read_field(r, 'i', &iterations, err) < 0 ||
	    read_iterations(&iterations, &challenge->iterations, err) < 0)
		return -1;
	return scram_skip_extensions(r, '\0', err);
}

static bool cache_has(
    const struct scram_cache *cache, const struct challenge *challenge)
{
	return cache && cache->iterations == challenge->iterations &&
	       cache->salt_len == challenge->salt_len &&
	       memcmp(cache->salt, challenge->salt, cache->salt_len) == 0;
}

static void cache_keys(struct scram_cache *cache, const struct challenge *challenge,
    const struct scram_keys *keys)
{
	scram_cache_done(cache);
	cache->keys = *keys;
	cache->salt = mem_dup(challenge->salt, challenge->salt_len);
	cache->salt_len = challenge->salt_len;
	cache->iterations = challenge->iterations;
}

static void client_find_keys(const struct scram_client *c,
    const struct challenge *challenge, struct scram_keys *keys)
{
	uint8_t salted[SCRAM_KEY_LEN];

	if (c->keys) {
		*keys = *c->keys;
		return;
	}
	if (cache_has(c->cache, challenge)) {
		*keys = c->cache->keys;
		return;
	}
	scram_salted_password(c->password, challenge->salt, challenge->salt_len,
	    challenge->iterations, salted);
	scram_client_key(salted, keys->client_key);
	scram_server_key(salted, keys->server_key);
	mem_wipe(salted, sizeof(salted));
	if (c->cache)
		cache_keys(c->cache, challenge, keys);
}

/* The proof of our key, and the signature by which we shall know the server. */
static void client_prove(struct scram_client *c, const struct challenge *challenge,
    const struct buf *message, uint8_t proof[SCRAM_KEY_LEN])
{
	uint8_t stored_key[SCRAM_KEY_LEN], signature[SCRAM_KEY_LEN];
	struct scram_keys keys;

	client_find_keys(c, challenge, &keys);
	scram_stored_key(keys.client_key, stored_key);
	scram_sign(stored_key, message->bytes, message->len, signature);
	for (size_t i = 0; i < SCRAM_KEY_LEN; i++)
		proof[i] = keys.client_key[i] ^ signature[i];
	scram_sign(keys.server_key, message->bytes, message->len, c->server_signature);
	mem_wipe(&keys, sizeof(keys));
}

static int client_final_step(
    struct scram_client *c, struct scram_reader *r, struct buf *out, struct err *err)
{
	const char *server_first = r->at;
	struct challenge challenge;
	uint8_t proof[SCRAM_KEY_LEN];
	struct buf final, message;
	int result;

	if (read_challenge(c, r, &challenge, err) < 0)
		return -1;
	buf_init(&final, 0);
	buf_put_text(&final, "c=biws,r=");
	buf_put(&final, challenge.nonce.text, challenge.nonce.len);
	result = scram_auth_message(&message,
	    &(struct scram_transcript){
		.client_first_bare = c->client_first_bare,
		.server_first = server_first,
		.server_first_len = (size_t)(r->end - server_first),
		.client_final = (const char *) final.bytes,
		.client_final_len = final.len,
	    },
	    err);
	if (result == 0) {
		client_prove(c, &challenge, &message, proof);
		buf_put(out, final.bytes, final.len);
		buf_put_text(out, ",p=");
		scram_put_key(out, proof);
		if (final.failed || out->failed)
			result = scram_no_memory(err);
	}
	buf_done(&message);
	buf_done(&final);
	return result;
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
	int result;

	c->step = STEP_OVER;
	if (step == STEP_OVER) {
		err_set(err, "SCRAM message after the end of the exchange");
		return SCRAM_FAIL;
	}
	result = step == STEP_FIRST ? 0 : scram_reader_init(&r, in, len, err);
	if (result == 0 && step == STEP_FIRST)
		result = client_first_step(c, out, err);
	else if (result == 0 && step == STEP_FINAL)
		result = client_final_step(c, &r, out, err);
	else if (result == 0)
		result = client_check_server(c, &r, err);
	if (result < 0)
		return SCRAM_FAIL;
	if (step == STEP_VERIFY)
		return SCRAM_DONE;
	c->step = step + 1;
	return SCRAM_MORE;
}
