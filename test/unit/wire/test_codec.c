/* Every message: built byte for byte, and refused when it is malformed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "wire/codec.h"
#include "wire/message.h"

static struct buf out;

static int start(void **state)
{
	(void)state;
	buf_init(&out, 0);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	buf_done(&out);
	return 0;
}

/* What was built so far equals this literal; the buffer is cleared. */
#define BUILT(literal)                                            \
	do {                                                      \
		assert_false(out.failed);                         \
		assert_int_equal(out.len, sizeof(literal) - 1);   \
		assert_memory_equal(out.bytes, literal, out.len); \
		buf_clear(&out);                                  \
	} while (0)

#define BODY(literal) (const uint8_t *)(literal), sizeof(literal) - 1

static void builds_startup(void **state)
{
	(void)state;
	size_t at = codec_begin_startup(&out, PROTOCOL_3_0);
	codec_put_param(&out, "user", "u");
	codec_end_startup(&out, at);
	BUILT("\0\0\0\x10\0\3\0\0user\0u\0\0");
	codec_put_ssl_request(&out);
	BUILT("\0\0\0\x08\x04\xd2\x16\x2f");
	codec_put_cancel_request(&out, (const uint8_t *)"12345678", 8);
	BUILT("\0\0\0\x10\x04\xd2\x16\x2e"
	      "12345678");
}

static void builds_front_messages(void **state)
{
	const char *const values[] = {"ab", NULL};

	(void)state;
	codec_put_query(&out, "x");
	BUILT("Q\0\0\0\x06x\0");
	codec_put_password(&out, "");
	BUILT("p\0\0\0\x05\0");
	codec_put_sasl_initial(&out, "M", (const uint8_t *)"ab", 2);
	BUILT("p\0\0\0\x0cM\0\0\0\0\2ab");
	codec_put_sasl_initial(&out, "M", NULL, 0);
	BUILT("p\0\0\0\x0aM\0\xff\xff\xff\xff");
	codec_put_sasl_response(&out, (const uint8_t *)"abc", 3);
	BUILT("p\0\0\0\x07"
	      "abc");
	codec_put_terminate(&out);
	BUILT("X\0\0\0\4");
	codec_put_parse(&out, "n", "sql");
	BUILT("P\0\0\0\x0cn\0sql\0\0\0");
	codec_put_bind_text(&out, values, 2);
	BUILT("B\0\0\0\x16\0\0\0\0\0\2\0\0\0\2ab\xff\xff\xff\xff\0\0");
	codec_put_describe_portal(&out);
	BUILT("D\0\0\0\6P\0");
	codec_put_execute(&out);
	BUILT("E\0\0\0\x09\0\0\0\0\0");
	codec_put_sync(&out);
	BUILT("S\0\0\0\4");
}

static void builds_back_messages(void **state)
{
	const char *const mechanisms[] = {"A", "B", NULL};
	const char *const options[] = {"_pq_.x"};
	const struct codec_column columns[] = {{"a", 25, -1}};

	(void)state;
	codec_put_auth(&out, AUTH_REQ_MD5, "salt", 4);
	BUILT("R\0\0\0\x0c\0\0\0\5salt");
	codec_put_auth(&out, AUTH_REQ_OK, NULL, 0);
	BUILT("R\0\0\0\x08\0\0\0\0");
	codec_put_auth_sasl(&out, mechanisms);
	BUILT("R\0\0\0\x0d\0\0\0\x0a"
	      "A\0B\0\0");
	codec_put_parameter_status(&out, "n", "v");
	BUILT("S\0\0\0\x08n\0v\0");
	codec_put_backend_key(&out, (const uint8_t *)"12345678", 8);
	BUILT("K\0\0\0\x0c"
	      "12345678");
	codec_put_ready(&out, 'T');
	BUILT("Z\0\0\0\5T");
	codec_put_error(&out, "FATAL", "08P01", "m", NULL, NULL);
	BUILT("E\0\0\0\x16SFATAL\0C08P01\0Mm\0\0");
	codec_put_error(&out, "ERROR", "08P01", "m", "d", "h");
	BUILT("E\0\0\0\x1cSERROR\0C08P01\0Mm\0Dd\0Hh\0\0");
	codec_put_notice(&out, "m", NULL);
	BUILT("N\0\0\0\x17SNOTICE\0C00000\0Mm\0\0");
	codec_put_negotiate(&out, PROTOCOL_3_0, options, 1);
	BUILT("v\0\0\0\x13\0\3\0\0\0\0\0\1_pq_.x\0");
	codec_put_command_complete(&out, "SHOW");
	BUILT("C\0\0\0\x09SHOW\0");
	codec_put_empty(&out, 'I');
	BUILT("I\0\0\0\4");
	codec_put_row_description(&out, columns, 1);
	BUILT("T\0\0\0\x1a\0\1a\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0");
	size_t at = codec_begin_row(&out, 2);
	codec_put_field(&out, "xy");
	codec_put_field(&out, NULL);
	codec_end_row(&out, at);
	BUILT("D\0\0\0\x10\0\2\0\0\0\2xy\xff\xff\xff\xff");
}

