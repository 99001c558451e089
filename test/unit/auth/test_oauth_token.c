/*
 * Tokens, key sets and discovery documents: what is accepted, and every way in which a
 * token, or a key, is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config.h"

#ifdef HAVE_OAUTH

#	include <openssl/evp.h>
#	include <openssl/hmac.h>

#	include "auth/oauth_token.h"
#	include "base/buf.h"
#	include "base/mem.h"
#	include "oauth_scene.h"

#	define CLAIMS                                                     \
		"{\"iss\":\"https://"                                      \
		"i\",\"aud\":[\"x\",\"db\"],\"sub\":\"ann\",\"exp\":2000," \
		"\"scope\":\"openid db.read\"}"

static struct oauth_scene issuer;
static struct oauth_keys *keys;
static struct buf set;

static struct oauth_keys *parse(const char *text, struct err *err)
{
	return oauth_keys_parse(text, strlen(text), err);
}

/* A set of one key. */
static struct oauth_keys *one_key(enum scene_key key, const char *more, struct err *err)
{
	struct oauth_keys *made;
	struct buf b;

	buf_init(&b, 0);
	buf_put_text(&b, "{\"keys\":[");
	oauth_scene_put_key(&issuer, &b, key, more);
	buf_put_text(&b, "]}");
	made = parse(buf_text(&b), err);
	buf_done(&b);
	return made;
}

static int set_up(void **state)
{
	static const char *const ids[] = {"\"kid\":\"r\",", "\"kid\":\"e\",",
	    "\"kid\":\"f\",", "\"kid\":\"o\",\"use\":\"sig\","};
	struct err err;

	(void)state;
	oauth_scene_open(&issuer);
	buf_init(&set, 0);
	buf_put_text(&set, "{\"keys\":[{\"kty\":\"oct\",\"k\":\"c2VjcmV0\"}");
	for (int k = SCENE_RSA; k < SCENE_KEYS; k++) {
		buf_put_text(&set, ",");
		oauth_scene_put_key(&issuer, &set, (enum scene_key)k, ids[k]);
	}
	buf_put_text(&set, "]}");
	keys = parse(buf_text(&set), &err);
	return keys && oauth_keys_count(keys) == 4 ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	oauth_keys_unref(&keys);
	buf_done(&set);
	oauth_scene_close(&issuer);
	return 0;
}

static enum oauth_verdict judge(const char *token, int64_t now_s, struct err *err)
{
	const struct oauth_demands demands = {
	    .issuer = "https://i",
	    .audience = "one, other db",
	    .scope = "db.read",
	    .name_claim = "sub",
	    .now_s = now_s,
	};
	char *name;
	enum oauth_verdict verdict =
	    oauth_token_judge(token, strlen(token), keys, &demands, &name, err);

	if (verdict == OAUTH_VALID)
		assert_string_equal(name, "ann");
	else {
		assert_null(name);
		assert_true(strlen(token) < 20 || !strstr(err->text, token));
	}
	mem_free(name);
	return verdict;
}

static void is_verdict(
    const char *token, int64_t now_s, enum oauth_verdict verdict, const char *why)
{
	struct err err = {.text = ""};

	assert_int_equal(judge(token, now_s, &err), verdict);
	if (!strstr(err.text, why))
		fail_msg("\"%s\" does not have \"%s\"", err.text, why);
}

/* A token of the P-256 key with these claims. */
static void claims_are(
    const char *claims, int64_t now_s, enum oauth_verdict verdict, const char *why)
{
	struct buf b;

	buf_init(&b, 0);
	oauth_scene_put_token(&issuer, &b, SCENE_P256, "ES256",
	    "{\"alg\":\"ES256\",\"kid\":\"e\"}", claims);
	is_verdict(buf_text(&b), now_s, verdict, why);
	buf_done(&b);
}

static void header_is(enum scene_key key, const char *algorithm, const char *header,
    enum oauth_verdict verdict, const char *why)
{
	struct buf b;

	buf_init(&b, 0);
	oauth_scene_put_token(&issuer, &b, key, algorithm, header, CLAIMS);
	is_verdict(buf_text(&b), 1000, verdict, why);
	buf_done(&b);
}

