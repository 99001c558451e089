/*
 * Which traceparent a text has: it counts only within a comment and in exactly the
 * right form.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "wire/traceparent.h"

#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
#define PAIR  "traceparent='" TRACE "'"

static bool find(const char *text, char out[TRACEPARENT_TEXT])
{
	/* the copy has the exact size, so that sanitizers see a read past its end */
	size_t len = strlen(text);
	char *copy = malloc(len + 1);
	bool is_there;

	assert_non_null(copy);
	memcpy(copy, text, len);
	is_there = traceparent_find(copy, len, false, out);
	assert_int_equal(is_there, out[0] != '\0');
	free(copy);
	return is_there;
}

static void found(void **state)
{
	static const char *const texts[] = {
	    "/*" PAIR "*/ select 1",
	    "/* " PAIR " */select 1",
	    "  /*action='a%20b'," PAIR ",tracestate='x=y'*/ select 1",
	    "/*+ SeqScan(t) */ /*" PAIR "*/ select 1",
	    "select 1 /*" PAIR "*/",
	    "select 1 /*" PAIR "*/;",
	    "select 1; -- more\nselect 2 /*db_driver='x'," PAIR "*/ ; \n",
	    "select '/*', $$ it's $$ /*" PAIR "*/",
	    "begin /*" PAIR "*/; select 1 /*traceparent='" TRACE "'*/",
	    /* an invalid one does not hide a later valid one */
	    "/*traceparent='none'*/ select 1 /*" PAIR "*/",
	    "/*traceparent='',traceparent='x'," PAIR "*/ select 1",
	};
	char out[TRACEPARENT_TEXT];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_true(find(texts[i], out));
		assert_string_equal(out, TRACE);
	}
}

static void not_found(void **state)
{
	static const char *const texts[] = {
	    "",
	    "select 1",
	    PAIR,
	    "select '/*" PAIR "*/'",
	    "select '/*traceparent=''" TRACE "''*/'",
	    "select $q$ /*" PAIR "*/ $q$",
	    "select \"/*" PAIR "*/\"",
	    "-- " PAIR "\nselect 1",
	    "/*" PAIR,
	    "/*traceparent='" TRACE "*/",
	    "/*xtraceparent='" TRACE "'*/ select 1",
	    "/*traceparent=" TRACE "*/ select 1",
	    "/*traceparent='" TRACE "0'*/ select 1",
	    "/*traceparent='" TRACE "-00'*/ select 1",
	    "/*traceparent='ff"
	    "-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/",
	    "/*traceparent='00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01'*/",
	    "/*traceparent='00-00000000000000000000000000000000-b7ad6b7169203331-01'*/",
	    "/*traceparent='00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01'*/",
	    "/*traceparent='00-0af7651916cd43dd8448eb211c80319cb7ad6b71692033310-01'*/",
	    "/*traceparent='0g-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/",
	    "/*traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-\n1'*"
	    "/",
	};
	char out[TRACEPARENT_TEXT];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (find(texts[i], out))
			fail_msg("%s: found %s", texts[i], out);
}

static void only_the_beginning(void **state)
{
	size_t len = TRACEPARENT_LOOKED_AT + 100;
	char *text = malloc(len + 1), out[TRACEPARENT_TEXT];

	(void)state;
	assert_non_null(text);
	memset(text, ' ', len);
	text[len] = '\0';
	snprintf(text + TRACEPARENT_LOOKED_AT - 50, 150, "/*" PAIR "*/");
	assert_false(traceparent_find(text, len, false, out));
	memset(text, ' ', len);
	snprintf(text + TRACEPARENT_LOOKED_AT - 80, 150, "/*" PAIR "*/");
	assert_true(traceparent_find(text, len, false, out));
	/* a NUL ends it */
	text[10] = '\0';
	assert_false(traceparent_find(text, len, false, out));
	free(text);
}

/* E'\'' is a string of one quote, and so is '\'' without standard strings. */
static void strings_with_escapes(void **state)
{
	static const char text[] = "select '\\'/*" PAIR "*/'";
	char out[TRACEPARENT_TEXT];

	(void)state;
	assert_true(traceparent_find(text, sizeof(text), false, out));
	assert_false(traceparent_find(text, sizeof(text), true, out));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(found),
	    cmocka_unit_test(not_found),
	    cmocka_unit_test(only_the_beginning),
	    cmocka_unit_test(strings_with_escapes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
