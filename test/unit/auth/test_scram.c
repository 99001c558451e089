/* Both ends of SCRAM: RFC 7677 byte for byte, each other, and malformed messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "auth/base64.h"
#include "auth/scram.h"
#include "base/mem.h"

#define RFC_CLIENT_BARE  "n=user,r=rOprNGfwEbeRWgbNEkqO"
#define RFC_NONCE        "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
#define RFC_SERVER_FIRST "r=" RFC_NONCE ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
#define RFC_PROOF        "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
#define RFC_CLIENT_FINAL "c=biws,r=" RFC_NONCE ",p=" RFC_PROOF
#define RFC_SERVER_FINAL "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

/* A verifier, a server and a client for one exchange. */
struct bench {
	struct scram_verifier verifier;
	struct scram_server server;
	struct scram_client client;
	struct buf out;
	struct err err;
};

static void bench_init(struct bench *b, const char *server_password,
    const char *client_password, bool is_mock)
{
	memset(b, 0, sizeof(*b));
	scram_verifier_from_password(&b->verifier, server_password, 5);
	scram_server_init(&b->server, &b->verifier, is_mock, NULL);
	scram_client_init(&b->client, client_password, NULL, NULL, NULL);
	buf_init(&b->out, 0);
}

static void bench_done(struct bench *b)
{
	scram_server_done(&b->server);
	scram_client_done(&b->client);
	scram_verifier_done(&b->verifier);
	buf_done(&b->out);
}

static enum scram_result to_server(struct bench *b, const char *text)
{
	size_t len = strlen(text);
	/* The copy has the exact size, so that a read past its end is seen. */
	uint8_t *copy = mem_dup(text, len);
	enum scram_result result;

	buf_clear(&b->out);
	result = scram_server_step(&b->server, copy, len, &b->out, &b->err);
	mem_free(copy);
	return result;
}

/* Derives the salted password: the slow step, which the client's owner runs. */
static enum scram_result derive(struct bench *b)
{
	const struct scram_due due = scram_client_due(&b->client);
	uint8_t salted[SCRAM_KEY_LEN];

	assert_int_equal(b->out.len, 0);
	scram_derive(&due, salted);
	return scram_client_resume(&b->client, salted, &b->out, &b->err);
}

static enum scram_result to_client(struct bench *b, const char *text)
{
	size_t len = strlen(text);
	uint8_t *copy = mem_dup(text, len);
	enum scram_result result;

	buf_clear(&b->out);
	result = scram_client_step(&b->client, copy, len, &b->out, &b->err);
	mem_free(copy);
	return result == SCRAM_DERIVE ? derive(b) : result;
}

/* Returns a copy of the last answer, which the next step may overwrite. */
static char *answer(struct bench *b)
{
	return mem_strdup(buf_text(&b->out));
}

/* Runs the client against the server; returns the server's result. */
static enum scram_result run(struct bench *b)
{
	enum scram_result result;
	char *text;

	assert_int_equal(to_client(b, ""), SCRAM_MORE);
	text = answer(b);
	assert_int_equal(to_server(b, text), SCRAM_MORE);
	mem_free(text);
	text = answer(b);
	assert_int_equal(to_client(b, text), SCRAM_MORE);
	mem_free(text);
	text = answer(b);
	result = to_server(b, text);
	mem_free(text);
	return result;
}

static void replace(char **text, const char *with)
{
	mem_free(*text);
	*text = mem_strdup(with);
}

static void test_rfc7677_client(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "x", "pencil", false);
	assert_int_equal(to_client(&b, ""), SCRAM_MORE);
	replace(&b.client.nonce, "rOprNGfwEbeRWgbNEkqO");
	replace(&b.client.client_first_bare, RFC_CLIENT_BARE);
	assert_int_equal(to_client(&b, RFC_SERVER_FIRST), SCRAM_MORE);
	assert_string_equal(buf_text(&b.out), RFC_CLIENT_FINAL);
	assert_int_equal(to_client(&b, RFC_SERVER_FINAL), SCRAM_DONE);
	assert_int_equal(b.out.len, 0);
	bench_done(&b);
}

static void rfc_server(struct bench *b, const char *password)
{
	uint8_t salted[SCRAM_KEY_LEN], client_key[SCRAM_KEY_LEN];

	bench_init(b, password, "x", false);
	b->verifier.iterations = 4096;
	assert_int_equal(base64_decode("W22ZaJ0SNY7soEsUEjb6gQ==", 24, b->verifier.salt,
			     16, &b->verifier.salt_len),
	    0);
	scram_salted_password(password, b->verifier.salt, 16, 4096, salted);
	scram_client_key(salted, client_key);
	scram_stored_key(client_key, b->verifier.stored_key);
	scram_server_key(salted, b->verifier.server_key);
	assert_int_equal(to_server(b, "n,," RFC_CLIENT_BARE), SCRAM_MORE);
	replace(&b->server.nonce, RFC_NONCE);
	replace(&b->server.server_first, RFC_SERVER_FIRST);
}

static void test_rfc7677_server(void **state)
{
	uint8_t stored_key[SCRAM_KEY_LEN];
	struct bench b;

	(void)state;
	rfc_server(&b, "pencil");
	assert_int_equal(to_server(&b, RFC_CLIENT_FINAL), SCRAM_DONE);
	assert_string_equal(buf_text(&b.out), RFC_SERVER_FINAL);
	scram_stored_key(b.server.client_key, stored_key);
	assert_memory_equal(stored_key, b.verifier.stored_key, SCRAM_KEY_LEN);
	bench_done(&b);

	rfc_server(&b, "Pencil");
	assert_int_equal(to_server(&b, RFC_CLIENT_FINAL), SCRAM_FAIL);
	assert_string_equal(b.err.text, "password authentication failed");
	bench_done(&b);
}

