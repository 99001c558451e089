/*
 * A validator of PostgreSQL 18 for tests: the token NAME-token is that of NAME.  The
 * declarations are those of its fmgr.h and libpq/oauth.h, which do not come with its
 * binaries.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

extern char *pstrdup(const char *text);

struct magic {
	int len;
	struct {
		int version, funcmaxargs, indexmaxkeys, namedatalen, float8byval;
		char extra[32];
	} abi;
	const char *name, *version;
};

const struct magic *Pg_magic_func(void)
{
	static const struct magic magic = {
	    sizeof(magic), {1800, 100, 32, 64, 1, "PostgreSQL"}, NULL, NULL};
	return &magic;
}

struct result {
	bool authorized;
	char *authn_id;
};

static bool validate(
    const void *state, const char *token, const char *role, struct result *result)
{
	const char *end = strstr(token, "-token");

	(void)state;
	(void)role;
	result->authorized = end && !end[6];
	if (result->authorized) {
		result->authn_id = pstrdup(token);
		result->authn_id[end - token] = '\0';
	}
	return true;
}

struct callbacks {
	uint32_t magic;
	void (*startup)(void *state);
	void (*shutdown)(void *state);
	bool (*validate)(const void *state, const char *token, const char *role,
	    struct result *result);
};

const struct callbacks *_PG_oauth_validator_module_init(void)
{
	static const struct callbacks callbacks = {0x20250220, NULL, NULL, validate};
	return &callbacks;
}
