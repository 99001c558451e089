/*
 * Messages of OAUTHBEARER, and the addresses of issuers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "auth/oauth_message.h"

/* A message with its length, which a NUL may stand in. */
#define READ(text) read_message(text, sizeof(text) - 1)

static struct buf found;

static enum oauth_message read_message(const char *text, size_t len)
{
	/* of its own size, so that a sanitizer sees a read behind it */
	uint8_t *copy = malloc(len ? len : 1);
	const char *token = NULL;
	size_t token_len = 0;
	enum oauth_message kind;
	struct err err = {.text = ""};

	memcpy(copy, text, len);
	kind = oauth_message_read(copy, len, &token, &token_len, &err);
	buf_done(&found);
	buf_init(&found, 0);
	if (kind == OAUTH_MESSAGE_TOKEN)
		buf_put(&found, token, token_len);
	else if (kind != OAUTH_MESSAGE_QUESTION)
		assert_true(err.text[0] && !strstr(err.text, "tok"
							     "/1"));
	free(copy);
	return kind;
}

static void tokens(void **state)
{
	static const char *const right[] = {"n,,\x01"
					    "auth=Bearer tok/1==\x01\x01",
	    "y,,\x01"
	    "auth=bearer   tok/1==\x01\x01",
	    "n,,\x01"
	    "host=h\x01"
	    "auth=BEARER tok/1==\x01"
	    "port=5\x01\x01"};

	(void)state;
	for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++) {
		assert_int_equal(
		    read_message(right[i], strlen(right[i])), OAUTH_MESSAGE_TOKEN);
		assert_string_equal(buf_text(&found), "tok/1==");
	}
	assert_int_equal(READ("n,,\x01"
			      "auth=\x01\x01"),
	    OAUTH_MESSAGE_QUESTION);
	buf_done(&found);
}

static void no_tokens(void **state)
{
	static const char *const values[] = {"Bearer", "Bearer ", "Bearer =", "Basic x",
	    "Bearer tok/1 x", "Bearer tok/1=x", "Bearer tok/1\t", "Bearer tok/1\""};

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		char text[100];
		int len = snprintf(text, sizeof(text),
		    "n,,\x01"
		    "auth=%s\x01\x01",
		    values[i]);
		assert_int_equal(
		    read_message(text, (size_t)len), OAUTH_MESSAGE_NO_TOKEN);
	}
	buf_done(&found);
}

static void malformed(void **state)
{
	static const char whole[] = "n,,\x01"
				    "auth=Bearer tok/1\x01\x01";

	(void)state;
	for (size_t len = 0; len < sizeof(whole) - 1; len++)
		assert_int_equal(read_message(whole, len), OAUTH_MESSAGE_MALFORMED);
	/* with the NUL behind it */
	assert_int_equal(read_message(whole, sizeof(whole)), OAUTH_MESSAGE_MALFORMED);
#define IS_MALFORMED(text) assert_int_equal(READ(text), OAUTH_MESSAGE_MALFORMED)
	IS_MALFORMED("n,a=x,\x01"
		     "auth=Bearer tok/1\x01\x01");
	IS_MALFORMED("p=tls-exporter,,\x01"
		     "auth=Bearer tok/1\x01\x01");
	IS_MALFORMED("x,,\x01"
		     "auth=Bearer tok/1\x01\x01");
	IS_MALFORMED("n,,auth=Bearer tok/1\x01\x01");
	IS_MALFORMED("n,,\x01\x01");
	IS_MALFORMED("n,,\x01"
		     "host=h\x01\x01");
	IS_MALFORMED("n,,\x01"
		     "auth=Bearer tok/1\x01"
		     "auth=Bearer tok/1\x01\x01");
	IS_MALFORMED("n,,\x01"
		     "=x\x01\x01");
	IS_MALFORMED("n,,\x01"
		     "a-b=x\x01"
		     "auth=Bearer tok/1\x01\x01");
	IS_MALFORMED("n,,\x01"
		     "auth\x01\x01");
	IS_MALFORMED("n,,\x01"
		     "auth=Bearer tok/1\x7f\x01\x01");
	buf_done(&found);
}

static void what_we_write(void **state)
{
	struct buf b;

	(void)state;
	buf_init(&b, 0);
	oauth_message_put_status(&b, "https://i/\"x", "a b");
	assert_string_equal(buf_text(&b),
	    "{ \"status\": \"invalid_token\", \"openid-configuration\": "
	    "\"https://i/\\\"x/.well-known/openid-configuration\", \"scope\": \"a b\" "
	    "}");
	buf_clear(&b);
	oauth_message_put_status(&b, "https://i/.well-known/oauth-x/y", "a");
	assert_non_null(strstr(buf_text(&b), "\"https://i/.well-known/oauth-x/y\""));
	buf_clear(&b);
	assert_int_equal(oauth_message_put_token(&b, "tok/1=="), 0);
	assert_int_equal(
	    read_message((const char *)b.bytes, b.len), OAUTH_MESSAGE_TOKEN);
	assert_string_equal(buf_text(&found), "tok/1==");
	assert_int_equal(oauth_message_put_token(&b, "a b"), -1);
	assert_int_equal(oauth_message_put_token(&b, ""), -1);
	buf_clear(&b);
	oauth_message_put_end(&b);
	assert_true(oauth_message_is_end(b.bytes, b.len));
	assert_false(oauth_message_is_end(b.bytes, 0));
	assert_false(oauth_message_is_end((const uint8_t *)"n", 1));
	buf_done(&b);
	buf_done(&found);
}

static void issuers(void **state)
{
	static const struct {
		const char *issuer, *name, *document;
	} all[] = {
	    {"https://i", "https://i", "https://i/.well-known/openid-configuration"},
	    {"https://i/", "https://i/", "https://i/.well-known/openid-configuration"},
	    {"https://i/a/b", "https://i/a/b",
		"https://i/a/b/.well-known/openid-configuration"},
	    {"https://i/a/.well-known/openid-configuration", "https://i/a",
		"https://i/a/.well-known/openid-configuration"},
	    {"https://i/.well-known/oauth-authorization-server/a/b", "https://i/a/b",
		"https://i/.well-known/oauth-authorization-server/a/b"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct buf b;
		buf_init(&b, 0);
		oauth_issuer_put_name(&b, all[i].issuer);
		assert_string_equal(buf_text(&b), all[i].name);
		buf_clear(&b);
		oauth_issuer_put_document(&b, all[i].issuer);
		assert_string_equal(buf_text(&b), all[i].document);
		buf_done(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tokens),
	    cmocka_unit_test(no_tokens),
	    cmocka_unit_test(malformed),
	    cmocka_unit_test(what_we_write),
	    cmocka_unit_test(issuers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