static void test_server_first_form(void **state)
{
	char salt[BASE64_LEN(16) + 1], wanted[200];
	struct bench b;

	(void)state;
	bench_init(&b, "pencil", "pencil", false);
	base64_encode(b.verifier.salt, 16, salt);
	assert_int_equal(to_server(&b, "n,,n=,r=abc"), SCRAM_MORE);
	/* The server adds 18 random bytes to the client's nonce. */
	assert_int_equal(strlen(b.server.nonce), 3 + 24);
	snprintf(wanted, sizeof(wanted), "r=%s,s=%s,i=5", b.server.nonce, salt);
	assert_string_equal(buf_text(&b.out), wanted);
	assert_memory_equal(wanted, "r=abc", 5);
	bench_done(&b);
}

static void test_client_first_form(void **state)
{
	struct bench b;
	struct scram_client other;
	struct buf out;

	(void)state;
	bench_init(&b, "pencil", "pencil", false);
	assert_int_equal(to_client(&b, ""), SCRAM_MORE);
	assert_int_equal(b.out.len, strlen("n,,n=,r=") + 24);
	assert_memory_equal(b.out.bytes, "n,,n=,r=", 8);
	buf_init(&out, 0);
	scram_client_init(&other, "pencil", NULL, NULL, NULL);
	assert_int_equal(scram_client_step(&other, NULL, 0, &out, &b.err), SCRAM_MORE);
	assert_string_not_equal(other.nonce, b.client.nonce);
	buf_done(&out);
	scram_client_done(&other);
	bench_done(&b);
}

static void test_each_other(void **state)
{
	static const char *const passwords[] = {"pencil", "a", "p,=n\" ", "caf\xc3\xa9",
	    "raw\xff\xfe", "I\u00ADX", "\u05D01"};

	(void)state;
	for (size_t i = 0; i < sizeof(passwords) / sizeof(*passwords); i++) {
		struct bench b;
		char *text;

		bench_init(&b, passwords[i], passwords[i], false);
		assert_int_equal(run(&b), SCRAM_DONE);
		text = answer(&b);
		assert_int_equal(to_client(&b, text), SCRAM_DONE);
		mem_free(text);
		bench_done(&b);
	}
}

static void test_prepared_spellings_are_one(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "IX", "I\u00ADX", false);
	assert_int_equal(run(&b), SCRAM_DONE);
	bench_done(&b);
	bench_init(&b, "\u00E9", "e\u0301", false);
	assert_int_equal(run(&b), SCRAM_DONE);
	bench_done(&b);
}

static void test_wrong_password(void **state)
{
	static const uint8_t zeros[SCRAM_KEY_LEN] = {0};
	struct bench b;

	(void)state;
	bench_init(&b, "pencil", "pencils", false);
	assert_int_equal(run(&b), SCRAM_FAIL);
	assert_string_equal(b.err.text, "password authentication failed");
	assert_string_equal(b.err.sqlstate, "28P01");
	assert_int_equal(b.out.len, 0);
	assert_memory_equal(b.server.client_key, zeros, SCRAM_KEY_LEN);
	bench_done(&b);
}

/* A mock exchange fails like a wrong password, even when the proof would fit. */
static void test_mock(void **state)
{
	static const uint8_t secret[32] = {1};
	struct bench b;

	(void)state;
	bench_init(&b, "pencil", "pencil", true);
	assert_int_equal(run(&b), SCRAM_FAIL);
	assert_string_equal(b.err.text, "password authentication failed");
	assert_int_equal(b.out.len, 0);
	bench_done(&b);

	bench_init(&b, "pencil", "pencil", false);
	scram_verifier_done(&b.verifier);
	scram_verifier_mock(&b.verifier, "nobody", secret, 4096);
	assert_int_equal(run(&b), SCRAM_FAIL);
	bench_done(&b);
}

static void expect_first_refused(const char *text, const char *why)
{
	struct bench b;

	bench_init(&b, "pencil", "pencil", false);
	assert_int_equal(to_server(&b, text), SCRAM_FAIL);
	if (!strstr(b.err.text, why))
		fail_msg("\"%s\" gave \"%s\"", text, b.err.text);
	assert_int_equal(b.out.len, 0);
	/* After a failure the exchange is over. */
	assert_int_equal(to_server(&b, "n,,n=,r=abc"), SCRAM_FAIL);
	bench_done(&b);
}

