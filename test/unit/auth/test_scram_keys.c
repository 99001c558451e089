/* Key derivation against RFC 7677 and against secrets that PostgreSQL made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "auth/base64.h"
#include "auth/digest.h"
#include "auth/scram_keys.h"
#include "auth/secret.h"
#include "base/mem.h"

/* Made by PostgreSQL 15 with CREATE ROLE ... PASSWORD and encoding UTF8. */
static const struct {
	const char *password, *secret;
} made_by_postgres[] = {
    {"pencil", "SCRAM-SHA-256$4096:05bUjlY04GZnRklv4J+JFg==$"
	       "tbTs5irhxHnAGpewZMnPl9GnUfJ/KR8vXC7W5ZvpysM=:"
	       "p8REFqJcraoUBnv8liwnqe5Gwom7SCNM7nNl5zGuVzw="},
    {"I\302\255"
     "X",
	"SCRAM-SHA-256$4096:7MWiInjyxIpaTLRljF5QzQ==$"
	"slX5TifFbyzObAwxgle0UnAz+xp6zP7BAHCiuBXHbvM=:"
	"NcqTpHDiwNta+z57J6qkEejQ/UrNPw01aC/IY/9Ju+I="},
    {"\302\252", "SCRAM-SHA-256$4096:iZ2bOKcI4/21PZttJb0btw==$"
		 "iJpXg9fJLI/mhU7LcKQAMKXjNHcHJcNGZgNaieLeaQU=:"
		 "VIz6IHOISG/LTa44e+jfloMMoxI0sP+mOPS+GuHEtKQ="},
    {"\342\205\250", "SCRAM-SHA-256$4096:lPDeKUcHzl+/SzLqpedLRw==$"
		     "bg3cYg26c+04n0qTl3Q5olQTu3bpkpWP3MJIxeKBxb4=:"
		     "NtBeQ0+BbDRbXgKXO+xymsCQxNvJmP8TKMuAqR8m2Yo="},
    {"\303\251\001", "SCRAM-SHA-256$4096:ErwGiZgf063sS1MZSw4n6Q==$"
		     "pgL7mevW1lotvligmwgiFyvThyrLkTx5NtMaZ7pKqu0=:"
		     "3RxRxZNQZ65Cwl6LYA2kpNgxbXrhdUJHXhYGlPmpsLg="},
    {"a\315\200", "SCRAM-SHA-256$4096:1hFzoMWNk+sHqnEipv8lXQ==$"
		  "YN0vj69t9ieUhKnQteroDg9QDjANWnP7PJm425zOQOk=:"
		  "cwYQ2Dd4UKDv0wvWe4QBwQ5vsXbvyKNYTCeOWiPs7PI="},
    {"x\341\264\254"
     "b",
	"SCRAM-SHA-256$4096:1qB+Zjt/jQMoa2BkrnGYgw==$"
	"DmtOSKWMaITmo7f97ARxWR4Ye+WyJGLBbl/qAJ0+N7E=:"
	"IHBlnzvo6iEirc+MMvRfMTXlrvaHXDq/eWEIcpQmwt8="},
    {"a\342\200\213"
     "b",
	"SCRAM-SHA-256$4096:vDR5zhGvqJXSyJLpKWwLDQ==$"
	"8UXzJLVyhia0spK24zIMzsjyRftjnUq3ldoFmUh09Mg=:"
	"hhFdHIexT3T2YlmCKa3kwSioVuqd4Wk/dbAxOX7rCaQ="},
    {"\327\220"
     "1",
	"SCRAM-SHA-256$4096:fb8V/3a2FjH787FallhcbA==$"
	"tRjHMOpeoJYC6CIwA6Wt7Gad0SvgK22ncu4sG+KulZ4=:"
	"d5uuqetzGlr4ml8G4B+hkWLdTX69BMYziwpxCALehm0="},
    {"e\314\201"
     "t\303\251",
	"SCRAM-SHA-256$4096:p/rdN1eqdWdB3EX73ivNAA==$"
	"eTcASf0STi1RDTQ8pZ2wRePPV7+BcXS8HB0YgyLHYec=:"
	"EgIEs0hhtG5VxmayUs+9/YOtKBeEa1dO5DA9Tm3eqOo="},
    {"\352\260\200\341\206\250", "SCRAM-SHA-256$4096:FqiBAmln3714v2JzVnlqUQ==$"
				 "GnB6rYkaOGm6rtEoMBVnpuN5v93Dk/KF7R/qvOHGAyk=:"
				 "ET/+X/SULVucxmgXqfecyPIwU3uU30KkaHJ13KG/JDc="},
    {"\357\267\272", "SCRAM-SHA-256$4096:9C+Oi+NEr3EbXTZVwl64TQ==$"
		     "GSv42HJXR0MZEZUv2LBYzVthn9/VWixI7iuIyjhOrDs=:"
		     "vBr5kBEoUTKURqjoFhivi6TJshur7/NC3db8YXR7gxU="},
    {"\302\255", "SCRAM-SHA-256$4096:kbFpK8U6fkAkLyOv7xq4yw==$"
		 "3x0fcNdqQBPzul+buGFsJyRPdItBqjs8JZ7VA5KxVKA=:"
		 "seKw794pDNvCksj5D68qw/xFfhLYNOhDyDsI0yKYOF8="},
    {"pa\302\240"
     "ss",
	"SCRAM-SHA-256$4096:etlePQXeP3zBItnXR6Rrow==$"
	"P01WNp/M22uies5HU1SiKrwo0sOgb0PCoOkMP9SDfm0=:"
	"rXLQTNpryCW3xnHBlvQXB5CcWgXOoSH+Lb1NwZlryV0="},
    {"\360\235\220\200\360\257\241\250",
	"SCRAM-SHA-256$4096:2n4NPwwmttvQR1M6WJI0/g==$"
	"u+tt/KcdNyGpUKLchtjTctPfFZUW/PdwXkGD6jMiu9A=:"
	"tM8W3ghrZKDZloNzbzqdVkYQu++wuFsQGG07XVkMmXU="},
    {"\341\272\233\314\243", "SCRAM-SHA-256$4096:DQU2w5Ob61y8qkXFDyYFfg==$"
			     "lkk00sro7xybdJoRRAwY+/qaRBiw7KxRI2WUZVH8hpg=:"
			     "gGmXafKmLFE1+HSJxcxJuFQwksEnBRn1JZlw6xGneNI="},
};

