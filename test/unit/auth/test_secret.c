/* Stored passwords: classification, comparison with clear passwords, md5 answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include "auth/digest.h"
#include "auth/secret.h"
#include "base/mem.h"

/* Made by PostgreSQL. */
#define PENCIL_SECRET                                   \
	"SCRAM-SHA-256$4096:Avj80WeXgz/yG/ywGUOELQ==$"  \
	"2DF5ilLrXwYvF060KQ3W67OEzntSsSZZGbKujceamH4=:" \
	"apCvuD0txxzlJDZo0qCPpuoiURb5tZ1r43XLodE+Y0U="
#define ALICE_SECRET "md54a0a68b43b6cd5cf266fa02f196e2371"

#define KEY_TEXT "2DF5ilLrXwYvF060KQ3W67OEzntSsSZZGbKujceamH4="

static enum secret_kind kind_of(const char *text)
{
	struct secret s;
	enum secret_kind kind;

	secret_init(&s, text);
	assert_string_equal(s.text, text);
	kind = s.kind;
	assert_int_equal(s.scram.salt != NULL, kind == SECRET_SCRAM);
	secret_done(&s);
	assert_null(s.text);
	assert_null(s.scram.salt);
	return kind;
}

static void test_kinds(void **state)
{
	(void)state;
	assert_int_equal(kind_of(""), SECRET_NONE);
	assert_int_equal(kind_of("x"), SECRET_PLAIN);
	assert_int_equal(kind_of(ALICE_SECRET), SECRET_MD5);
	assert_int_equal(kind_of(PENCIL_SECRET), SECRET_SCRAM);
	assert_int_equal(
	    kind_of("SCRAM-SHA-256$1:AA==$" KEY_TEXT ":" KEY_TEXT), SECRET_SCRAM);
	assert_int_equal(
	    kind_of("SCRAM-SHA-256$2147483647:AA==$" KEY_TEXT ":" KEY_TEXT),
	    SECRET_SCRAM);
}