static void test_malformed_client_first(void **state)
{
	static const char *const malformed[] = {"", "n", "n,", "n,,", "y,,",
	    "x,,n=,r=abc", ",,n=,r=abc", "nn,,n=,r=abc", "n;,n=,r=abc", "n,x,n=,r=abc",
	    "n,,n", "n,,n=", "n,,n=,", "n,,n=,r", "n,,n=,r=", "n,,n=,r=,x=y",
	    "n,,r=abc", "n,,r=abc,n=", "n,,n=,r=a b", "n,,n=,r=a\tb", "n,,n=,r=a\x7f",
	    "n,,n=,r=a\xc3\xa9", "n,,n=,r=abc,", "n,,n=,r=abc,x",
	    "n,,n=,r=abc,xy=", "n,,n=,r=abc,1=2", "n,,n=,r=abc,x=1,,y=2", "n,,=,r=abc",
	    "N,,n=,r=abc", "n,,N=,r=abc"};
	static const char nul[] = "n,,n=,r=a\0c";
	struct bench b;

	(void)state;
	for (size_t i = 0; i < sizeof(malformed) / sizeof(*malformed); i++)
		expect_first_refused(malformed[i], "malformed SCRAM message (");
	expect_first_refused("p=tls-server-end-point,,n=,r=abc",
	    "client requires SCRAM channel binding, but it is not supported");
	expect_first_refused("p", "channel binding");
	expect_first_refused("n,a=admin,n=,r=abc", "authorization identity");
	expect_first_refused("y,a=,n=,r=abc", "authorization identity");
	expect_first_refused("n,,m=x,n=,r=abc", "unsupported SCRAM extension");
	expect_first_refused("n,,n=,m=x,r=abc", "unsupported SCRAM extension");
	expect_first_refused("n,,n=,r=abc,x=1,m=x", "unsupported SCRAM extension");
	bench_init(&b, "pencil", "pencil", false);
	assert_int_equal(scram_server_step(&b.server, (const uint8_t *)nul,
			     sizeof(nul) - 1, &b.out, &b.err),
	    SCRAM_FAIL);
	assert_string_equal(b.err.text, "malformed SCRAM message (NUL byte)");
	bench_done(&b);
}

static void test_accepted_client_first(void **state)
{
	static const char *const good[] = {"n,,n=,r=abc", "y,,n=,r=abc",
	    "n,,n=someone,r=x", "n,,n=a=2Cb=zz\xff,r=x",
	    "n,,n=,r=abc,x=", "n,,n=,r=abc,x=1,Y==", "n,,n=,r=!~=/\""};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		struct bench b;
		bench_init(&b, "pencil", "pencil", false);
		assert_int_equal(to_server(&b, good[i]), SCRAM_MORE);
		bench_done(&b);
	}
}

/* Builds the final message of a client with the password, from parts. */
static char *final_message(struct bench *b, const char *bare, const char *without_proof)
{
	uint8_t salted[SCRAM_KEY_LEN], key[SCRAM_KEY_LEN], signature[SCRAM_KEY_LEN];
	char proof[BASE64_LEN(SCRAM_KEY_LEN) + 1], *final;
	struct buf text;

	scram_salted_password(
	    "pencil", b->verifier.salt, b->verifier.salt_len, 5, salted);
	scram_client_key(salted, key);
	buf_init(&text, 0);
	buf_printf(&text, "%s,%s,%s", bare, b->server.server_first, without_proof);
	scram_sign(b->verifier.stored_key, text.bytes, text.len, signature);
	for (size_t i = 0; i < SCRAM_KEY_LEN; i++)
		signature[i] ^= key[i];
	base64_encode(signature, SCRAM_KEY_LEN, proof);
	buf_clear(&text);
	buf_printf(&text, "%s,p=%s", without_proof, proof);
	final = mem_strdup(buf_text(&text));
	buf_done(&text);
	return final;
}

/* The nonce goes between `before` and `after`; `tail` comes behind the proof.  why NULL
 * means that the client authenticates. */
static void try_final(const char *flag, const char *before, const char *after,
    const char *tail, const char *why)
{
	struct bench b;
	char first[100], middle[300], whole[500], *final;

	bench_init(&b, "pencil", "pencil", false);
	snprintf(first, sizeof(first), "%s,,n=,r=abc", flag);
	assert_int_equal(to_server(&b, first), SCRAM_MORE);
	snprintf(middle, sizeof(middle), "%s%s%s", before, b.server.nonce, after);
	final = final_message(&b, "n=,r=abc", middle);
	snprintf(whole, sizeof(whole), "%s%s", final, tail);
	assert_int_equal(to_server(&b, whole), why ? SCRAM_FAIL : SCRAM_DONE);
	if (why && !strstr(b.err.text, why))
		fail_msg("\"%s\" gave \"%s\"", whole, b.err.text);
	if (why)
		assert_int_equal(b.out.len, 0);
	mem_free(final);
	bench_done(&b);
}

static void test_client_final(void **state)
{
	static const char *const malformed = "malformed SCRAM message (";

	(void)state;
	try_final("n", "c=biws,r=", "", "", NULL);
	try_final("y", "c=eSws,r=", "", "", NULL);
	try_final("n", "c=biws,r=", ",x=1,Y=", "", NULL);
	try_final("y", "c=biws,r=", "", "", "channel binding data does not match");
	try_final("n", "c=eSws,r=", "", "", "channel binding data does not match");
	try_final("n", "c=,r=", "", "", "channel binding data does not match");
	try_final("n", "c=biws=,r=", "", "", "channel binding data does not match");
	try_final("n", "c=biw,r=", "", "", "channel binding data does not match");
	try_final("n", "r=", ",c=biws", "", malformed);
	try_final("n", "c=biws,x=1,r=", "", "", malformed);
	try_final("n", "C=biws,r=", "", "", malformed);
	try_final("n", "c=biws,,r=", "", "", malformed);
	try_final("n", "c=biws,r=x", "", "", "nonce does not match");
	try_final("n", "c=biws,r=", "x", "", "nonce does not match");
	try_final("n", "c=biws,r=", ",m=1", "", "unsupported SCRAM extension");
	try_final("n", "m=1,c=biws,r=", "", "", "unsupported SCRAM extension");
	try_final("n", "c=biws,r=", ",", "", malformed);
	try_final("n", "c=biws,r=", ",x", "", malformed);
	try_final("n", "c=biws,r=", "", ",", "garbage after the proof");
	try_final("n", "c=biws,r=", "", ",x=1", "garbage after the proof");
	try_final("n", "c=biws,r=", "", " ", malformed);
	try_final("n", "c=biws,r=", "", "AAAA", malformed);
	try_final("n", "c=biws,r=", "", "=", malformed);
}

