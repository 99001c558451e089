/*
 * What the tests of auth_query have in common.
 */
#include "asking.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "auth/scram.h"
#include "auth/secret.h"
#include "wire/codec.h"
#include "wire/message.h"

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

struct peer *come(struct stage *stage, const char *user)
{
	struct peer *client = stage_client(stage);
	peer_start(client, user, "d", NULL, NULL);
	return client;
}

struct stage *asked(const char *options, const char *settings, struct peer **client,
    struct peer **server)
{
	struct stage *stage = stage_new(options, settings);
	*client = come(stage, "w");
	*server = stage_ready_server(stage);
	peer_hear(*server, 'S');
	return stage;
}

void columns(struct peer *server, size_t count)
{
	const struct codec_column names[] = {
	    {"n", 19, 64}, {"s", 25, -1}, {"too", 25, -1}};
	struct buf b;
	buf_init(&b, 0);
	codec_put_empty(&b, '1');
	codec_put_empty(&b, '2');
	codec_put_row_description(&b, names, count);
	peer_send(server, b.bytes, b.len);
	buf_done(&b);
}

void row(struct peer *server, const char *name, const char *secret)
{
	struct buf b;
	buf_init(&b, 0);
	size_t at = codec_begin_row(&b, 2);
	codec_put_field(&b, name);
	codec_put_field(&b, secret);
	codec_end_row(&b, at);
	peer_send(server, b.bytes, b.len);
	buf_done(&b);
}

void answer(struct peer *server, const char *name, const char *secret)
{
	columns(server, 2);
	row(server, name, secret);
	peer_answer(server, "SELECT 1", 'I');
}

void put_error_of(struct peer *server, const char *sqlstate, const char *text)
{
	struct buf b;
	buf_init(&b, 0);
	codec_put_error(&b, "ERROR", sqlstate, text, NULL, NULL);
	peer_send(server, b.bytes, b.len);
	buf_done(&b);
}

void put_error(struct peer *server, const char *text)
{
	put_error_of(server, "42883", text);
}

void ask_for(struct peer *server, uint32_t request, const void *data, size_t len)
{
	struct buf b;
	buf_init(&b, 0);
	codec_put_auth(&b, request, data, len);
	peer_send(server, b.bytes, b.len);
	buf_done(&b);
}

struct peer *own_server(struct stage *stage)
{
	struct peer *server = stage_server(stage);
	assert_int_equal(peer_first_packet(server) >> 16, 3);
	return server;
}

struct pool *pool_of_w(struct stage *stage)
{
	struct catalog *c = stage->site.catalog;
	return catalog_find_pool(
	    catalog_find_database(c, "d"), catalog_find_user(c, "w"));
}

void md5_answer(struct peer *client, const char *secret_text, const char *user)
{
	char text[MD5_TEXT_LEN + 1];
	struct secret secret;
	stage_settle(client->stage);
	assert_int_equal(client->in.len, 13);
	secret_init(&secret, secret_text);
	/* a client sends back the text it was told */
	if (secret.kind == SECRET_MALFORMED)
		secret.kind = SECRET_PLAIN;
	secret_md5_answer(&secret, user, client->in.bytes + 9, text);
	secret_done(&secret);
	buf_clear(&client->in);
	peer_text(client, 'p', text);
}

void scram_login(struct peer *client, const char *password)
{
	struct scram_client scram;
	uint8_t salted[SCRAM_KEY_LEN];
	struct scram_due due;
	struct buf out, b;
	struct err err;
	peer_hear(client, 'R');
	scram_client_init(&scram, password, NULL, NULL, NULL);
	buf_init(&out, 0);
	buf_init(&b, 0);
	scram_client_step(&scram, NULL, 0, &out, &err);
	codec_put_sasl_initial(&b, "SCRAM-SHA-256", out.bytes, out.len);
	peer_send(client, b.bytes, b.len);
	stage_settle(client->stage);
	buf_clear(&out);
	buf_clear(&b);
	assert_int_equal(scram_client_step(&scram, client->in.bytes + 9,
			     client->in.len - 9, &out, &err),
	    SCRAM_DERIVE);
	due = scram_client_due(&scram);
	scram_derive(&due, salted);
	scram_client_resume(&scram, salted, &out, &err);
	buf_clear(&client->in);
	codec_put_sasl_response(&b, out.bytes, out.len);
	peer_send(client, b.bytes, b.len);
	buf_done(&out);
	buf_done(&b);
	scram_client_done(&scram);
}

const char *scram_secret(const char *password, char out[256])
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	struct scram_verifier v;
	const uint8_t *parts[3];
	size_t at = (size_t)sprintf(out, "SCRAM-SHA-256$1:"), lens[3];
	scram_verifier_from_password(&v, password, 1);
	parts[0] = v.salt, parts[1] = v.stored_key, parts[2] = v.server_key;
	lens[0] = v.salt_len, lens[1] = lens[2] = SCRAM_KEY_LEN;
	for (int p = 0; p < 3; p++) {
		for (size_t i = 0; i < lens[p]; i += 3) {
			size_t left = lens[p] - i;
			uint32_t bits =
			    (uint32_t)parts[p][i] << 16 |
			    (left > 1 ? (uint32_t)parts[p][i + 1] << 8 : 0) |
			    (left > 2 ? parts[p][i + 2] : 0);
			out[at++] = digits[bits >> 18];
			out[at++] = digits[bits >> 12 & 63];
			out[at++] = left > 1 ? digits[bits >> 6 & 63] : '=';
			out[at++] = left > 2 ? digits[bits & 63] : '=';
		}
		out[at++] = p == 0 ? '$' : ':';
	}
	out[at - 1] = '\0';
	scram_verifier_done(&v);
	return out;
}
