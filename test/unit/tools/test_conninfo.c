/* Connection strings in libpq's two forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "tools/libpq_entry.h"

static struct buf pairs; /* the pairs of the last text, as "key=value;" */

static int note(void *ctx, const char *key, const char *value, struct err *err)
{
	(void)ctx;
	if (strcmp(key, "refused") == 0)
		return err_set(err, "refused");
	buf_printf(&pairs, "%s=%s;", key, value);
	return 0;
}

static void reads(const char *text, const char *expected)
{
	struct err err = {.text = ""};

	buf_done(&pairs);
	buf_init(&pairs, 0);
	assert_int_equal(libpq_entry_read_conninfo(text, note, NULL, &err), 0);
	assert_string_equal(buf_text(&pairs), expected);
	buf_done(&pairs);
}

/* The error does not repeat the text, which may contain a password. */
static void refuses(const char *text, const char *why)
{
	struct err err = {.text = ""};

	buf_done(&pairs);
	buf_init(&pairs, 0);
	assert_int_equal(libpq_entry_read_conninfo(text, note, NULL, &err), -1);
	assert_non_null(strstr(err.text, why));
	assert_null(strstr(err.text, "quiesce"));
	buf_done(&pairs);
}

static void key_and_value(void **state)
{
	(void)state;
	reads("", "");
	reads("host=a port=1", "host=a;port=1;");
	reads(" host = a\tport= '5 5' \n", "host=a;port=5 5;");
	reads("password='it\\'s \\\\' x=a\\ b", "password=it's \\;x=a b;");
	reads("a='' b=c", "a=;b=c;");
	refuses("quiesce", "write key=value");
	refuses("a=b quiesce c=d", "write key=value");
	refuses("=quiesce", "write key=value");
	refuses("password='quiesce", "has no end");
	refuses("a=b refused=quiesce", "refused");
}

static void uris(void **state)
{
	(void)state;
	reads("postgresql://", "");
	reads("postgres://u@h/d", "user=u;host=h;dbname=d;");
	reads("postgresql://u:p%40%2f@h:6000/d?sslmode=require&x=%20",
	    "user=u;password=p@/;host=h;port=6000;dbname=d;sslmode=require;x= ;");
	reads("postgresql://[::1]:7000,h2,[fe80::1]",
	    "host=::1,h2,fe80::1;port=7000,5432,5432;");
	reads("postgresql://%2Fvar%2Frun/d", "host=/var/run;dbname=d;");
	reads("postgresql:///d?host=/tmp", "dbname=d;host=/tmp;");
	reads("postgresql://u:p@ss@h", "user=u;password=p@ss;host=h;");
	refuses("postgresql://u:quiesce%4@h", "two hexadecimal digits");
	refuses("postgresql://u:quiesce%00@h", "two hexadecimal digits");
	refuses("postgresql://[::1", "IPv6");
	refuses("postgresql://[::1]x", "IPv6");
	refuses("postgresql://h/d?quiesce", "behind the ?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(key_and_value),
	    cmocka_unit_test(uris),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
