/* links: base conf */
/*
 * Settings with random values: what SHOW CONFIG prints, written into a file and loaded,
 * gives the same settings.  And connection strings: quoted, then parsed, gives the same
 * values.
 */
#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "conf/config.h"
#include "conf/entry.h"
#include "conf/setting_row.h"

enum { ROUNDS = 150 };

static uint64_t next_random(uint64_t *seed)
{
	uint64_t x = *seed += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static uint64_t below(uint64_t *seed, uint64_t n)
{
	return next_random(seed) % n;
}

static long long between(uint64_t *seed, long long min, long long max)
{
	/* values at the ends of the range are frequent */
	switch (below(seed, 4)) {
	case 0:
		return min;
	case 1:
		return max;
	default:
		return min + (long long)below(seed, (uint64_t)(max - min) + 1);
	}
}

/* Any bytes but NUL and newline, without white space at either end. */
static const char *random_text(uint64_t *seed, struct buf *b)
{
	size_t len = below(seed, 40);

	buf_clear(b);
	for (size_t i = 0; i < len; i++) {
		uint8_t c = (uint8_t)(1 + below(seed, 255));
		int is_edge = i == 0 || i + 1 == len;

		if (c == '\n' || (is_edge && (c == ' ' || (c >= '\t' && c <= '\r'))))
			c = '\'';
		buf_put_u8(b, c);
	}
	return buf_text(b);
}

/* A time that %g prints exactly and without exponent. */
static void put_time(uint64_t *seed, struct buf *b)
{
	unsigned digits = (unsigned)below(seed, 1000000);
	unsigned shift = (unsigned)below(seed, 5);
	unsigned scale = 1;

	for (unsigned i = 0; i < shift; i++)
		scale *= 10;
	buf_printf(b, "%u.%0*u", digits / scale, shift ? (int)shift : 1,
	    shift ? digits % scale : 0);
}

static const char *random_value(
    const struct setting *row, uint64_t *seed, struct buf *b)
{
	buf_clear(b);
	switch (row->type) {
	case SETTING_STR:
		/* the only texts that are read as soon as they are set */
		if (row == setting_find("server_password_command") ||
		    row == setting_find("oauth_validator_command"))
			return below(seed, 2) ? "" : "/bin/echo 'a  b' \"c\"";
		if (row == setting_find("log_levels"))
			return below(seed, 2) ? "" : "dns:debug, slow:warning";
		return random_text(seed, b);
	case SETTING_INT:
	case SETTING_UINT:
		buf_printf(b, "%lld", between(seed, row->min, row->max));
		break;
	case SETTING_BOOL:
		buf_printf(b, "%d", (int)below(seed, 3) - 1);
		break;
	case SETTING_TIME:
		put_time(seed, b);
		break;
	case SETTING_SIZE:
		buf_printf(
		    b, "%u%s", (unsigned)below(seed, 5000), below(seed, 2) ? "" : "MB");
		break;
	case SETTING_ENUM:
		buf_put_text(b, row->words[below(seed, (uint64_t)row->max + 1)]);
		break;
	}
	return buf_text(b);
}

static void randomize(struct settings *s, struct arena *arena, uint64_t *seed)
{
	const struct setting *row;
	struct err err = {.text = ""};
	struct buf b;

	buf_init(&b, 0);
	for (size_t i = 0; (row = setting_at(i)); i++)
		if (below(seed, 3) && setting_parse(row, s, random_value(row, seed, &b),
					  arena, &err) < 0) {
			printf(
			    "%s refuses %s: %s\n", row->name, buf_text(&b), err.text);
			exit(1);
		}
	buf_done(&b);
	/* combinations with TLS may be refused, which is not tested here */
	s->client_tls_sslmode = TLS_DISABLE;
	s->auth_type = s->auth_type == AUTH_CERT ? AUTH_ANY : s->auth_type;
	s->metrics_tls = 0;
	/* not every text is a list of networks or addresses */
	s->proxy_protocol_from = below(seed, 2) ? "" : "10.0.0.0/8, ::1, unix";
	/* a password comes from one of the two */
	if (*s->global.server_password_command)
		s->global.server_password_file = "";
	s->metrics_listen = below(seed, 2) ? "" : "[::1]:9127, unix:/run/metrics";
}

static void write_settings(const struct settings *s, const char *path)
{
	const struct setting *row;
	char out[64];
	FILE *file = fopen(path, "w");

	assert(file);
	fputs("[pgbouncer]\n", file);
	for (size_t i = 0; (row = setting_at(i)); i++) {
		const char *text = setting_print(row, s, out, sizeof(out));

		if (text)
			fprintf(file, "%s = %s\n", row->name, text);
	}
	fclose(file);
}

static int settings_survive(const char *path, uint64_t *seed)
{
	struct arena *arena = arena_new();
	const struct setting *row;
	struct settings s;
	struct config *c;
	struct err err = {.text = ""};
	char a[64], b[64];
	int bad = 0;

	settings_defaults(&s);
	/* otherwise the loader fills in the name of the file */
	setting_parse(setting_find("conffile"), &s, "x", arena, NULL);
	randomize(&s, arena, seed);
	write_settings(&s, path);
	c = config_load(path, NULL, NULL, NULL, NULL, &err);
	if (!c) {
		printf("not loaded: %s\n", err.text);
		bad = 1;
	}
	for (size_t i = 0; c && (row = setting_at(i)); i++)
		if (!setting_is_equal(row, &s, &c->settings)) {
			const char *was = setting_print(row, &s, a, sizeof(a));
			const char *is = setting_print(row, &c->settings, b, sizeof(b));

			printf("%s: \"%s\" became \"%s\"\n", row->name, was ? was : "",
			    is ? is : "");
			bad = 1;
		}
	config_unref(&c);
	arena_free(&arena);
	return bad;
}

static void put_quoted(struct buf *b, const char *key, const char *value)
{
	buf_printf(b, "%s='", key);
	for (; *value; value++) {
		if (*value == '\'')
			buf_put_u8(b, '\'');
		buf_put_u8(b, (uint8_t)*value);
	}
	buf_put_text(b, "' ");
}

/* Host lists have a grammar of their own, and sslkey needs sslcert. */
static bool is_any_text(const struct entry_key *key)
{
	static const char *const others[] = {"host", "port", "weight", "sslkey"};

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(key->key, others[i]) == 0)
			return false;
	return key->type == ENTRY_TEXT;
}