static void algorithms(void **state)
{
	static const struct {
		enum scene_key key;
		const char *algorithm, *id;
	} all[] = {
	    {SCENE_RSA, "RS256", "r"},
	    {SCENE_RSA, "RS384", "r"},
	    {SCENE_RSA, "RS512", "r"},
	    {SCENE_RSA, "PS256", "r"},
	    {SCENE_RSA, "PS384", "r"},
	    {SCENE_RSA, "PS512", "r"},
	    {SCENE_P256, "ES256", "e"},
	    {SCENE_P384, "ES384", "f"},
	    {SCENE_ED25519, "EdDSA", "o"},
	};
	char header[80];

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		snprintf(header, sizeof(header), "{\"alg\":\"%s\",\"kid\":\"%s\"}",
		    all[i].algorithm, all[i].id);
		header_is(all[i].key, all[i].algorithm, header, OAUTH_VALID, "");
		/* without an id each key is tried */
		snprintf(header, sizeof(header), "{\"alg\":\"%s\"}", all[i].algorithm);
		header_is(all[i].key, all[i].algorithm, header, OAUTH_VALID, "");
	}
}

static void headers_that_are_refused(void **state)
{
	(void)state;
	header_is(SCENE_RSA, "RS256", "{\"alg\":\"RS384\",\"kid\":\"r\"}",
	    OAUTH_INVALID, "signature is wrong");
	header_is(SCENE_RSA, "RS256", "{\"alg\":\"PS256\",\"kid\":\"r\"}",
	    OAUTH_INVALID, "signature is wrong");
	header_is(SCENE_RSA, "RS256", "{\"alg\":\"RS256\",\"kid\":\"e\"}",
	    OAUTH_INVALID, "signature is wrong");
	header_is(SCENE_P256, "ES256", "{\"alg\":\"EdDSA\",\"kid\":\"e\"}",
	    OAUTH_INVALID, "signature is wrong");
	header_is(SCENE_P256, "ES256", "{\"alg\":\"ES256\",\"kid\":\"z\"}",
	    OAUTH_UNKNOWN_KEY, "no key with its id, z");
	header_is(SCENE_P256, "ES256", "{\"alg\":\"RS256\"}", OAUTH_UNKNOWN_KEY,
	    "no key of the issuer fits");
	header_is(SCENE_P256, "ES256", "{\"alg\":\"none\",\"kid\":\"e\"}",
	    OAUTH_INVALID, "algorithm is none");
	header_is(SCENE_P256, "ES256", "{\"alg\":\"es256\",\"kid\":\"e\"}",
	    OAUTH_INVALID, "algorithm is es256");
	header_is(SCENE_P256, "ES256", "{\"alg\":7}", OAUTH_INVALID, "not named");
	header_is(SCENE_P256, "ES256", "{\"alg\":\"ES256\",\"kid\":7}", OAUTH_INVALID,
	    "key id is no text");
	header_is(SCENE_P256, "ES256",
	    "{\"alg\":\"ES256\",\"kid\":\"e\",\"crit\":[\"b64\"]}", OAUTH_INVALID,
	    "critical extensions");
	header_is(SCENE_P256, "ES256",
	    "{\"alg\":\"none\",\"alg\":\"ES256\",\"kid\":\"e\"}", OAUTH_INVALID,
	    "header cannot be read");
	header_is(SCENE_P256, "ES256", "[]", OAUTH_INVALID, "header cannot be read");
}

