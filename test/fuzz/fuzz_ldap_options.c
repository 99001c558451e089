/* links: auth base */
/*
 * LDAP options and a user name, separated by a NUL byte.  Accepted options work for any
 * user, and no character of a user's name has a special meaning in a filter.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "auth/ldap_options.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static char *text_of(const uint8_t *bytes, size_t len)
{
	char *text = mem_alloc(len + 1);

	memcpy(text, bytes, len);
	text[len] = '\0';
	return text;
}

static void use_options(const struct ldap_options *o, const char *user)
{
	struct buf out;
	struct err err;

	buf_init(&out, 0);
	if (!o->prefix && !o->suffix && !ldap_options_has_search(o))
		abort();
	(void)ldap_options_put_dn(o, &out, user, NULL);
	if (out.len < strlen(user))
		abort();
	buf_clear(&out);
	if (ldap_options_put_filter(o, &out, user, &err) == 0 && strpbrk(user, "*()\\"))
		abort();
	buf_clear(&out);
	ldap_options_put_uris(o, &out, o->servers ? o->servers : user);
	if (o->servers && strncmp(buf_text(&out), "ldap", 4) != 0)
		abort();
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const uint8_t *nul = len ? memchr(data, '\0', len) : NULL;
	size_t part = nul ? (size_t)(nul - data) : len;
	char *text = text_of(data, part);
	char *user = nul ? text_of(nul + 1, len - part - 1) : mem_strdup("user");
	struct ldap_options o;
	struct err err;

	if (ldap_options_parse(&o, text, &err) == 0) {
		use_options(&o, user);
		ldap_options_done(&o);
	}
	mem_free(text);
	mem_free(user);
	return 0;
}
