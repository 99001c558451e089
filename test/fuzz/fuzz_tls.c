/* links: net base */
/*
 * A hostile TLS peer.  First byte: the end it talks to and when (a server or a client
 * at the start, both in the middle of a handshake that it changes, or a server after
 * one); second: the size of the pieces.  Random bytes never complete a handshake.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "base/buf.h"
#include "base/mem.h"
#include "net/tls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

struct end {
	struct tls *tls;
	struct buf out;
	enum tls_status status;
};

static void check(bool is_true, const char *what)
{
	if (is_true)
		return;
	fprintf(stderr, "fuzz_tls: %s\n", what);
	abort();
}

static EVP_PKEY *new_key(void)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, NULL);
	EVP_PKEY *key = NULL;

	EVP_PKEY_keygen_init(ctx);
	EVP_PKEY_CTX_set_ec_paramgen_curve_nid(ctx, NID_X9_62_prime256v1);
	check(EVP_PKEY_keygen(ctx, &key) == 1, "no key");
	EVP_PKEY_CTX_free(ctx);
	return key;
}

/* Writes a self-signed certificate and its key to a file that only this process has. */
static int write_certificate(void)
{
	int fd = memfd_create("certificate", 0);
	FILE *f = fdopen(dup(fd), "w");
	EVP_PKEY *key = new_key();
	X509 *cert = X509_new();

	X509_gmtime_adj(X509_getm_notBefore(cert), -60);
	X509_gmtime_adj(X509_getm_notAfter(cert), 86400);
	X509_set_pubkey(cert, key);
	check(X509_sign(cert, key, EVP_sha256()) > 0, "no certificate");
	PEM_write_X509(f, cert);
	PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL);
	fclose(f);
	X509_free(cert);
	EVP_PKEY_free(key);
	return fd;
}

static struct tls_context *new_context(bool is_server, const char *file)
{
	struct tls_config config = {
	    .is_server = is_server,
	    .cert_file = file,
	    .key_file = file,
	    .ca_file = file,
	    .peer_check = is_server ? TLS_PEER_IF_SHOWN : TLS_PEER_UNCHECKED,
	    .has_tickets = true,
	};
	struct err err;
	struct tls_context *context = tls_context_new(&config, &err);

	check(context != NULL, err.text);
	return context;
}

static int put(void *ctx, const uint8_t *p, size_t len)
{
	struct end *end = ctx;

	buf_put(&end->out, p, len);
	return 0;
}

static void end_init(struct end *end, struct tls_context *context)
{
	const struct tls_peer_config peer = {.host = "fuzz.test", .is_direct = true};
	struct err err;

	buf_init(&end->out, 0);
	end->status = TLS_HUNGRY;
	end->tls = tls_new(context, &peer, put, end, &err);
	check(end->tls != NULL, err.text);
}

static void end_done(struct end *end)
{
	tls_close(end->tls);
	tls_free(&end->tls);
	buf_done(&end->out);
}

static void step(struct end *end)
{
	uint8_t room[500];
	struct err err;
	size_t got;

	do {
		if (!tls_is_complete(end->tls))
			end->status = tls_handshake(end->tls, &err);
		else
			end->status =
			    tls_read(end->tls, room, sizeof(room), &got, &err);
	} while (end->status == TLS_DONE);
	if (end->status == TLS_FAILED) {
		check(tls_failure(end->tls) != NULL, "failed without a reason");
		check(err.text[0] != '\0', "failed without words");
	}
}

/* The bytes are copied to a block of their own, so that a read past them is seen. */
static void feed(struct end *end, const uint8_t *p, size_t len, size_t piece)
{
	while (len > 0 && end->status == TLS_HUNGRY) {
		size_t n = piece && piece < len ? piece : len, left;
		uint8_t *bytes = mem_dup(p, n);
		tls_set_input(end->tls, bytes, n);
		step(end);
		tls_input(end->tls, &left);
		check(left == 0 || end->status != TLS_HUNGRY, "hungry amid plenty");
		tls_set_input(end->tls, NULL, 0);
		mem_free(bytes);
		p += n;
		len -= n;
	}
}

static void carry(struct end *from, struct end *to, size_t piece)
{
	struct buf moving = from->out;

	buf_init(&from->out, 0);
	feed(to, moving.bytes, moving.len, piece);
	buf_done(&moving);
}

static void shake_hands(struct end *client, struct end *server, size_t piece)
{
	step(client);
	for (int i = 0; i < 4; i++) {
		carry(client, server, piece);
		carry(server, client, piece);
	}
}

/* Each three bytes name a position in the bytes under way and how to change it. */
static void change(struct buf *b, const uint8_t *data, size_t len)
{
	for (; len >= 3 && b->len > 0; data += 3, len -= 3)
		b->bytes[((size_t)data[0] << 8 | data[1]) % b->len] ^= data[2];
}

static void meet(struct end *client, struct end *server, int when, size_t piece,
    const uint8_t *data, size_t len)
{
	if (when == 0) {
		feed(server, data, len, piece);
		check(!tls_is_complete(server->tls), "noise was let in");
	} else if (when == 1) {
		step(client);
		feed(client, data, len, piece);
		check(!tls_is_complete(client->tls), "noise was believed");
	} else if (when == 2) {
		size_t half = len / 2;
		step(client);
		change(&client->out, data, half);
		carry(client, server, piece);
		change(&server->out, data + half, len - half);
		carry(server, client, piece);
		shake_hands(client, server, piece);
	} else {
		shake_hands(client, server, 0);
		check(tls_is_complete(server->tls), "an honest client was refused");
		feed(server, data, len, piece);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct tls_context *contexts[2];
	struct end client, server;

	if (!contexts[0]) {
		char file[64];
		int fd = write_certificate();
		snprintf(file, sizeof(file), "/proc/self/fd/%d", fd);
		contexts[0] = new_context(false, file);
		contexts[1] = new_context(true, file);
		close(fd);
	}
	if (len < 2)
		return 0;
	end_init(&client, contexts[0]);
	end_init(&server, contexts[1]);
	meet(&client, &server, data[0] % 4, data[1], data + 2, len - 2);
	end_done(&client);
	end_done(&server);
	return 0;
}