static void claims_that_are_refused(void **state)
{
	(void)state;
	claims_are(CLAIMS, 1000, OAUTH_VALID, "");
	claims_are(CLAIMS, 2029, OAUTH_VALID, "");
	claims_are(CLAIMS, 2030, OAUTH_INVALID, "expired 30 s ago");
#	define WITH(more)                                                  \
		"{\"iss\":\"https://"                                       \
		"i\",\"aud\":\"db\",\"sub\":\"ann\",\"exp\":2000,\"scp\":[" \
		"\"db.read\"]," more "}"
	claims_are(WITH("\"nbf\":1000"), 970, OAUTH_VALID, "");
	claims_are(WITH("\"nbf\":1000"), 969, OAUTH_INVALID, "begins in 31 s");
	claims_are(WITH("\"nbf\":\"0\""), 1000, OAUTH_INVALID, "not a number");
	claims_are(WITH("\"iss\":\"https://i\""), 1000, OAUTH_INVALID,
	    "claims cannot be read");
	claims_are("{\"iss\":\"https://i/\",\"exp\":2000}", 1000, OAUTH_INVALID,
	    "its issuer is https://i/");
	claims_are("{\"exp\":2000}", 1000, OAUTH_INVALID, "its issuer is not named");
	claims_are("{\"iss\":\"https://i\"}", 1000, OAUTH_INVALID, "when it expires");
	claims_are("{\"iss\":\"https://i\",\"exp\":\"2000\"}", 1000, OAUTH_INVALID,
	    "not a number");
	claims_are("{\"iss\":\"https://i\",\"exp\":1e400}", 1000, OAUTH_INVALID, "");
	claims_are("{\"iss\":\"https://i\",\"exp\":2000,\"aud\":\"d\"}", 1000,
	    OAUTH_INVALID, "another audience");
	claims_are("{\"iss\":\"https://i\",\"exp\":2000}", 1000, OAUTH_INVALID,
	    "another audience");
	claims_are("{\"iss\":\"https://i\",\"exp\":2000,\"aud\":\"db\",\"scope\":"
		   "\"db.rea db.reads\"}",
	    1000, OAUTH_INVALID, "lacks a scope");
	claims_are("{\"iss\":\"https://i\",\"exp\":2000,\"aud\":\"db\",\"scope\":"
		   "\"db.read\",\"sub\":\"\"}",
	    1000, OAUTH_INVALID, "claim sub is no text");
	claims_are("{\"iss\":\"https://i\",\"exp\":2000,\"aud\":\"db\",\"scope\":"
		   "\"db.read\",\"sub\":\"an\\u0000n\"}",
	    1000, OAUTH_INVALID, "claims cannot be read");
	claims_are("7", 1000, OAUTH_INVALID, "claims cannot be read");
}

/* A right token, cut at each byte, with each byte changed, and with bytes behind it. */
static void forged(void **state)
{
	struct buf b;
	struct err err;

	(void)state;
	buf_init(&b, 0);
	oauth_scene_put_token(&issuer, &b, SCENE_ED25519, "EdDSA",
	    "{\"alg\":\"EdDSA\",\"kid\":\"o\"}", CLAIMS);
	is_verdict(buf_text(&b), 1000, OAUTH_VALID, "");
	char *token = mem_strdup(buf_text(&b));
	size_t len = strlen(token);
	for (size_t i = 0; i < len; i++) {
		char kept = token[i];
		token[i] = '\0';
		assert_int_not_equal(judge(token, 1000, &err), OAUTH_VALID);
		token[i] = kept == 'B' ? 'C' : 'B';
		assert_int_not_equal(judge(token, 1000, &err), OAUTH_VALID);
		token[i] = kept;
	}
	mem_free(token);
	buf_put_text(&b, "A");
	assert_int_not_equal(judge(buf_text(&b), 1000, &err), OAUTH_VALID);
	buf_put_text(&b, ".A.A");
	is_verdict(buf_text(&b), 1000, OAUTH_INVALID, "not of the form");
	buf_done(&b);
	is_verdict("", 1000, OAUTH_INVALID, "not of the form");
	is_verdict("..", 1000, OAUTH_INVALID, "header cannot be read");
	is_verdict("opaque", 1000, OAUTH_INVALID, "not of the form");
}

/* The public key, as the issuer publishes it, as the key of HMAC. */
static void symmetric(void **state)
{
	static const char header[] = "{\"alg\":\"HS256\",\"kid\":\"r\"}";
	uint8_t mac[EVP_MAX_MD_SIZE];
	unsigned len;
	struct buf b;

	(void)state;
	buf_init(&b, 0);
	oauth_scene_put_base64(&b, header, strlen(header));
	buf_put_text(&b, ".");
	oauth_scene_put_base64(&b, CLAIMS, strlen(CLAIMS));
	HMAC(EVP_sha256(), set.bytes, (int)set.len, b.bytes, b.len, mac, &len);
	buf_put_text(&b, ".");
	oauth_scene_put_base64(&b, mac, len);
	is_verdict(buf_text(&b), 1000, OAUTH_INVALID, "algorithm is HS256");
	buf_done(&b);
}

static void long_ones(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 0);
	buf_put_text(&b, "{\"more\":\"");
	for (int i = 0; i < 100000; i++)
		buf_put_text(&b, "x");
	buf_put_text(&b, "\"," CLAIMS);
	/* the claims follow without their brace */
	char *claims = mem_strdup(buf_text(&b));
	memmove(strstr(claims, "\",{") + 2, strstr(claims, "\",{") + 3,
	    strlen(strstr(claims, "\",{") + 3) + 1);
	claims_are(claims, 1000, OAUTH_VALID, "");
	mem_free(claims);
	buf_clear(&b);
	for (int i = 0; i < 100000; i++)
		buf_put_text(&b, "[");
	claims_are(buf_text(&b), 1000, OAUTH_INVALID, "claims cannot be read");
	buf_done(&b);
}

