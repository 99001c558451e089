#include "auth/secret.h"

#include <stddef.h>
#include <string.h>

#include "auth/base64.h"
#include "auth/digest.h"
#include "base/mem.h"

#define SCRAM_NAME   "SCRAM-SHA-256"
#define SCRAM_PREFIX SCRAM_NAME "$"

/* "md5" with at least this many hexadecimal digits is no password that a person
 * chose. */
enum { HASH_DIGITS_MIN = 16 };

/* Whether this was meant to be a hash or a verifier but is damaged.  A password such as
 * "md5 is weak" is fine. */
static bool is_malformed(const char *text)
{
	size_t digits;

	if (strncmp(text, SCRAM_NAME, strlen(SCRAM_NAME)) == 0)
		return true;
	if (strncmp(text, "md5", 3) != 0)
		return false;
	digits = strspn(text + 3, "0123456789abcdefABCDEF");
	return text[3 + digits] == '\0' || digits >= HASH_DIGITS_MIN ||
	       strlen(text) == MD5_TEXT_LEN;
}

/* Reads decimal digits up to `stop`.  NULL: there are none, or PBKDF2 does not accept
 * the count. */
static const char *read_iterations(const char *at, char stop, uint32_t *out)
{
	uint64_t value = 0;

	for (; *at >= '0' && *at <= '9'; at++) {
		value = value * 10 + (uint64_t)(*at - '0');
		if (value > INT32_MAX)
			return NULL;
	}
	if (*at != stop || value == 0)
		return NULL;
	*out = (uint32_t)value;
	return at + 1;
}

static int read_key(const char *text, size_t len, uint8_t out[SCRAM_KEY_LEN])
{
	size_t key_len;

	if (base64_decode(text, len, out, SCRAM_KEY_LEN, &key_len) < 0)
		return -1;
	return key_len == SCRAM_KEY_LEN ? 0 : -1;
}

/* Parses ITER:SALT$STORED:SERVER.  -1: malformed, and v is unchanged. */
static int read_verifier(const char *at, struct scram_verifier *v)
{
	struct scram_verifier found = {0};
	uint8_t salt[SCRAM_SALT_MAX];
	const char *dollar, *colon;

	at = read_iterations(at, ':', &found.iterations);
	if (!at)
		return -1;
	dollar = strchr(at, '$');
	colon = dollar ? strchr(dollar, ':') : NULL;
	if (!colon)
		return -1;
	if (base64_decode(
		at, (size_t)(dollar - at), salt, sizeof(salt), &found.salt_len) < 0 ||
	    found.salt_len == 0)
		return -1;
	if (read_key(dollar + 1, (size_t)(colon - dollar - 1), found.stored_key) < 0 ||
	    read_key(colon + 1, strlen(colon + 1), found.server_key) < 0)
		return -1;
	*v = found;
	v->salt = mem_dup(salt, found.salt_len);
	return 0;
}

void secret_init(struct secret *s, const char *text)
{
	memset(s, 0, sizeof(*s));
	if (!text)
		text = "";
	s->text = mem_strdup(text);
	if (*text == '\0')
		s->kind = SECRET_NONE;
	else if (strlen(text) == MD5_TEXT_LEN && memcmp(text, "md5", 3) == 0 &&
		 strspn(text + 3, "0123456789abcdef") == MD5_TEXT_LEN - 3)
		s->kind = SECRET_MD5;
	else if (strncmp(text, SCRAM_PREFIX, strlen(SCRAM_PREFIX)) == 0 &&
		 read_verifier(text + strlen(SCRAM_PREFIX), &s->scram) == 0)
		s->kind = SECRET_SCRAM;
	else if (is_malformed(text))
		s->kind = SECRET_MALFORMED;
	else
		s->kind = SECRET_PLAIN;
}

void secret_done(struct secret *s)
{
	mem_free_secret(s->text);
	scram_verifier_done(&s->scram);
	memset(s, 0, sizeof(*s));
}

/* Compares in a time that depends on the lengths only, not on where the texts
 * differ. */
static bool is_same_text(const char *a, const char *b)
{
	size_t len = strlen(a);
	return len == strlen(b) && mem_equal_const_time(a, b, len);
}

bool secret_is_equal(const struct secret *a, const struct secret *b)
{
	return a->kind == b->kind && is_same_text(a->text, b->text);
}

int secret_prepare(const struct secret *s, const char *password, struct scram_due *due)
{
	if (s->kind != SECRET_SCRAM || *password == '\0' ||
	    s->scram.iterations > SCRAM_ITERATIONS_MAX)
		return 0;
	*due = (struct scram_due){
	    .password = password,
	    .salt = s->scram.salt,
	    .salt_len = s->scram.salt_len,
	    .iterations = s->scram.iterations,
	};
	return 1;
}

bool secret_is_salted(const struct secret *s, const uint8_t salted[SCRAM_KEY_LEN])
{
	uint8_t client_key[SCRAM_KEY_LEN], stored_key[SCRAM_KEY_LEN];
	bool is_match;

	if (s->kind != SECRET_SCRAM)
		return false;
	scram_client_key(salted, client_key);
	scram_stored_key(client_key, stored_key);
	is_match = mem_equal_const_time(stored_key, s->scram.stored_key, SCRAM_KEY_LEN);
	mem_wipe(client_key, sizeof(client_key));
	return is_match;
}

static bool is_scram_password(const struct secret *s, const char *password)
{
	struct scram_due due;
	uint8_t salted[SCRAM_KEY_LEN];
	bool is_match;

	if (!secret_prepare(s, password, &due) || scram_derive(&due, salted) < 0)
		return false;
	is_match = secret_is_salted(s, salted);
	mem_wipe(salted, sizeof(salted));
	return is_match;
}