static void test_bad_proofs(void **state)
{
	static const char *const tails[] = {"", ",", ",p", ",p=", ",p=AAAA", ",p=*",
	    ",x=1", ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVR=",
	    ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ",
	    ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQA"};

	(void)state;
	for (size_t i = 0; i < sizeof(tails) / sizeof(*tails); i++) {
		char text[300];
		struct bench b;

		rfc_server(&b, "pencil");
		snprintf(text, sizeof(text), "c=biws,r=%s%s", RFC_NONCE, tails[i]);
		assert_int_equal(to_server(&b, text), SCRAM_FAIL);
		assert_memory_equal(b.err.text, "malformed SCRAM message (", 25);
		assert_int_equal(to_server(&b, RFC_CLIENT_FINAL), SCRAM_FAIL);
		bench_done(&b);
	}
}

static void test_replayed_proof(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b, "pencil", "pencil", false);
	assert_int_equal(to_server(&b, "n,," RFC_CLIENT_BARE), SCRAM_MORE);
	assert_int_equal(to_server(&b, RFC_CLIENT_FINAL), SCRAM_FAIL);
	assert_string_equal(
	    b.err.text, "invalid SCRAM response (nonce does not match)");
	bench_done(&b);
}

static void test_after_the_end(void **state)
{
	struct bench b;

	(void)state;
	rfc_server(&b, "pencil");
	assert_int_equal(to_server(&b, RFC_CLIENT_FINAL), SCRAM_DONE);
	assert_int_equal(to_server(&b, RFC_CLIENT_FINAL), SCRAM_FAIL);
	assert_int_equal(to_client(&b, ""), SCRAM_MORE);
	assert_int_equal(to_client(&b, ""), SCRAM_FAIL);
	assert_int_equal(to_client(&b, RFC_SERVER_FIRST), SCRAM_FAIL);
	bench_done(&b);
}

/* A nonce of any length is echoed: no buffer has a fixed size. */
static void test_long_nonce(void **state)
{
	size_t len = 200000;
	char *text = mem_alloc(len + 20);
	struct bench b;

	(void)state;
	bench_init(&b, "pencil", "pencil", false);
	strcpy(text, "n,,n=,r=");
	memset(text + 8, 'N', len);
	text[8 + len] = '\0';
	assert_int_equal(to_server(&b, text), SCRAM_MORE);
	assert_int_equal(strlen(b.server.nonce), len + 24);
	bench_done(&b);

	bench_init(&b, "pencil", "pencil", false);
	assert_int_equal(to_client(&b, ""), SCRAM_MORE);
	memcpy(text, "r=", 2);
	memcpy(text + 2, b.client.nonce, 24);
	strcpy(text + len, ",s=AAAA,i=1");
	assert_int_equal(to_client(&b, text), SCRAM_MORE);
	assert_true(b.out.len > len);
	bench_done(&b);
	mem_free(text);
}

/* An answer that does not fit fails with out of memory, and no part of it is sent. */
static void test_no_room(void **state)
{
	struct bench b;
	struct buf small;

	(void)state;
	bench_init(&b, "pencil", "pencil", false);
	buf_init(&small, 10);
	assert_int_equal(scram_server_step(&b.server, (const uint8_t *)"n,,n=,r=abc",
			     11, &small, &b.err),
	    SCRAM_FAIL);
	assert_string_equal(b.err.text, "out of memory");
	assert_int_equal(
	    scram_client_step(&b.client, NULL, 0, &small, &b.err), SCRAM_FAIL);
	assert_string_equal(b.err.text, "out of memory");
	buf_done(&small);
	bench_done(&b);
}

/* %s in the text is the client's nonce. */
static void expect_challenge(const char *text, const char *why)
{
	struct bench b;
	char whole[3000];
	const char *nonce_at = strstr(text, "%s");

	bench_init(&b, "pencil", "pencil", false);
	assert_int_equal(to_client(&b, ""), SCRAM_MORE);
	if (nonce_at)
		snprintf(whole, sizeof(whole), "%.*s%s%s", (int)(nonce_at - text), text,
		    b.client.nonce, nonce_at + 2);
	else
		snprintf(whole, sizeof(whole), "%s", text);
	assert_int_equal(to_client(&b, whole), why ? SCRAM_FAIL : SCRAM_MORE);
	if (why && !strstr(b.err.text, why))
		fail_msg("\"%s\" gave \"%s\"", whole, b.err.text);
	assert_int_equal(b.out.len == 0, why != NULL);
	bench_done(&b);
}

