/* links: auth base */
/*
 * Any bytes as a user list.  The first fault ends the reading; each user that was read
 * is within the limits and found by name; every secret is tried with a password, so
 * that its classification is tested too.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "auth/saslprep.h"
#include "auth/secret.h"
#include "auth/userlist.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_report(
    void *ctx, enum diagnostic kind, const char *where, const char *text)
{
	*(int *)ctx += kind == DIAGNOSTIC_ERROR;
	if (strncmp(where, "f:", 2) != 0 || !text[0])
		abort();
}

static void check_secret(const char *name, const struct secret *s)
{
	static const uint8_t salt[4] = {1, 2, 3, 4};
	char answer[MD5_TEXT_LEN + 1];
	struct secret again;
	char *prepared;

	if (saslprep(s->text, &prepared) < 0)
		abort();
	mem_free(prepared);
	secret_init(&again, s->text);
	if (!secret_is_equal(s, &again))
		abort();
	secret_done(&again);
	if (secret_is_password(s, name, ""))
		abort();
	if (s->kind == SECRET_MALFORMED &&
	    (secret_is_password(s, name, s->text) ||
		secret_md5_answer(s, name, salt, answer) == 0))
		abort();
	if (s->kind == SECRET_PLAIN && !secret_is_password(s, name, s->text))
		abort();
	if (secret_md5_answer(s, name, salt, answer) == 0 &&
	    !secret_is_md5_answer(NULL, s, name, salt, answer))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	int faults = 0;
	struct userlist *u =
	    userlist_parse("f", (const char *)data, len, NULL, check_report, &faults);
	const struct secret *secret;
	const char *name;
	size_t at = 0, count = 0;

	if (faults > 1)
		abort();
	while (userlist_next(u, &at, &name, &secret)) {
		count++;
		if (strlen(name) > USERLIST_NAME_MAX ||
		    userlist_find(u, name) != secret)
			abort();
		check_secret(name, secret);
	}
	if (count != userlist_count(u))
		abort();
	userlist_unref(&u);
	return 0;
}
