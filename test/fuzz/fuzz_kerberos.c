/* links: auth base */
/*
 * What a client sends in place of a ticket: tokens, each behind its length in two
 * bytes; nobody without a key gets in, and a step that fails has no answer.  Or, behind
 * a first byte of 1, a principal: the name of the user is a part of it, and the realm
 * is the one behind the first @ that no backslash takes its meaning from.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../unit/auth/keytab.c"
#include "auth/kerberos.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static char keytab[] = "/tmp/fuzz-kerberos-XXXXXX";

static void remove_keytab(void)
{
	unlink(keytab);
}

static void write_keytab(void)
{
	static int is_there;
	int fd;

	if (is_there)
		return;
	is_there = 1;
	fd = mkstemp(keytab);
	if (fd < 0)
		abort();
	close(fd);
	keytab_write(keytab);
	/* what was shown before is not to be remembered on this machine */
	setenv("KRB5RCACHENAME", "none:", 1);
	atexit(remove_keytab);
}

static void take_tokens(const uint8_t *data, size_t len)
{
	struct kerberos_exchange *x = kerberos_accept_new(keytab);
	enum kerberos_result result = KERBEROS_MORE;
	struct buf out;
	struct err err;

	buf_init(&out, 0);
	while (len >= 2 && result == KERBEROS_MORE) {
		size_t most = (size_t)(data[0] << 8 | data[1]);
		size_t part = most < len - 2 ? most : len - 2;

		buf_clear(&out);
		result = kerberos_step(x, data + 2, part, &out, &err);
		if (result == KERBEROS_DONE || kerberos_client(x))
			abort();
		if (result == KERBEROS_FAILED && (out.len || !err.text[0]))
			abort();
		data += 2 + part;
		len -= 2 + part;
	}
	buf_done(&out);
	kerberos_exchange_free(&x);
}

static void take_name(const uint8_t *data, size_t len)
{
	char *text = mem_alloc(len + 1), *user;
	struct err err;
	size_t at = 0;

	memcpy(text, data, len);
	text[len] = '\0';
	while (text[at] && text[at] != '@')
		at += text[at] == '\\' && text[at + 1] ? 2 : 1;
	user = kerberos_user_of(text, true, NULL, false, &err);
	if (!user || strlen(user) != at || memcmp(user, text, at) != 0)
		abort();
	mem_free(user);
	user = kerberos_user_of(text, false, "REALM", false, &err);
	if ((user != NULL) != (text[at] && strcmp(text + at + 1, "REALM") == 0))
		abort();
	if (user && strcmp(user, text) != 0)
		abort();
	mem_free(user);
	(void)kerberos_keytab_path(text);
	mem_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	write_keytab();
	if (len && data[0] == 1)
		take_name(data + 1, len - 1);
	else
		take_tokens(data, len);
	return 0;
}
