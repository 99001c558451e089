/*
 * Two ends of one TLS connection in memory; see pair.h.
 */
#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "certs.h"

int make_usual_certs(void **state)
{
	(void)state;
	certs_make("ca", &(struct cert_wish){.cn = "the CA", .is_ca = true});
	certs_make("server", &(struct cert_wish){.issuer = "ca",
				 .cn = "server.test",
				 .sans = "DNS:server.test,IP:127.0.0.1"});
	certs_make("client", &(struct cert_wish){.issuer = "ca", .cn = "alice"});
	return 0;
}

int drop_certs(void **state)
{
	(void)state;
	certs_done();
	return 0;
}

static struct tls_context *context(const struct tls_config *config)
{
	struct err err;
	struct tls_context *made = tls_context_new(config, &err);

	if (!made)
		fail_msg("%s", err.text);
	return made;
}

struct tls_context *server_context(const struct tls_config *config)
{
	struct tls_config full = *config;

	full.is_server = true;
	if (!full.cert_file) {
		full.cert_file = certs_path("server.crt");
		full.key_file = certs_path("server.key");
	}
	if (!full.ca_file)
		full.ca_file = certs_path("ca.crt");
	return context(&full);
}

struct tls_context *client_context(const struct tls_config *config)
{
	struct tls_config full = *config;

	if (!full.ca_file)
		full.ca_file = certs_path("ca.crt");
	return context(&full);
}

static int put(void *ctx, const uint8_t *p, size_t len)
{
	struct end *end = ctx;

	buf_put(&end->out, p, len);
	return end->out.failed ? -1 : 0;
}

static void end_init(
    struct end *end, struct tls_context *context, const struct tls_peer_config *peer)
{
	buf_init(&end->out, 0);
	buf_init(&end->got, 0);
	end->status = TLS_HUNGRY;
	end->tls = tls_new(context, peer, put, end, &end->err);
	assert_non_null(end->tls);
	tls_context_unref(&context);
}

static void step(struct end *end)
{
	while (end->status != TLS_FAILED && end->status != TLS_CLOSED) {
		uint8_t room[5000];
		size_t len;
		if (!tls_is_complete(end->tls)) {
			end->status = tls_handshake(end->tls, &end->err);
		} else {
			end->status =
			    tls_read(end->tls, room, sizeof(room), &len, &end->err);
			if (end->status == TLS_DONE)
				buf_put(&end->got, room, len);
		}
		if (end->status == TLS_HUNGRY)
			break;
	}
}

static bool may_carry(struct end *from, struct end *to, size_t piece)
{
	size_t len = piece && piece < from->out.len ? piece : from->out.len, left;

	if (len == 0)
		return false;
	uint8_t *bytes = mem_dup(from->out.bytes, len);
	buf_shift(&from->out, len);
	tls_set_input(to->tls, bytes, len);
	step(to);
	tls_input(to->tls, &left);
	assert_true(left == 0 || to->status == TLS_CLOSED);
	tls_set_input(to->tls, NULL, 0);
	mem_free(bytes);
	return true;
}

void pair_init(struct pair *pair, struct tls_context *server,
    struct tls_context *client, const struct tls_peer_config *peer)
{
	*pair = (struct pair){.piece = 0};
	end_init(&pair->server, server, NULL);
	end_init(&pair->client, client, peer);
}

void pair_run(struct pair *pair)
{
	bool moved = true;

	step(&pair->client);
	while (moved) {
		moved = may_carry(&pair->client, &pair->server, pair->piece);
		moved |= may_carry(&pair->server, &pair->client, pair->piece);
	}
}

void pair_expect_done(struct pair *pair)
{
	pair_run(pair);
	if (pair->client.status == TLS_FAILED)
		fail_msg("client: %s", pair->client.err.text);
	if (pair->server.status == TLS_FAILED)
		fail_msg("server: %s", pair->server.err.text);
	assert_true(tls_is_complete(pair->client.tls));
	assert_true(tls_is_complete(pair->server.tls));
}

void pair_say(struct end *from, const void *p, size_t len)
{
	assert_int_equal(tls_write(from->tls, p, len, &from->err), TLS_DONE);
}

void pair_done(struct pair *pair)
{
	struct end *ends[] = {&pair->client, &pair->server};

	for (int i = 0; i < 2; i++) {
		tls_free(&ends[i]->tls);
		buf_done(&ends[i]->out);
		buf_done(&ends[i]->got);
	}
}
