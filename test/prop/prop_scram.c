/* links: auth base */
/*
 * A SCRAM client and server with random passwords always agree; when any byte of any
 * message is changed, added or removed on the way, no client is let in.  A password's
 * verifier, written as a stored secret, reads back and accepts only its password.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "auth/base64.h"
#include "auth/scram.h"
#include "base/mem.h"
#include "prop.h"

enum { ROUNDS = 1500, CORRUPTIONS = 8, MESSAGES = 4, PASSWORD_MOST = 40 };

static unsigned below(uint64_t *state, unsigned n)
{
	return (unsigned)(random_next(state) >> 33) % n;
}

static void random_password(uint64_t *state, char *out)
{
	unsigned len = 1 + below(state, PASSWORD_MOST);
	unsigned kind = below(state, 3);

	for (unsigned i = 0; i < len; i++) {
		unsigned code = 0x80 + below(state, 0x780);
		if (kind == 0 || (kind == 1 && i + 1 == len)) {
			*out++ = (char)(' ' + below(state, 95));
		} else if (kind == 1) {
			*out++ = (char)(0xC0 | code >> 6);
			*out++ = (char)(0x80 | (code & 0x3F));
			i++;
		} else {
			*out++ = (char)(1 + below(state, 255));
		}
	}
	*out = '\0';
}

/* One byte replaced, added or removed. */
static void corrupt(uint64_t *state, struct buf *b)
{
	unsigned at = below(state, (unsigned)b->len);
	uint8_t byte = (uint8_t)random_next(state);

	switch (below(state, 5)) {
	case 0:
		memmove(b->bytes + at, b->bytes + at + 1, b->len - at - 1);
		b->len--;
		break;
	case 1:
		buf_put_u8(b, 0);
		memmove(b->bytes + at + 1, b->bytes + at, b->len - at - 1);
		b->bytes[at] = byte;
		break;
	case 2:
		b->bytes[at] ^= (uint8_t)(1u << below(state, 8));
		break;
	case 3:
		b->bytes[at] = (uint8_t) "nycrvmpise,=AZaz09+/"[below(state, 20)];
		break;
	default:
		b->bytes[at] = byte;
	}
}

struct outcome {
	bool is_changed; /* the corruption made a difference */
	bool is_in;      /* the server let the client in */
	bool is_trusted; /* the client accepted the server */
};

/* One step of the client, with the key derivation it may ask for. */
static enum scram_result client_step(
    struct scram_client *client, const struct buf *in, struct buf *out)
{
	uint8_t salted[SCRAM_KEY_LEN];
	struct scram_due due;
	struct err err;
	enum scram_result result =
	    scram_client_step(client, in->bytes, in->len, out, &err);

	if (result != SCRAM_DERIVE)
		return result;
	assert(out->len == 0);
	due = scram_client_due(client);
	scram_derive(&due, salted);
	return scram_client_resume(client, salted, out, &err);
}

/* Runs a whole exchange; message number `broken` is corrupted on its way. */
static struct outcome exchange(uint64_t *state, const struct scram_verifier *verifier,
    const char *password, int broken)
{
	static const uint8_t hash[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
	const struct scram_binding binding = {hash, sizeof(hash), below(state, 2) == 0};
	const struct scram_binding *bound = below(state, 2) == 0 ? &binding : NULL;
	struct scram_server server;
	struct scram_client client;
	struct outcome outcome = {0};
	struct buf in, out;
	enum scram_result result = SCRAM_MORE;
	const char *mechanism;
	struct err err;

	buf_init(&in, 0);
	buf_init(&out, 0);
	scram_server_init(&server, verifier, false, bound);
	scram_client_init(&client, password, NULL, NULL, bound);
	mechanism = scram_client_select(&client, true, bound != NULL, &err);
	assert(mechanism && scram_server_select(&server, mechanism) == 0);
	for (int i = 0; i <= MESSAGES && result != SCRAM_FAIL; i++) {
		buf_clear(&out);
		if (i % 2 == 0)
			result = client_step(&client, &in, &out);
		else
			result =
			    scram_server_step(&server, in.bytes, in.len, &out, &err);
		if (i == 3)
			outcome.is_in = result == SCRAM_DONE;
		if (i == 4)
			outcome.is_trusted = result == SCRAM_DONE;
		buf_clear(&in);
		buf_put(&in, out.bytes, out.len);
		if (i == broken && result != SCRAM_FAIL) {
			corrupt(state, &in);
			outcome.is_changed = in.len != out.len ||
					     memcmp(in.bytes, out.bytes, in.len) != 0;
		}
	}
	scram_server_done(&server);
	scram_client_done(&client);
	buf_done(&in);
	buf_done(&out);
	return outcome;
}

static void check_stored(
    const struct scram_verifier *v, const char *password, const char *other)
{
	char salt[BASE64_LEN(16) + 1], stored[BASE64_LEN(SCRAM_KEY_LEN) + 1];
	char server[BASE64_LEN(SCRAM_KEY_LEN) + 1], text[200];
	struct secret s;

	base64_encode(v->salt, v->salt_len, salt);
	base64_encode(v->stored_key, SCRAM_KEY_LEN, stored);
	base64_encode(v->server_key, SCRAM_KEY_LEN, server);
	snprintf(text, sizeof(text), "SCRAM-SHA-256$%u:%s$%s:%s", v->iterations, salt,
	    stored, server);
	secret_init(&s, text);
	assert(s.kind == SECRET_SCRAM && s.scram.iterations == v->iterations);
	assert(secret_is_password(&s, "user", password));
	assert(!secret_is_password(&s, "user", other));
	secret_done(&s);
}

static void check_password(uint64_t *state)
{
	char password[PASSWORD_MOST + 1], other[PASSWORD_MOST + 2];
	struct scram_verifier verifier;
	struct outcome o;

	random_password(state, password);
	snprintf(other, sizeof(other), "x%s", password);
	scram_verifier_from_password(&verifier, password, 1 + below(state, 3));
	check_stored(&verifier, password, other);
	o = exchange(state, &verifier, password, -1);
	assert(o.is_in && o.is_trusted);
	o = exchange(state, &verifier, other, -1);
	assert(!o.is_in && !o.is_trusted);
	for (int i = 0; i < CORRUPTIONS; i++) {
		int broken = i % MESSAGES;
		o = exchange(state, &verifier, password, broken);
		if (!o.is_changed)
			continue;
		assert(!o.is_trusted);
		/* The server decides before it sends its last message. */
		assert(o.is_in == (broken == MESSAGES - 1));
	}
	scram_verifier_done(&verifier);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
	uint64_t state = seed * 2654435761u + 88172645463325252u;

	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	for (int i = 0; i < ROUNDS; i++)
		check_password(&state);
	return 0;
}