static void test_plain_passwords(void **state)
{
	static const char *const texts[] = {
	    "md5 is weak",
	    "md5er",
	    "md5cafe-au-lait",
	    "MD54a0a68b43b6cd5cf266fa02f196e2371",
	    " md54a0a68b43b6cd5cf266fa02f196e2371",
	    "SCRAM",
	    "SCRAM-SHA-1$4096:AA==$" KEY_TEXT ":" KEY_TEXT,
	    "scram-sha-256$4096:AA==$" KEY_TEXT ":" KEY_TEXT,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_int_equal(kind_of(texts[i]), SECRET_PLAIN);
}

/* A damaged secret matches no password, not even its own text. */
static void expect_no_match(const char *text)
{
	static const uint8_t salt[4] = {1, 2, 3, 4};
	char answer[MD5_TEXT_LEN + 1];
	struct scram_due due;
	struct secret s;

	secret_init(&s, text);
	assert_int_equal(s.kind, SECRET_MALFORMED);
	assert_false(secret_is_password(&s, "alice", text));
	assert_false(secret_is_password(&s, "alice", ""));
	assert_int_equal(secret_prepare(&s, text, &due), 0);
	assert_int_equal(secret_md5_answer(&s, "alice", salt, answer), -1);
	assert_false(secret_is_md5_answer(NULL, &s, "alice", salt, ""));
	secret_done(&s);
}

static void test_malformed_secrets(void **state)
{
	static const char *const texts[] = {
	    "md5",
	    "md54a0a68b43b6cd5cf266fa02f196e237",
	    "md54a0a68b43b6cd5cf266fa02f196e23711",
	    "md54A0A68B43B6CD5CF266FA02F196E2371",
	    "md5xyzxyzxyzxyzxyzxyzxyzxyzxyzxyzxy",
	    "md54a0a68b43b6cd5cf266fa02f196e237g",
	    "md54a0a68b43b6cd5cf266fa02f196e2371 ",
	    "md54a0a68b43b6cd5cf266fa02f196e2371\n",
	    "SCRAM-SHA-256",
	    "SCRAM-SHA-256$",
	    "SCRAM-SHA-256$4096",
	    "SCRAM-SHA-256$4096:",
	    "SCRAM-SHA-256$4096:AA==",
	    "SCRAM-SHA-256$4096:AA==$",
	    "SCRAM-SHA-256$4096:AA==$" KEY_TEXT,
	    "SCRAM-SHA-256$4096:AA==$" KEY_TEXT ":",
	    "SCRAM-SHA-256$4096:AA==$:" KEY_TEXT,
	    "SCRAM-SHA-256$4096:$" KEY_TEXT ":" KEY_TEXT,
	    "SCRAM-SHA-256$:AA==$" KEY_TEXT ":" KEY_TEXT,
	    "SCRAM-SHA-256$0:AA==$" KEY_TEXT ":" KEY_TEXT,
	    "SCRAM-SHA-256$-1:AA==$" KEY_TEXT ":" KEY_TEXT,
	    "SCRAM-SHA-256$+1:AA==$" KEY_TEXT ":" KEY_TEXT,
	    "SCRAM-SHA-256$ 1:AA==$" KEY_TEXT ":" KEY_TEXT,
	    "SCRAM-SHA-256$1x:AA==$" KEY_TEXT ":" KEY_TEXT,
	    "SCRAM-SHA-256$0x10:AA==$" KEY_TEXT ":" KEY_TEXT,
	    "SCRAM-SHA-256$2147483648:AA==$" KEY_TEXT ":" KEY_TEXT,
	    "SCRAM-SHA-256$99999999999999999999999:AA==$" KEY_TEXT ":" KEY_TEXT,
	    "SCRAM-SHA-256$4096:A$" KEY_TEXT ":" KEY_TEXT,
	    "SCRAM-SHA-256$4096:AB==$" KEY_TEXT ":" KEY_TEXT,
	    "SCRAM-SHA-256$4096:A*==$" KEY_TEXT ":" KEY_TEXT,
	    "SCRAM-SHA-256$4096:AA==$AAAA:" KEY_TEXT,
	    "SCRAM-SHA-256$4096:AA==$" KEY_TEXT ":AAAA",
	    "SCRAM-SHA-256$4096:AA==$" KEY_TEXT ":" KEY_TEXT "AAAA",
	    "SCRAM-SHA-256$4096:AA==$" KEY_TEXT ":" KEY_TEXT ":",
	    "SCRAM-SHA-256$4096:AA==$" KEY_TEXT ":" KEY_TEXT " ",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		expect_no_match(texts[i]);
}

static void test_salt_size(void **state)
{
	static char text[3000];

	(void)state;
	for (size_t salt_digits = 1364; salt_digits <= 1372; salt_digits += 4) {
		char *at = text + sprintf(text, "SCRAM-SHA-256$4096:");
		memset(at, 'A', salt_digits);
		sprintf(at + salt_digits, "$" KEY_TEXT ":" KEY_TEXT);
		assert_int_equal(kind_of(text), salt_digits / 4 * 3 <= SCRAM_SALT_MAX
						    ? SECRET_SCRAM
						    : SECRET_MALFORMED);
	}
}

static void test_fields(void **state)
{
	struct secret s;

	(void)state;
	secret_init(&s, PENCIL_SECRET);
	assert_int_equal(s.scram.iterations, 4096);
	assert_int_equal(s.scram.salt_len, 16);
	assert_memory_equal(s.scram.salt, "\x02\xf8\xfc\xd1", 4);
	assert_memory_equal(s.scram.stored_key, "\xd8\x31\x79\x8a", 4);
	assert_memory_equal(s.scram.server_key, "\x6a\x90\xaf\xb8", 4);
	secret_done(&s);
}

static bool is_password(const char *text, const char *user, const char *password)
{
	struct secret s;
	bool is_match;

	secret_init(&s, text);
	is_match = secret_is_password(&s, user, password);
	secret_done(&s);
	return is_match;
}

static void test_password_in_clear(void **state)
{
	(void)state;
	assert_true(is_password("secret", "u", "secret"));
	assert_false(is_password("secret", "u", "secreT"));
	assert_false(is_password("secret", "u", "secret "));
	assert_false(is_password("secret", "u", "secre"));
	assert_true(is_password(ALICE_SECRET, "alice", "secret"));
	assert_false(is_password(ALICE_SECRET, "bob", "secret"));
	assert_false(is_password(ALICE_SECRET, "alice", "Secret"));
	assert_false(is_password(ALICE_SECRET, "alice", ALICE_SECRET));
	assert_true(is_password(
	    "md554245de19113da5a505e800375f235ed", "Bj\"o", "pa ss$w\xc3\xb6rd"));
	assert_true(is_password(PENCIL_SECRET, "anyone", "pencil"));
	assert_false(is_password(PENCIL_SECRET, "anyone", "Pencil"));
	assert_false(is_password(PENCIL_SECRET, "anyone", PENCIL_SECRET));
}

static void test_nothing_never_matches(void **state)
{
	static const char *const stored[] = {NULL, "", "secret", ALICE_SECRET,
	    PENCIL_SECRET,
	    /* the md5 of an empty password */
	    "md56384e2b2184bcbf58eccf10ca7a6563c"};
	char out[MD5_TEXT_LEN + 1];
	struct secret s;

	(void)state;
	for (size_t i = 0; i < sizeof(stored) / sizeof(*stored); i++) {
		secret_init(&s, stored[i]);
		assert_false(secret_is_password(&s, "alice", ""));
		assert_false(secret_is_md5_answer(
		    NULL, &s, "alice", (const uint8_t *)"salt", ""));
		secret_done(&s);
	}
	for (size_t i = 0; i < 2; i++) {
		secret_init(&s, stored[i]);
		assert_int_equal(s.kind, SECRET_NONE);
		assert_false(secret_is_password(&s, "alice", "md5"));
		assert_false(secret_is_password(&s, "alice", "NULL"));
		assert_int_equal(
		    secret_md5_answer(&s, "alice", (const uint8_t *)"salt", out), -1);
		secret_done(&s);
	}
}

/* The stored secret has the iteration count; a huge one must not cost minutes. */
static void test_too_many_iterations(void **state)
{
	(void)state;
	assert_false(is_password(
	    "SCRAM-SHA-256$2147483647:AA==$" KEY_TEXT ":" KEY_TEXT, "u", "pencil"));
}

/* Derives the key: the slow step, which the owner runs. */
static void test_in_two_parts(void **state)
{
	uint8_t salted[SCRAM_KEY_LEN];
	struct scram_due due;
	struct secret s;

	(void)state;
	secret_init(&s, PENCIL_SECRET);
	assert_int_equal(secret_prepare(&s, "pencil", &due), 1);
	assert_string_equal(due.password, "pencil");
	assert_int_equal(due.iterations, 4096);
	scram_derive(&due, salted);
	assert_true(secret_is_salted(&s, salted));
	assert_int_equal(secret_prepare(&s, "Pencil", &due), 1);
	scram_derive(&due, salted);
	assert_false(secret_is_salted(&s, salted));
	assert_int_equal(secret_prepare(&s, "", &due), 0);
	secret_done(&s);

	secret_init(&s, "pencil");
	assert_int_equal(secret_prepare(&s, "pencil", &due), 0);
	assert_false(secret_is_salted(&s, salted));
	secret_done(&s);
	secret_init(&s, "SCRAM-SHA-256$1000001:AA==$" KEY_TEXT ":" KEY_TEXT);
	assert_int_equal(secret_prepare(&s, "pencil", &due), 0);
	secret_done(&s);
}

static void test_equal(void **state)
{
	static const char *const texts[] = {
	    "", "a", "b", "aa", ALICE_SECRET, PENCIL_SECRET};
	size_t count = sizeof(texts) / sizeof(*texts);

	(void)state;
	for (size_t i = 0; i < count * count; i++) {
		struct secret a, b;
		secret_init(&a, texts[i / count]);
		secret_init(&b, texts[i % count]);
		assert_int_equal(secret_is_equal(&a, &b), i / count == i % count);
		secret_done(&a);
		secret_done(&b);
	}
}

static void test_md5_of_password(void **state)
{
	char out[MD5_TEXT_LEN + 1];

	(void)state;
	secret_md5_of_password("secret", "alice", out);
	assert_string_equal(out, ALICE_SECRET);
	/* RFC 1321, A.5 */
	secret_md5_of_password("", "", out);
	assert_string_equal(out, "md5d41d8cd98f00b204e9800998ecf8427e");
	secret_md5_of_password("message ", "digest", out);
	assert_string_equal(out, "md5f96b697d7cb7938d525a2f31aaf161d0");
}

static void test_md5_answer(void **state)
{
	/* md5(md5hex("secretalice") || salt) by PostgreSQL's md5() */
	static const uint8_t salt[4] = {'s', 'a', 'l', 't'};
	static const uint8_t zeros[4] = {0};
	char from_plain[MD5_TEXT_LEN + 1], from_md5[MD5_TEXT_LEN + 1];
	struct digest *kept = digest_new("MD5");
	struct secret plain, md5, scram;

	(void)state;
	secret_init(&plain, "secret");
	secret_init(&md5, ALICE_SECRET);
	secret_init(&scram, PENCIL_SECRET);
	assert_int_equal(secret_md5_answer(&plain, "alice", salt, from_plain), 0);
	assert_string_equal(from_plain, "md5986e2194384c07f4fd1df4b1351b3e68");
	assert_int_equal(secret_md5_answer(&md5, "ignored", salt, from_md5), 0);
	assert_string_equal(from_md5, from_plain);
	assert_int_equal(secret_md5_answer(&scram, "alice", salt, from_md5), -1);
	assert_string_equal(from_md5, "");
	assert_true(secret_is_md5_answer(NULL, &plain, "alice", salt, from_plain));
	assert_true(secret_is_md5_answer(NULL, &md5, "alice", salt, from_plain));
	assert_false(secret_is_md5_answer(NULL, &plain, "bob", salt, from_plain));
	for (int i = 0; i < 2; i++) {
		assert_true(
		    secret_is_md5_answer(kept, &plain, "alice", salt, from_plain));
		assert_true(
		    secret_is_md5_answer(kept, &md5, "alice", salt, from_plain));
		assert_false(
		    secret_is_md5_answer(kept, &plain, "bob", salt, from_plain));
	}
	digest_free(&kept);
	assert_false(secret_is_md5_answer(NULL, &plain, "alice", zeros, from_plain));
	assert_false(secret_is_md5_answer(NULL, &scram, "alice", salt, from_plain));
	assert_false(secret_is_md5_answer(NULL, &md5, "alice", salt, ALICE_SECRET));
	assert_false(secret_is_md5_answer(NULL, &md5, "alice", salt, from_plain + 3));
	for (size_t i = 0; i < MD5_TEXT_LEN; i++) {
		from_plain[i] ^= 1;
		assert_false(
		    secret_is_md5_answer(NULL, &md5, "alice", salt, from_plain));
		from_plain[i] ^= 1;
	}
	/* A salt is binary and may contain NUL bytes. */
	assert_int_equal(secret_md5_answer(&md5, "alice", zeros, from_md5), 0);
	assert_string_not_equal(from_md5, from_plain);
	secret_done(&plain);
	secret_done(&md5);
	secret_done(&scram);
}

/* MD5 does not work, as under FIPS: no MD5 proof is accepted. */
static void test_without_md5(void **state)
{
	static const uint8_t salt[4] = {1, 2, 3, 4};
	char out[MD5_TEXT_LEN + 1] = "x";
	struct secret plain, md5;

	(void)state;
	secret_init(&plain, "secret");
	secret_init(&md5, ALICE_SECRET);
	assert_int_equal(EVP_set_default_properties(NULL, "fips=yes"), 1);
	secret_md5_of_password("secret", "alice", out);
	assert_string_equal(out, "");
	assert_false(secret_is_password(&md5, "alice", "secret"));
	assert_int_equal(secret_md5_answer(&plain, "alice", salt, out), -1);
	assert_int_equal(secret_md5_answer(&md5, "alice", salt, out), -1);
	assert_false(secret_is_md5_answer(NULL, &md5, "alice", salt, ""));
	assert_true(secret_is_password(&plain, "alice", "secret"));
	assert_int_equal(EVP_set_default_properties(NULL, ""), 1);
	assert_true(secret_is_password(&md5, "alice", "secret"));
	secret_done(&plain);
	secret_done(&md5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_kinds),
	    cmocka_unit_test(test_plain_passwords),
	    cmocka_unit_test(test_malformed_secrets),
	    cmocka_unit_test(test_salt_size),
	    cmocka_unit_test(test_fields),
	    cmocka_unit_test(test_password_in_clear),
	    cmocka_unit_test(test_nothing_never_matches),
	    cmocka_unit_test(test_too_many_iterations),
	    cmocka_unit_test(test_in_two_parts),
	    cmocka_unit_test(test_equal),
	    cmocka_unit_test(test_md5_of_password),
	    cmocka_unit_test(test_md5_answer),
	    cmocka_unit_test(test_without_md5),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