/* ---- keys ---- */

static void keys_that_are_left_out(void **state)
{
	static const char *const more[] = {"\"use\":\"enc\",", "\"alg\":\"RSA-OAEP\",",
	    "\"alg\":\"HS256\",", "\"kty\":\"oct\","};
	struct oauth_keys *made;
	struct err err;

	(void)state;
	for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++)
		assert_null(one_key(SCENE_P256, more[i], &err));
	/* a key for one algorithm serves for no other */
	made = one_key(SCENE_RSA, "\"alg\":\"PS256\",", &err);
	assert_non_null(made);
	struct oauth_keys *before = keys;
	keys = made;
	header_is(SCENE_RSA, "RS256", "{\"alg\":\"RS256\"}", OAUTH_UNKNOWN_KEY, "");
	header_is(SCENE_RSA, "PS256", "{\"alg\":\"PS256\"}", OAUTH_VALID, "");
	keys = before;
	oauth_keys_unref(&made);
}

static void sets_that_are_none(void **state)
{
	static const char *const none[] = {"", "{}", "[]", "{\"keys\":7}",
	    "{\"keys\":[]}",
	    "{\"keys\":[7,{},{\"kty\":\"RSA\"},{\"kty\":\"RSA\",\"n\":\"\",\"e\":"
	    "\"AQAB\"}]}",
	    /* 1024 bits; an exponent of 1; a point that is on no curve */
	    "{\"keys\":[{\"kty\":\"RSA\",\"e\":\"AQAB\",\"n\":"
	    "\"3ZWrUY0Y6IKN1qI4BhxR2C7oHVFgGPYkd38uGq1jQNSqEvJFcN93CYm16_G78FAFKWqwsJ"
	    "b3Wx-nbxDn6LtP4AhULB1H0K0g7_jLklDAHvI8yhOKlvoyvsUFPWtNxlJyh5JJXvkNKV_4Oo12"
	    "e69f8QCuQ6NpEPl-cSvXIqUYBCs\"}]}",
	    "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":"
	    "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\",\"y\":"
	    "\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"}]}"};
	struct err err;

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		assert_null(parse(none[i], &err));
		assert_true(strstr(err.text, "not a JSON Web Key Set") ||
			    strstr(err.text, "can verify tokens"));
	}
	/* a member that is there twice */
	assert_null(one_key(SCENE_P256, "\"crv\":\"P-384\",", &err));
	assert_null(oauth_keys_load("/absent/keys", &err));
	assert_non_null(strstr(err.text, "/absent/keys: "));
}

/* ---- discovery ---- */

static void discovery(void **state)
{
	static const struct {
		const char *text, *place, *why;
	} all[] = {
	    {"{\"issuer\":\"https://i\",\"jwks_uri\":\"https://k/x\"}", "https://k/x",
		""},
	    {"{\"issuer\":\"https://i/\",\"jwks_uri\":\"https://k\"}", NULL,
		"that of the issuer https://i/"},
	    {"{\"jwks_uri\":\"https://k\"}", NULL, "without a name"},
	    {"{\"issuer\":\"https://i\",\"jwks_uri\":\"http://k\"}", NULL, "https://"},
	    {"{\"issuer\":\"https://i\"}", NULL, "no jwks_uri"},
	    {"[]", NULL, "not a discovery document"},
	    {"<html>", NULL, "not a discovery document"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct err err = {.text = ""};
		char *place = oauth_discovery_parse(
		    all[i].text, strlen(all[i].text), "https://i", &err);
		assert_non_null(strstr(err.text, all[i].why));
		if (all[i].place)
			assert_string_equal(place, all[i].place);
		else
			assert_null(place);
		mem_free(place);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(algorithms),
	    cmocka_unit_test(headers_that_are_refused),
	    cmocka_unit_test(claims_that_are_refused),
	    cmocka_unit_test(forged),
	    cmocka_unit_test(symmetric),
	    cmocka_unit_test(long_ones),
	    cmocka_unit_test(keys_that_are_left_out),
	    cmocka_unit_test(sets_that_are_none),
	    cmocka_unit_test(discovery),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}

#else

int main(void)
{
	return 0;
}

#endif