static void negotiation_is_read(void **state)
{
	static const char good[] = "\0\3\0\2\0\0\0\2_pq_.x\0y";
	uint32_t newest;

	(void)state;
	assert_int_equal(
	    codec_read_negotiate((const uint8_t *)good, sizeof(good), &newest), 0);
	assert_int_equal(newest, PROTOCOL_3_2);
	for (size_t len = 0; len < sizeof(good); len++)
		assert_int_equal(
		    codec_read_negotiate((const uint8_t *)good, len, &newest), -1);
	assert_int_equal(
	    codec_read_negotiate((const uint8_t *)"\0\3\0\0\0\0\0\0\0", 9, &newest),
	    -1);
	assert_int_equal(codec_read_negotiate(
			     (const uint8_t *)"\0\3\0\0\xff\xff\xff\xff", 8, &newest),
	    -1);
}

static void full_buffer_fails_without_harm(void **state)
{
	struct buf small;

	(void)state;
	buf_init(&small, 8);
	codec_put_query(&small, "select");
	assert_true(small.failed);
	codec_put_ready(&small, 'I');
	assert_true(small.failed);
	assert_true(small.len <= 8);
	buf_done(&small);
	codec_put_bind_text(&out, NULL, 65536);
	assert_true(out.failed);
	small = (struct buf){.len = (size_t)INT32_MAX + 1};
	codec_end(&small, 0);
	assert_true(small.failed);
}

static int walk_params(const void *body, size_t len, unsigned *count)
{
	struct startup_param p;
	struct cursor c;
	int r;

	*count = 0;
	cursor_init(&c, body, len);
	while ((r = codec_next_param(&c, &p)) == 1)
		++*count;
	return r;
}