static void test_server_first(void **state)
{
	static const char *const malformed[] = {"", "r", "r=", "r=%sx", "r=%sx,",
	    "r=%sx,s", "r=%sx,s=", "r=%sx,s=,i=1", "r=%sx,s=AA,i=1", "r=%sx,s=AB==,i=1",
	    "r=%sx,s=A*==,i=1", "r=%sx,s=AA==", "r=%sx,s=AA==,", "r=%sx,s=AA==,i",
	    "r=%sx,s=AA==,i=", "r=%sx,s=AA==,i=0", "r=%sx,s=AA==,i=000",
	    "r=%sx,s=AA==,i=-1", "r=%sx,s=AA==,i=+1", "r=%sx,s=AA==,i= 1",
	    "r=%sx,s=AA==,i=1x", "r=%sx,s=AA==,i=0x10",
	    "r=%sx,i=1,s=AA==", "s=AA==,r=%sx,i=1", "r=%s x,s=AA==,i=1",
	    "r=%s\x01,s=AA==,i=1", "r=%s\xff,s=AA==,i=1", "r=%sx,s=AA==,i=1,",
	    "r=%sx,s=AA==,i=1,x", "r=%sx,,s=AA==,i=1", "e=other-error"};

	(void)state;
	for (size_t i = 0; i < sizeof(malformed) / sizeof(*malformed); i++)
		expect_challenge(malformed[i], "malformed SCRAM message (");
	expect_challenge("r=%sx,s=AA==,i=1", NULL);
	expect_challenge("r=%sx,s=AA==,i=1,x=y,Z=", NULL);
	expect_challenge("r=%s,s=AA==,i=1", "nonce does not match");
	expect_challenge("r=x%s,s=AA==,i=1", "nonce does not match");
	expect_challenge("r=x,s=AA==,i=1", "nonce does not match");
	expect_challenge("m=1,r=%sx,s=AA==,i=1", "unsupported SCRAM extension");
	expect_challenge("r=%sx,s=AA==,i=1,m=1", "unsupported SCRAM extension");
}

/* A hostile server must not make the client compute for long or overflow the count. */
static void test_iteration_limit(void **state)
{
	static const char *const counts[] = {"1000001", "2147483647", "4294967297",
	    "18446744073709551617", "99999999999999999999999999999999999999999999"};

	(void)state;
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		char text[200];
		snprintf(text, sizeof(text), "r=%%sx,s=AA==,i=%s", counts[i]);
		expect_challenge(
		    text, "server asks for more than 1000000 SCRAM iterations");
	}
}

static void test_salt_limit(void **state)
{
	char text[2000];

	(void)state;
	/* these salts have 1023 and 1026 bytes */
	for (int digits = 1364; digits <= 1368; digits += 4) {
		int at = sprintf(text, "r=%%sx,s=");
		memset(text + at, 'A', (size_t)digits);
		strcpy(text + at + digits, ",i=1");
		expect_challenge(text, digits == 1364 ? NULL : "invalid salt");
	}
}

/* Brings a client to the point where it waits for the server's final message. */
static void at_server_final(struct bench *b)
{
	bench_init(b, "x", "pencil", false);
	assert_int_equal(to_client(b, ""), SCRAM_MORE);
	replace(&b->client.nonce, "rOprNGfwEbeRWgbNEkqO");
	replace(&b->client.client_first_bare, RFC_CLIENT_BARE);
	assert_int_equal(to_client(b, RFC_SERVER_FIRST), SCRAM_MORE);
}

static void test_server_final(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
	    {RFC_SERVER_FINAL, NULL},
	    {RFC_SERVER_FINAL ",x=1", NULL},
	    {"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
		"invalid server signature"},
	    {"v=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
		"invalid server signature"},
	    {"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=",
		"malformed SCRAM message ("},
	    {"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4",
		"malformed SCRAM message ("},
	    {"v=", "malformed SCRAM message ("},
	    {"v", "malformed SCRAM message ("},
	    {"", "malformed SCRAM message ("},
	    {"V=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
		"malformed SCRAM message ("},
	    {RFC_SERVER_FINAL ",", "malformed SCRAM message ("},
	    {RFC_SERVER_FINAL ",x", "malformed SCRAM message ("},
	    {RFC_SERVER_FINAL ",m=1", "unsupported SCRAM extension"},
	    {"m=1," RFC_SERVER_FINAL, "unsupported SCRAM extension"},
	    {"e=invalid-proof", "server reported a SCRAM error: invalid-proof"},
	    {"e=a\nb", "malformed SCRAM message ("},
	    {"e=", "malformed SCRAM message ("},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct bench b;
		at_server_final(&b);
		assert_int_equal(to_client(&b, cases[i].text),
		    cases[i].why ? SCRAM_FAIL : SCRAM_DONE);
		if (cases[i].why && !strstr(b.err.text, cases[i].why))
			fail_msg("\"%s\" gave \"%s\"", cases[i].text, b.err.text);
		bench_done(&b);
	}
}

/* Pass-through: the keys of a client's login are used to log in to the server. */
static void test_keys_instead_of_password(void **state)
{
	struct scram_keys keys;
	struct bench b;
	char *text;

	(void)state;
	bench_init(&b, "pencil", "pencil", false);
	assert_int_equal(run(&b), SCRAM_DONE);
	memcpy(keys.client_key, b.server.client_key, SCRAM_KEY_LEN);
	memcpy(keys.server_key, b.verifier.server_key, SCRAM_KEY_LEN);
	scram_server_done(&b.server);
	scram_client_done(&b.client);
	scram_server_init(&b.server, &b.verifier, false, NULL);
	scram_client_init(&b.client, NULL, &keys, NULL, NULL);
	assert_int_equal(run(&b), SCRAM_DONE);
	text = answer(&b);
	assert_int_equal(to_client(&b, text), SCRAM_DONE);
	mem_free(text);
	bench_done(&b);

	/* The keys do not log in to a server with another password. */
	bench_init(&b, "other", "x", false);
	scram_client_init(&b.client, NULL, &keys, NULL, NULL);
	assert_int_equal(run(&b), SCRAM_FAIL);
	bench_done(&b);
}