static void test_postgres(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(made_by_postgres) / sizeof(*made_by_postgres);
	     i++) {
		struct secret s;
		uint8_t salted[SCRAM_KEY_LEN], server_key[SCRAM_KEY_LEN];
		const char *password = made_by_postgres[i].password;

		secret_init(&s, made_by_postgres[i].secret);
		assert_int_equal(s.kind, SECRET_SCRAM);
		assert_true(secret_is_password(&s, "user", password));
		scram_salted_password(password, s.scram.salt, s.scram.salt_len,
		    s.scram.iterations, salted);
		scram_server_key(salted, server_key);
		assert_memory_equal(server_key, s.scram.server_key, SCRAM_KEY_LEN);
		secret_done(&s);
	}
}

/* RFC 7677 section 3: the proof's key from password "pencil". */
static void test_rfc7677(void **state)
{
	static const char auth[] =
	    "n=user,r=rOprNGfwEbeRWgbNEkqO,"
	    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
	    "s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
	    "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
	uint8_t salt[16], salted[SCRAM_KEY_LEN], key[SCRAM_KEY_LEN],
	    signature[SCRAM_KEY_LEN];
	char text[BASE64_LEN(SCRAM_KEY_LEN) + 1];
	size_t salt_len;

	(void)state;
	assert_int_equal(
	    base64_decode("W22ZaJ0SNY7soEsUEjb6gQ==", 24, salt, 16, &salt_len), 0);
	scram_salted_password("pencil", salt, salt_len, 4096, salted);
	scram_server_key(salted, key);
	scram_sign(key, auth, strlen(auth), signature);
	base64_encode(signature, SCRAM_KEY_LEN, text);
	assert_string_equal(text, "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
}

/* RFC 4231 sections 4.2 and 4.3; the zero bytes behind a key mean nothing. */
static void test_signature(void **state)
{
	static const uint8_t key[SCRAM_KEY_LEN] = "\v\v\v\v\v\v\v\v\v\v"
						  "\v\v\v\v\v\v\v\v\v\v";
	static const uint8_t jefe[SCRAM_KEY_LEN] = "Jefe";
	uint8_t out[SCRAM_KEY_LEN];

	(void)state;
	scram_sign(key, "Hi There", 8, out);
	assert_memory_equal(out, "\xb0\x34\x4c\x61\xd8\xdb\x38\x53", 8);
	assert_memory_equal(out + 28, "\x2e\x32\xcf\xf7", 4);
	scram_sign(jefe, "what do ya want for nothing?", 28, out);
	assert_memory_equal(out, "\x5b\xdc\xc1\x46\xbf\x60\x75\x4e", 8);
	assert_memory_equal(out + 28, "\x64\xec\x38\x43", 4);
}

/* A digest that is kept gives the same keys each time as one for each use. */
static void test_kept_digest(void **state)
{
	struct digest *sha256 = digest_new("SHA256");
	uint8_t key[SCRAM_KEY_LEN], once[SCRAM_KEY_LEN], again[SCRAM_KEY_LEN];

	(void)state;
	assert_non_null(sha256);
	memset(key, 7, sizeof(key));
	for (size_t len = 0; len < 200; len += 33) {
		static const char text[200] = "n=user,r=nonce";
		scram_sign(key, text, len, once);
		scram_sign_with(sha256, key, text, len, again);
		assert_memory_equal(once, again, SCRAM_KEY_LEN);
		scram_stored_key(once, key);
		scram_stored_key_with(sha256, again, again);
		assert_memory_equal(key, again, SCRAM_KEY_LEN);
	}
	digest_free(&sha256);
	assert_null(sha256);
	assert_null(digest_new("no such digest"));
}

/* A password that is not UTF-8 is used as it is. */
static void test_raw_password(void **state)
{
	uint8_t a[SCRAM_KEY_LEN], b[SCRAM_KEY_LEN];

	(void)state;
	scram_salted_password("caf\xe9", (const uint8_t *)"salt", 4, 2, a);
	scram_salted_password("caf\xe8", (const uint8_t *)"salt", 4, 2, b);
	assert_memory_not_equal(a, b, SCRAM_KEY_LEN);
	/* PBKDF2-HMAC-SHA-256("caf\xe9", "salt", 2, 32) */
	assert_memory_equal(a, "\x17\x0f\x86\x78\x93\xb5\xcc\x5e", 8);
}

static void test_fresh_salt(void **state)
{
	struct scram_verifier a, b;

	(void)state;
	scram_verifier_from_password(&a, "pencil", 10);
	scram_verifier_from_password(&b, "pencil", 10);
	assert_int_equal(a.iterations, 10);
	assert_int_equal(a.salt_len, 16);
	assert_memory_not_equal(a.salt, b.salt, 16);
	assert_memory_not_equal(a.stored_key, b.stored_key, SCRAM_KEY_LEN);
	scram_verifier_done(&a);
	scram_verifier_done(&b);
	assert_null(a.salt);
	assert_int_equal(a.iterations, 0);
	scram_verifier_done(&a);
}

static void test_mock_salt(void **state)
{
	uint8_t secret[32], other[32];
	struct scram_verifier a, b, c, d;

	(void)state;
	memset(secret, 'S', sizeof(secret));
	memset(other, 'T', sizeof(other));
	scram_verifier_mock(&a, "nobody", secret, 4096);
	scram_verifier_mock(&b, "nobody", secret, 4096);
	scram_verifier_mock(&c, "noone", secret, 4096);
	scram_verifier_mock(&d, "nobody", other, 4096);
	assert_int_equal(a.iterations, 4096);
	assert_int_equal(a.salt_len, 16);
	/* SHA-256("nobody" "SSS...") */
	assert_memory_equal(a.salt,
	    "\x3e\xbd\x9d\x1a\x26\x2b\x01\x2c\x27\xd5\x17\x26\x73\x0c\x35\x89", 16);
	assert_memory_equal(a.salt, b.salt, 16);
	assert_memory_not_equal(a.salt, c.salt, 16);
	assert_memory_not_equal(a.salt, d.salt, 16);
	assert_memory_not_equal(a.stored_key, b.stored_key, SCRAM_KEY_LEN);
	scram_verifier_done(&a);
	scram_verifier_done(&b);
	scram_verifier_done(&c);
	scram_verifier_done(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_postgres),
	    cmocka_unit_test(test_rfc7677),
	    cmocka_unit_test(test_signature),
	    cmocka_unit_test(test_kept_digest),
	    cmocka_unit_test(test_raw_password),
	    cmocka_unit_test(test_fresh_salt),
	    cmocka_unit_test(test_mock_salt),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