static void reads_startup_params(void **state)
{
	unsigned n;

	(void)state;
	assert_int_equal(walk_params(BODY("a\0b\0c\0\0\0"), &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(walk_params(BODY("\0"), &n), 0);
	assert_int_equal(walk_params(BODY(""), &n), -1);
	assert_int_equal(walk_params(BODY("a\0b\0"), &n), -1);
	assert_int_equal(walk_params(BODY("a\0b\0c\0"), &n), -1);
	assert_int_equal(walk_params(BODY("a\0b"), &n), -1);
	assert_int_equal(walk_params(BODY("a\0b\0\0x"), &n), -1);
}

static void reads_front_messages(void **state)
{
	const char *text;
	const uint8_t *data;
	size_t len;

	(void)state;
	assert_int_equal(codec_read_password(BODY("pw\0"), &text), 0);
	assert_string_equal(text, "pw");
	assert_int_equal(codec_read_password(BODY("pw"), &text), -1);
	assert_int_equal(codec_read_password(BODY("pw\0x"), &text), -1);
	assert_int_equal(codec_read_password(BODY(""), &text), -1);
	assert_int_equal(codec_read_query(BODY("\0"), &text), 0);
	assert_int_equal(codec_read_query(BODY("a\0b\0"), &text), -1);
	assert_int_equal(
	    codec_read_sasl_initial(BODY("M\0\0\0\0\2ab"), &text, &data, &len), 0);
	assert_string_equal(text, "M");
	assert_int_equal(len, 2);
	assert_memory_equal(data, "ab", 2);
	assert_int_equal(
	    codec_read_sasl_initial(BODY("M\0\xff\xff\xff\xff"), &text, &data, &len),
	    0);
	assert_null(data);
	static const struct {
		const char *body;
		size_t len;
	} bad[] = {
	    {"M\0\0\0\0\3ab", 8},
	    {"M\0\0\0\0\1ab", 8},
	    {"M\0\x7f\xff\xff\xff"
	     "ab",
		8},
	    {"M\0\xff\xff\xff\xff"
	     "a",
		7},
	    {"Mabcdefg", 8},
	    {"M\0\0\0", 4},
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(codec_read_sasl_initial((const uint8_t *)bad[i].body,
				     bad[i].len, &text, &data, &len),
		    -1);
}

static void reads_errors(void **state)
{
	struct error_fields f;

	(void)state;
	assert_int_equal(
	    codec_read_error(BODY("SFEHLER\0VERROR\0C42601\0Mm\0Dd\0Hh\0?x\0\0"), &f),
	    0);
	assert_string_equal(f.severity, "ERROR");
	assert_string_equal(f.sqlstate, "42601");
	assert_string_equal(f.message, "m");
	assert_string_equal(f.detail, "d");
	assert_string_equal(f.hint, "h");
	assert_int_equal(codec_read_error(BODY("\0"), &f), 0);
	assert_string_equal(f.severity, "");
	assert_string_equal(f.sqlstate, "XX000");
	assert_string_equal(f.message, "");
	assert_int_equal(codec_read_error(BODY("Ma\0Mb\0SS\0\0"), &f), 0);
	assert_string_equal(f.message, "a");
	assert_string_equal(f.severity, "S");
	assert_int_equal(codec_read_error(BODY("C\0\0"), &f), 0);
	assert_string_equal(f.sqlstate, "XX000");
	assert_int_equal(codec_read_error(BODY("C123456\0\0"), &f), 0);
	assert_string_equal(f.sqlstate, "XX000");
	assert_int_equal(codec_read_error(BODY("Ma\0Db"), &f), -1);
	assert_string_equal(f.message, "a");
	assert_string_equal(f.detail, "");
	assert_int_equal(codec_read_error(BODY(""), &f), -1);
	assert_string_equal(f.sqlstate, "XX000");
	assert_int_equal(codec_read_error(BODY("Ma\0\0x"), &f), -1);
}

static void reads_back_messages(void **state)
{
	const char *name, *value;
	const uint8_t *data;
	uint32_t request;
	uint8_t status, key[300] = {0};
	size_t len;

	(void)state;
	assert_int_equal(codec_read_parameter_status(BODY("n\0v\0"), &name, &value), 0);
	assert_string_equal(value, "v");
	assert_int_equal(codec_read_parameter_status(BODY("n\0v"), &name, &value), -1);
	assert_int_equal(
	    codec_read_parameter_status(BODY("n\0v\0\0"), &name, &value), -1);
	assert_int_equal(
	    codec_read_auth(BODY("\0\0\0\5salt"), &request, &data, &len), 0);
	assert_int_equal(request, AUTH_REQ_MD5);
	assert_int_equal(len, 4);
	assert_int_equal(codec_read_auth(BODY("\0\0\0"), &request, &data, &len), -1);
	assert_true(codec_sasl_offers_mechanism(BODY("A\0BC\0\0"), "BC"));
	assert_false(codec_sasl_offers_mechanism(BODY("A\0BC\0\0"), "B"));
	assert_false(codec_sasl_offers_mechanism(BODY("A\0BC"), "BC"));
	assert_false(codec_sasl_offers_mechanism(BODY("A\0\0BC\0"), "BC"));
	assert_int_equal(codec_read_backend_key(key, 7, &data, &len), -1);
	assert_int_equal(codec_read_backend_key(key, 8, &data, &len), 0);
	assert_int_equal(codec_read_backend_key(key, 260, &data, &len), 0);
	assert_int_equal(codec_read_backend_key(key, 261, &data, &len), -1);
	assert_int_equal(codec_read_ready(BODY("T"), &status), 0);
	assert_int_equal(status, 'T');
	assert_int_equal(codec_read_ready(BODY("X"), &status), -1);
	assert_int_equal(codec_read_ready(BODY(""), &status), -1);
	assert_int_equal(codec_read_ready(BODY("II"), &status), -1);
}

static void reads_rows(void **state)
{
	const uint8_t *value;
	struct cursor c;
	size_t count, len;

	(void)state;
	cursor_init(&c, BODY("\0\3\0\0\0\2xy\xff\xff\xff\xff\0\0\0\0"));
	assert_int_equal(codec_read_row_count(&c, &count), 0);
	assert_int_equal(count, 3);
	assert_int_equal(codec_next_field(&c, &value, &len), 0);
	assert_int_equal(len, 2);
	assert_memory_equal(value, "xy", 2);
	assert_int_equal(codec_next_field(&c, &value, &len), 0);
	assert_null(value);
	assert_int_equal(codec_next_field(&c, &value, &len), 0);
	assert_non_null(value);
	assert_int_equal(len, 0);
	assert_int_equal(codec_next_field(&c, &value, &len), -1);
	cursor_init(&c, BODY("\xff\xff\xff\xfe"
			     "abc"));
	assert_int_equal(codec_next_field(&c, &value, &len), -1);
	cursor_init(&c, BODY("\0"));
	assert_int_equal(codec_read_row_count(&c, &count), -1);

	assert_int_equal(codec_read_row_description(BODY("\0\1a\0"
							 "123456789012345678"),
			     &count),
	    0);
	assert_int_equal(count, 1);
	assert_int_equal(codec_read_row_description(BODY("\0\2a\0"
							 "123456789012345678"),
			     &count),
	    -1);
	assert_int_equal(codec_read_row_description(BODY("\0\0x"), &count), -1);
}

static void knows_boolean_words(void **state)
{
	static const char *const yes[] = {
	    "t", "TRUE", "tr", "y", "Yes", "on", "ON", "1"};
	static const char *const no[] = {"f", "False", "n", "NO", "of", "off", "0"};
	static const char *const neither[] = {
	    "", "o", "truee", "2", "10", "database", "offf", " on"};

	(void)state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		assert_int_equal(codec_bool_word(yes[i]), 1);
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_int_equal(codec_bool_word(no[i]), 0);
	for (size_t i = 0; i < sizeof(neither) / sizeof(neither[0]); i++)
		assert_int_equal(codec_bool_word(neither[i]), -1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    CASE(builds_startup),
	    CASE(builds_front_messages),
	    CASE(builds_back_messages),
	    CASE(negotiation_is_read),
	    CASE(full_buffer_fails_without_harm),
	    CASE(reads_startup_params),
	    CASE(reads_front_messages),
	    CASE(reads_errors),
	    CASE(reads_back_messages),
	    CASE(reads_rows),
	    CASE(knows_boolean_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