static void test_cache(void **state)
{
	struct scram_cache cache = {0};
	struct bench b;

	(void)state;
	bench_init(&b, "pencil", "pencil", false);
	b.client.cache = &cache;
	assert_int_equal(run(&b), SCRAM_DONE);
	assert_int_equal(cache.iterations, 5);
	assert_int_equal(cache.salt_len, 16);
	assert_memory_equal(cache.salt, b.verifier.salt, 16);
	assert_memory_equal(cache.keys.client_key, b.server.client_key, SCRAM_KEY_LEN);
	assert_memory_equal(
	    cache.keys.server_key, b.verifier.server_key, SCRAM_KEY_LEN);

	/* With the same salt and count the cached key is used, not the password. */
	scram_server_done(&b.server);
	scram_client_done(&b.client);
	scram_server_init(&b.server, &b.verifier, false, NULL);
	scram_client_init(&b.client, "wrong", NULL, &cache, NULL);
	assert_int_equal(run(&b), SCRAM_DONE);
	bench_done(&b);

	/* With another salt the key is derived again, and replaces the cached one. */
	bench_init(&b, "pencil", "pencil", false);
	b.client.cache = &cache;
	assert_int_equal(run(&b), SCRAM_DONE);
	assert_memory_equal(cache.salt, b.verifier.salt, 16);

	/* The same with another count. */
	cache.iterations = 6;
	scram_server_done(&b.server);
	scram_client_done(&b.client);
	scram_server_init(&b.server, &b.verifier, false, NULL);
	scram_client_init(&b.client, "wrong", NULL, &cache, NULL);
	assert_int_equal(run(&b), SCRAM_FAIL);
	bench_done(&b);
	scram_cache_done(&cache);
	assert_null(cache.salt);
	assert_int_equal(cache.iterations, 0);
	scram_cache_done(&cache);
}

/* ---- channel binding ---- */

static const uint8_t hash[] = {0xff, 0x00, 0x10, 0x2c, 0x3d};
static const uint8_t other_hash[] = {0xff, 0x00, 0x10, 0x2c, 0x3e};
#define BOUND_BINDING "cD10bHMtc2VydmVyLWVuZC1wb2ludCws/wAQLD0="

static const struct scram_binding may_bind = {hash, sizeof(hash), false};
static const struct scram_binding must_bind = {hash, sizeof(hash), true};
static const struct scram_binding elsewhere = {other_hash, sizeof(other_hash), false};
static const struct scram_binding cannot_bind = {NULL, 0, true};

/* Both ends negotiate as on the wire; returns the server's result. */
static enum scram_result run_bound(struct bench *b, const struct scram_binding *server,
    const struct scram_binding *client, const char *expected_mechanism)
{
	const char *offer[3], *mechanism;
	bool is_offered = false, is_plus_offered = false;

	bench_init(b, "pencil", "pencil", false);
	b->server.binding = server;
	scram_client_init(&b->client, "pencil", NULL, NULL, client);
	scram_server_offer(&b->server, offer);
	for (size_t i = 0; offer[i]; i++) {
		is_offered |= strcmp(offer[i], SCRAM_MECHANISM) == 0;
		is_plus_offered |= strcmp(offer[i], SCRAM_MECHANISM_PLUS) == 0;
	}
	mechanism =
	    scram_client_select(&b->client, is_offered, is_plus_offered, &b->err);
	if (!mechanism) {
		assert_null(expected_mechanism);
		return SCRAM_FAIL;
	}
	assert_string_equal(mechanism, expected_mechanism);
	assert_int_equal(scram_server_select(&b->server, mechanism), 0);
	return run(b);
}