static int connstr_survives(uint64_t *seed)
{
	struct arena *arena = arena_new();
	const struct entry_key *key;
	struct database_config db;
	struct buf text, value;
	const char *values[64] = {NULL};
	struct err err = {.text = ""};
	int bad = 0;

	buf_init(&text, 0);
	buf_init(&value, 0);
	for (size_t i = 0; (key = entry_database_key(i)); i++) {
		if (!is_any_text(key))
			continue;
		if (*random_text(seed, &value) && below(seed, 2)) {
			values[i] = arena_strdup(arena, buf_text(&value));
			put_quoted(&text, key->key, values[i]);
			if (strcmp(key->key, "sslcert") == 0) /* sslcert needs sslkey */
				put_quoted(&text, "sslkey", values[i]);
		}
	}
	if (entry_parse_connstr(&db, "d", buf_text(&text), arena, &err) < 0) {
		printf("%s refused: %s\n", buf_text(&text), err.text);
		bad = 1;
	}
	for (size_t i = 0; !bad && (key = entry_database_key(i)); i++) {
		const char *got = NULL;

		if (!values[i])
			continue;
		got = *(const char *const *)((char *)&db + key->offset);
		if (!got || strcmp(got, values[i]) != 0) {
			printf("%s: \"%s\" changed\n", key->key, values[i]);
			bad = 1;
		}
	}
	buf_done(&text);
	buf_done(&value);
	arena_free(&arena);
	return bad;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)getpid();
	char path[] = "/tmp/prop_settings.XXXXXX";
	int fd = mkstemp(path);
	int bad = 0;

	assert(fd >= 0);
	close(fd);
	printf("seed %llu\n", (unsigned long long)seed);
	for (int i = 0; !bad && i < ROUNDS; i++)
		bad = settings_survive(path, &seed) || connstr_survives(&seed);
	unlink(path);
	return bad;
}