/* "md5" and hex of MD5(a || b).  "" and -1 where libcrypto has no MD5, as with FIPS.
 * kept: NULL, or MD5 looked up already. */
static int md5_text(struct digest *kept, const void *a, size_t a_len, const void *b,
    size_t b_len, char out[MD5_TEXT_LEN + 1])
{
	static const char hex[] = "0123456789abcdef";
	struct digest *md5 = kept ? kept : digest_new("MD5");
	uint8_t digest[16];
	int result = md5 ? digest_of(md5, a, a_len, b, b_len, digest) : -1;

	*out = '\0';
	if (!kept)
		digest_free(&md5);
	if (result < 0)
		return -1;
	memcpy(out, "md5", 3);
	for (size_t i = 0; i < sizeof(digest); i++) {
		out[3 + 2 * i] = hex[digest[i] >> 4];
		out[4 + 2 * i] = hex[digest[i] & 15];
	}
	out[MD5_TEXT_LEN] = '\0';
	return 0;
}

void secret_md5_of_password(
    const char *password, const char *user, char out[MD5_TEXT_LEN + 1])
{
	(void)md5_text(NULL, password, strlen(password), user, strlen(user), out);
}

bool secret_is_password(const struct secret *s, const char *user, const char *password)
{
	char hash[MD5_TEXT_LEN + 1];

	if (*password == '\0')
		return false;
	switch (s->kind) {
	case SECRET_NONE:
	case SECRET_MALFORMED:
		break;
	case SECRET_PLAIN:
		return is_same_text(s->text, password);
	case SECRET_MD5:
		secret_md5_of_password(password, user, hash);
		return is_same_text(s->text, hash);
	case SECRET_SCRAM:
		return is_scram_password(s, password);
	}
	return false;
}

static int md5_answer(const struct secret *s, struct digest *md5, const char *user,
    const uint8_t salt[4], char out[MD5_TEXT_LEN + 1])
{
	char stored[MD5_TEXT_LEN + 1] = "";
	int result;

	*out = '\0';
	if (s->kind == SECRET_MD5)
		memcpy(stored, s->text, sizeof(stored));
	else if (s->kind == SECRET_PLAIN)
		(void)md5_text(
		    md5, s->text, strlen(s->text), user, strlen(user), stored);
	if (*stored == '\0')
		return -1;
	result = md5_text(md5, stored + 3, MD5_TEXT_LEN - 3, salt, 4, out);
	mem_wipe(stored, sizeof(stored));
	return result;
}

int secret_md5_answer(const struct secret *s, const char *user, const uint8_t salt[4],
    char out[MD5_TEXT_LEN + 1])
{
	return md5_answer(s, NULL, user, salt, out);
}

bool secret_is_md5_answer(struct digest *kept, const struct secret *s, const char *user,
    const uint8_t salt[4], const char *answer)
{
	char expected[MD5_TEXT_LEN + 1];

	return md5_answer(s, kept, user, salt, expected) == 0 &&
	       is_same_text(expected, answer);
}

/* ---- numbers of rounds ---- */

/* The place of this number of rounds, or a free one; ROUNDS_KINDS: there is none. */
static size_t find_kind(const struct rounds *r, uint32_t rounds)
{
	size_t place = ROUNDS_KINDS;

	for (size_t i = 0; i < ROUNDS_KINDS; i++) {
		if (r->kinds[i].count && r->kinds[i].rounds == rounds)
			return i;
		if (!r->kinds[i].count)
			place = i;
	}
	return place;
}

void rounds_count(struct rounds *r, uint32_t rounds, int change)
{
	size_t i = find_kind(r, rounds);

	if (i == ROUNDS_KINDS)
		return;
	r->kinds[i].rounds = rounds;
	if (change < 0 && r->kinds[i].count)
		r->kinds[i].count--;
	else if (change > 0 && r->kinds[i].count < UINT32_MAX)
		r->kinds[i].count++;
}

uint32_t rounds_usual(const struct rounds *r, uint32_t *count)
{
	uint32_t rounds = 0;

	*count = 0;
	for (size_t i = 0; i < ROUNDS_KINDS; i++)
		if (r->kinds[i].count > *count) {
			*count = r->kinds[i].count;
			rounds = r->kinds[i].rounds;
		}
	return rounds;
}

/* The place of the smallest number of rounds above this one; ROUNDS_KINDS: none. */
static size_t next_above(const struct rounds *r, uint32_t rounds)
{
	size_t place = ROUNDS_KINDS;

	for (size_t i = 0; i < ROUNDS_KINDS; i++)
		if (r->kinds[i].count && r->kinds[i].rounds > rounds &&
		    (place == ROUNDS_KINDS ||
			r->kinds[i].rounds < r->kinds[place].rounds))
			place = i;
	return place;
}

uint32_t rounds_like(const struct rounds *r, uint32_t others_count,
    uint32_t others_rounds, uint32_t pick)
{
	uint64_t sum = others_count, at;
	uint32_t rounds = others_rounds;
	size_t i;

	for (i = 0; i < ROUNDS_KINDS; i++)
		sum += r->kinds[i].count;
	at = pick * sum >> 32;
	if (at < others_count || sum == 0)
		return others_rounds;
	at -= others_count;
	for (i = next_above(r, 0); i < ROUNDS_KINDS; i = next_above(r, rounds)) {
		rounds = r->kinds[i].rounds;
		if (at < r->kinds[i].count)
			break;
		at -= r->kinds[i].count;
	}
	return rounds;
}