static void test_binding_between_ends(void **state)
{
	static const struct {
		const struct scram_binding *server, *client;
		const char *mechanism; /* NULL: the client gives up */
		enum scram_result result;
		const char *why;
	} cases[] = {
	    {NULL, NULL, SCRAM_MECHANISM, SCRAM_DONE, NULL},
	    {&may_bind, NULL, SCRAM_MECHANISM, SCRAM_DONE, NULL},
	    {NULL, &may_bind, SCRAM_MECHANISM, SCRAM_DONE, NULL},
	    {&may_bind, &may_bind, SCRAM_MECHANISM_PLUS, SCRAM_DONE, NULL},
	    {&must_bind, &may_bind, SCRAM_MECHANISM_PLUS, SCRAM_DONE, NULL},
	    {&may_bind, &must_bind, SCRAM_MECHANISM_PLUS, SCRAM_DONE, NULL},
	    {&must_bind, &must_bind, SCRAM_MECHANISM_PLUS, SCRAM_DONE, NULL},
	    {&may_bind, &elsewhere, SCRAM_MECHANISM_PLUS, SCRAM_FAIL,
		"channel binding data does not match"},
	    {NULL, &must_bind, NULL, SCRAM_FAIL,
		"channel binding is required, but the server does not offer it"},
	    {&may_bind, &cannot_bind, NULL, SCRAM_FAIL,
		"channel binding is required, but the connection to the server has "
		"nothing to bind to"},
	    {&must_bind, NULL, NULL, SCRAM_FAIL,
		"none of the server's SASL authentication mechanisms are supported"},
	    {&cannot_bind, NULL, NULL, SCRAM_FAIL,
		"none of the server's SASL authentication mechanisms are supported"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct bench b;
		char *text;
		enum scram_result result =
		    run_bound(&b, cases[i].server, cases[i].client, cases[i].mechanism);

		if (result != cases[i].result)
			fail_msg("case %zu: %d, %s", i, result, b.err.text);
		if (cases[i].why && !strstr(b.err.text, cases[i].why))
			fail_msg("case %zu: \"%s\"", i, b.err.text);
		if (result == SCRAM_DONE) {
			text = answer(&b);
			assert_int_equal(to_client(&b, text), SCRAM_DONE);
			mem_free(text);
		}
		bench_done(&b);
	}
}

static void test_offer(void **state)
{
	const char *offer[3];
	struct scram_server s;
	struct scram_verifier v = {0};

	(void)state;
	scram_server_init(&s, &v, false, &may_bind);
	scram_server_offer(&s, offer);
	assert_string_equal(offer[0], "SCRAM-SHA-256-PLUS");
	assert_string_equal(offer[1], "SCRAM-SHA-256");
	assert_null(offer[2]);
	assert_int_equal(scram_server_select(&s, "SCRAM-SHA-1"), -1);
	assert_int_equal(scram_server_select(&s, ""), -1);
	scram_server_init(&s, &v, false, &must_bind);
	scram_server_offer(&s, offer);
	assert_string_equal(offer[0], "SCRAM-SHA-256-PLUS");
	assert_null(offer[1]);
	assert_int_equal(scram_server_select(&s, "SCRAM-SHA-256"), -1);
	scram_server_init(&s, &v, false, NULL);
	scram_server_offer(&s, offer);
	assert_string_equal(offer[0], "SCRAM-SHA-256");
	assert_null(offer[1]);
	assert_int_equal(scram_server_select(&s, "SCRAM-SHA-256-PLUS"), -1);
	scram_server_init(&s, &v, false, &cannot_bind);
	scram_server_offer(&s, offer);
	assert_null(offer[0]);
}

/* A client and a server that offers channel binding exchange exactly these bytes. */
static void test_binding_of_clients(void **state)
{
	static const struct {
		const struct scram_binding *binding;
		/* NULL: none was selected */
		const char *mechanism, *flag, *data, *why;
	} cases[] = {
	    {&may_bind, SCRAM_MECHANISM_PLUS, "p=tls-server-end-point", BOUND_BINDING,
		NULL},
	    {&may_bind, SCRAM_MECHANISM, "n", "biws", NULL},
	    {NULL, SCRAM_MECHANISM, "y", "eSws", NULL},
	    /* an attacker removed the offer of channel binding */
	    {&may_bind, SCRAM_MECHANISM, "y", "eSws",
		"client thinks that we do not offer SCRAM channel binding"},
	    {&may_bind, SCRAM_MECHANISM_PLUS, "n", "biws", "does not bind SCRAM"},
	    {&may_bind, SCRAM_MECHANISM_PLUS, "y", "eSws", "does not bind SCRAM"},
	    {&must_bind, NULL, "n", "biws", "SCRAM channel binding is required"},
	    {&may_bind, SCRAM_MECHANISM, "p=tls-server-end-point", BOUND_BINDING,
		"without having selected SCRAM-SHA-256-PLUS"},
	    {&may_bind, SCRAM_MECHANISM_PLUS, "p=tls-unique", BOUND_BINDING,
		"unsupported SCRAM channel binding type"},
	    {&may_bind, SCRAM_MECHANISM_PLUS, "p=", BOUND_BINDING,
		"unsupported SCRAM channel binding type"},
	    {&may_bind, SCRAM_MECHANISM_PLUS, "p", BOUND_BINDING, "malformed"},
	    {&may_bind, SCRAM_MECHANISM_PLUS, "p=tls-server-end-point", "biws",
		"channel binding data does not match"},
	    /* no hash, a wrong hash, and the right hash in another encoding */
	    {&may_bind, SCRAM_MECHANISM_PLUS, "p=tls-server-end-point",
		"cD10bHMtc2VydmVyLWVuZC1wb2ludCws",
		"channel binding data does not match"},
	    {&may_bind, SCRAM_MECHANISM_PLUS, "p=tls-server-end-point",
		"cD10bHMtc2VydmVyLWVuZC1wb2ludCws/wAQLD4=",
		"channel binding data does not match"},
	    {&may_bind, SCRAM_MECHANISM_PLUS, "p=tls-server-end-point",
		"cD10bHMtc2VydmVyLWVuZC1wb2ludCws/wAQLD0",
		"channel binding data does not match"},
	    {&may_bind, SCRAM_MECHANISM, "n", BOUND_BINDING,
		"channel binding data does not match"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct bench b;
		char first[100], middle[300], *final;
		enum scram_result result;

		bench_init(&b, "pencil", "pencil", false);
		b.server.binding = cases[i].binding;
		if (cases[i].mechanism)
			assert_int_equal(
			    scram_server_select(&b.server, cases[i].mechanism), 0);
		snprintf(first, sizeof(first), "%s,,n=,r=abc", cases[i].flag);
		result = to_server(&b, first);
		if (result == SCRAM_MORE) {
			snprintf(middle, sizeof(middle), "c=%s,r=%s", cases[i].data,
			    b.server.nonce);
			final = final_message(&b, "n=,r=abc", middle);
			result = to_server(&b, final);
			mem_free(final);
		}
		if (result != (cases[i].why ? SCRAM_FAIL : SCRAM_DONE))
			fail_msg("case %zu: %d, %s", i, result, b.err.text);
		if (cases[i].why && !strstr(b.err.text, cases[i].why))
			fail_msg("case %zu: \"%s\"", i, b.err.text);
		bench_done(&b);
	}
}

static void test_bound_client_form(void **state)
{
	static const char first[] = "p=tls-server-end-point,,n=,r=";
	char text[200];
	struct bench b;

	(void)state;
	bench_init(&b, "x", "pencil", false);
	scram_client_init(&b.client, "pencil", NULL, NULL, &may_bind);
	assert_string_equal(
	    scram_client_select(&b.client, true, true, &b.err), "SCRAM-SHA-256-PLUS");
	assert_int_equal(to_client(&b, ""), SCRAM_MORE);
	assert_memory_equal(b.out.bytes, first, strlen(first));
	snprintf(text, sizeof(text), "r=%sx,s=AAAA,i=1", b.client.nonce);
	assert_int_equal(to_client(&b, text), SCRAM_MORE);
	assert_memory_equal(
	    b.out.bytes, "c=" BOUND_BINDING ",r=", strlen("c=" BOUND_BINDING ",r="));
	bench_done(&b);

	/* The server does not offer channel binding, although the client could bind:
	 * the client's message says so. */
	bench_init(&b, "x", "pencil", false);
	scram_client_init(&b.client, "pencil", NULL, NULL, &may_bind);
	assert_string_equal(
	    scram_client_select(&b.client, true, false, &b.err), "SCRAM-SHA-256");
	assert_int_equal(to_client(&b, ""), SCRAM_MORE);
	assert_memory_equal(b.out.bytes, "y,,n=,r=", 8);
	bench_done(&b);
}

/* ---- derivation by the owner ---- */

static void test_derivation_is_handed_out(void **state)
{
	uint8_t salted[SCRAM_KEY_LEN];
	struct scram_cache cache = {0};
	struct scram_due due;
	struct bench b;

	(void)state;
	bench_init(&b, "x", "pencil", false);
	b.client.cache = &cache;
	assert_int_equal(to_client(&b, ""), SCRAM_MORE);
	replace(&b.client.nonce, "rOprNGfwEbeRWgbNEkqO");
	replace(&b.client.client_first_bare, RFC_CLIENT_BARE);
	buf_clear(&b.out);
	assert_int_equal(scram_client_step(&b.client, (const uint8_t *)RFC_SERVER_FIRST,
			     strlen(RFC_SERVER_FIRST), &b.out, &b.err),
	    SCRAM_DERIVE);
	assert_int_equal(b.out.len, 0);
	due = scram_client_due(&b.client);
	assert_string_equal(due.password, "pencil");
	assert_int_equal(due.iterations, 4096);
	assert_int_equal(due.salt_len, 16);
	scram_derive(&due, salted);
	assert_int_equal(
	    scram_client_resume(&b.client, salted, &b.out, &b.err), SCRAM_MORE);
	assert_string_equal(buf_text(&b.out), RFC_CLIENT_FINAL);
	assert_int_equal(cache.iterations, 4096);
	assert_int_equal(to_client(&b, RFC_SERVER_FINAL), SCRAM_DONE);
	scram_cache_done(&cache);
	bench_done(&b);
}

/* The server sends a message while the client derives its key. */
static void test_message_during_derivation(void **state)
{
	struct bench b;
	char text[100];

	(void)state;
	bench_init(&b, "x", "pencil", false);
	assert_int_equal(to_client(&b, ""), SCRAM_MORE);
	snprintf(text, sizeof(text), "r=%sx,s=AAAA,i=1", b.client.nonce);
	buf_clear(&b.out);
	assert_int_equal(scram_client_step(&b.client, (const uint8_t *)text,
			     strlen(text), &b.out, &b.err),
	    SCRAM_DERIVE);
	assert_int_equal(to_client(&b, RFC_SERVER_FINAL), SCRAM_FAIL);
	assert_string_equal(b.err.text, "SCRAM message before it was due");
	assert_int_equal(to_client(&b, text), SCRAM_FAIL);
	bench_done(&b);
}

/* One call of the system gives the random bytes of many exchanges. */
static void test_nonces_from_a_store(void **state)
{
	char first[80], second[80];
	struct bench b;
	struct mem mem;

	(void)state;
	mem_init(&mem);
	for (int i = 0; i < 2; i++) {
		bench_init(&b, "pencil", "pencil", false);
		b.server.mem = &mem;
		assert_int_equal(to_server(&b, "n,,n=,r=abc"), SCRAM_MORE);
		snprintf(i ? second : first, 80, "%.24s", b.server.nonce + 3);
		bench_done(&b);
	}
	assert_int_equal(mem.random_left, sizeof(mem.random) - 36);
	assert_int_equal(strlen(first), 24);
	assert_string_not_equal(first, second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_rfc7677_client),
	    cmocka_unit_test(test_rfc7677_server),
	    cmocka_unit_test(test_server_first_form),
	    cmocka_unit_test(test_client_first_form),
	    cmocka_unit_test(test_each_other),
	    cmocka_unit_test(test_prepared_spellings_are_one),
	    cmocka_unit_test(test_wrong_password),
	    cmocka_unit_test(test_mock),
	    cmocka_unit_test(test_malformed_client_first),
	    cmocka_unit_test(test_accepted_client_first),
	    cmocka_unit_test(test_client_final),
	    cmocka_unit_test(test_bad_proofs),
	    cmocka_unit_test(test_replayed_proof),
	    cmocka_unit_test(test_after_the_end),
	    cmocka_unit_test(test_long_nonce),
	    cmocka_unit_test(test_no_room),
	    cmocka_unit_test(test_server_first),
	    cmocka_unit_test(test_iteration_limit),
	    cmocka_unit_test(test_salt_limit),
	    cmocka_unit_test(test_server_final),
	    cmocka_unit_test(test_keys_instead_of_password),
	    cmocka_unit_test(test_cache),
	    cmocka_unit_test(test_binding_between_ends),
	    cmocka_unit_test(test_offer),
	    cmocka_unit_test(test_nonces_from_a_store),
	    cmocka_unit_test(test_binding_of_clients),
	    cmocka_unit_test(test_bound_client_form),
	    cmocka_unit_test(test_derivation_is_handed_out),
	    cmocka_unit_test(test_message_during_derivation),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
