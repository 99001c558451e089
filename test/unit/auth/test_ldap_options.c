/* LDAP options: the grammar, which go together, URLs, and the texts made for a user. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "auth/ldap_options.h"

static struct ldap_options parsed(const char *text)
{
	struct ldap_options o;
	struct err err = {{0}, {0}};

	if (ldap_options_parse(&o, text, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	return o;
}

static void refused(const char *text, const char *why)
{
	struct ldap_options o;
	struct err err = {{0}, {0}};

	assert_int_equal(ldap_options_parse(&o, text, &err), -1);
	if (!strstr(err.text, why))
		fail_msg("%s: \"%s\"", text, err.text);
}

static void test_simple_bind(void **state)
{
	struct ldap_options o =
	    parsed("ldapserver=ldap.example.net ldapprefix=\"cn=\", "
		   "ldapsuffix=\", dc=example, dc=net\"");

	(void)state;
	assert_string_equal(o.servers, "ldap.example.net");
	assert_string_equal(o.prefix, "cn=");
	assert_string_equal(o.suffix, ", dc=example, dc=net");
	assert_int_equal(o.port, 0);
	assert_false(o.is_ldaps || o.is_starttls);
	assert_false(ldap_options_has_search(&o));
	ldap_options_done(&o);
	assert_null(o.servers);
	ldap_options_done(&o);
}

static void test_search(void **state)
{
	struct ldap_options o =
	    parsed("  ldapserver=\"one two\" ldapport=1389,ldaptls=1 ,\tldapscheme=ldap"
		   " ldapbasedn=\"dc=x\" ldapbinddn=cn=me \"ldapbindpasswd\"=\"a\"\"b "
		   "c\" ldapsearchattribute =mail\n");

	(void)state;
	assert_string_equal(o.servers, "one two");
	assert_int_equal(o.port, 1389);
	assert_true(o.is_starttls);
	assert_false(o.is_ldaps);
	assert_string_equal(o.base_dn, "dc=x");
	assert_string_equal(o.bind_dn, "cn=me");
	assert_string_equal(o.bind_password, "a\"b c");
	assert_string_equal(o.search_attribute, "mail");
	assert_int_equal(o.scope, LDAP_OPTIONS_SUBTREE);
	assert_true(ldap_options_has_search(&o));
	ldap_options_done(&o);
}

/* Text that is no pair is refused: a stray word must not switch StartTLS off. */
static void test_strays(void **state)
{
	static const char *const strays[] = {",,ldaptls=1", " # ldaptls=1",
	    " ldaptls= 1", " ldaptls", " ldapport ldaptls=1", " =1", " \"ldaptls",
	    " ldaptls=\"1", " \"ldapport=1\" ldaptls=1", " ldapport=", " ldapport=,",
	    " x ldaptls=1", ", ,ldaptls=1", " ldapsuffix=\"a\"ldaptls=1"};

	(void)state;
	for (size_t i = 0; i < sizeof(strays) / sizeof(*strays); i++) {
		char text[200];
		snprintf(text, sizeof(text), "ldapserver=h ldapsuffix=x%s", strays[i]);
		refused(text, "LDAP options cannot be read from character ");
	}
}

static void test_blanks_and_commas(void **state)
{
	static const char *const texts[] = {"ldapserver=h,ldapsuffix=x,ldaptls=1",
	    " ldapserver=h ,\tldapsuffix=x\r\nldaptls=1 ,",
	    "ldapserver =\"h\",ldapsuffix=\"x\" , \"ldaptls\"=\"1\""};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct ldap_options o = parsed(texts[i]);
		assert_string_equal(o.servers, "h");
		assert_string_equal(o.suffix, "x");
		assert_true(o.is_starttls);
		ldap_options_done(&o);
	}
}

/* Text that may be part of a password is not shown in the fault. */
static void test_faults_show_no_password(void **state)
{
	struct ldap_options o;
	struct err err;

	(void)state;
	assert_int_equal(
	    ldap_options_parse(&o, "ldapsuffix=x ldapbindpasswd=two words", &err), -1);
	assert_null(strstr(err.text, "two"));
	assert_null(strstr(err.text, "words"));
}

static void test_last_one_wins(void **state)
{
	struct ldap_options o = parsed(
	    "ldapserver=a ldapserver=b ldaptls=1 ldaptls=0 ldapsuffix=x ldapsuffix=y");

	(void)state;
	assert_string_equal(o.servers, "b");
	assert_string_equal(o.suffix, "y");
	assert_false(o.is_starttls);
	ldap_options_done(&o);
}

static void test_refused(void **state)
{
	(void)state;
	refused("ldapserver=h ldapuser=x", "invalid LDAP option: \"ldapuser\"");
	refused("ldapserver=h LDAPPREFIX=x", "invalid LDAP option: \"LDAPPREFIX\"");
	/* a DN without quotes ends at its comma */
	refused("ldapserver=h ldapbasedn=dc=a,dc=b", "invalid LDAP option: \"dc\"");
	refused("ldapserver=h \xc2\xa0ldaptls=1", "invalid LDAP option: \"");
	refused("ldapport=0", "invalid LDAP port number: \"0\"");
	refused("ldapport=x", "invalid LDAP port number: \"x\"");
	refused("ldapport=65536", "invalid LDAP port number");
	refused("ldapport=-1", "invalid LDAP port number");
	refused("ldaptls=", "cannot be read");
	refused("ldaptls=\"\"", "invalid LDAP option: ldaptls=\"\"; write 0 or 1");
	refused("ldaptls=2", "invalid LDAP option: ldaptls=\"2\"; write 0 or 1");
	refused("ldaptls=on", "invalid LDAP option: ldaptls=\"on\"; write 0 or 1");
	refused("ldapscheme=ldapi", "invalid LDAP scheme: \"ldapi\"");
	refused("", "needs one of ldapbasedn");
	refused("ldapserver=h", "needs one of ldapbasedn");
	refused("ldapprefix=x", "needs ldapserver");
	refused("ldapbasedn=\"\"", "needs ldapserver");
	refused("ldapserver=\" \" ldapsuffix=x", "needs ldapserver");
	refused("ldapserver=h ldapprefix=x ldapbasedn=y", "cannot be used together");
	refused("ldapserver=h ldapsuffix=x ldapbinddn=y", "cannot be used together");
	refused("ldapserver=h ldapsuffix=x ldapbindpasswd=secret",
	    "cannot be used together");
	refused("ldapserver=h ldapprefix=x ldapsearchattribute=y",
	    "cannot be used together");
	refused(
	    "ldapserver=h ldapprefix=x ldapsearchfilter=y", "cannot be used together");
	refused("ldapserver=h ldapbasedn=x ldapsearchfilter=y ldapsearchattribute=z",
	    "ldapsearchattribute cannot be used together with ldapsearchfilter");
}

static void test_needless_starttls(void **state)
{
	struct ldap_options o =
	    parsed("ldapserver=h ldapbasedn=x ldapscheme=ldaps ldaptls=1");

	(void)state;
	assert_non_null(strstr(o.warning, "ldaptls=1 has no effect with ldaps"));
	assert_true(o.is_ldaps && !o.is_starttls);
	ldap_options_done(&o);
	o = parsed("ldapserver=h ldapbasedn=x ldaptls=1");
	assert_null(o.warning);
	assert_true(o.is_starttls);
	ldap_options_done(&o);
}

static void expect_dn(const char *options, const char *user, const char *wanted)
{
	struct ldap_options o = parsed(options);
	struct buf out;

	buf_init(&out, 0);
	int rc = ldap_options_put_dn(&o, &out, user, NULL);
	assert_int_equal(rc, wanted ? 0 : -1);
	if (wanted)
		assert_string_equal(buf_text(&out), wanted);
	buf_done(&out);
	ldap_options_done(&o);
}

/* A name stays one value of the DN. */
static void test_names_in_a_dn(void **state)
{
	static const char dn[] = "ldapserver=h ldapprefix=\"uid=\" ldapsuffix=\",o=x\"";
	static const char *const odd[] = {" ann", "ann ", "an\tn", "ann\n", "\x01"};

	(void)state;
	expect_dn(dn, "ann", "uid=ann,o=x");
	expect_dn(dn, "mallory,ou=svc", "uid=mallory\\,ou=svc,o=x");
	expect_dn(dn, "al\\69ce", "uid=al\\\\69ce,o=x");
	expect_dn(dn, "a+b;c<d>e\"f", "uid=a\\+b\\;c\\<d\\>e\\\"f,o=x");
	expect_dn(dn, "#a b", "uid=\\#a b,o=x");
	/* no DN: user@domain, DOMAIN\user */
	expect_dn("ldapserver=h ldapsuffix=@x", "a+b", "a+b@x");
	expect_dn("ldapserver=h ldapprefix=X\\", "ann", "X\\ann");
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		expect_dn(dn, odd[i], NULL);
		expect_dn("ldapserver=h ldapsuffix=@x", odd[i], NULL);
	}
}

static void test_url(void **state)
{
	struct ldap_options o = parsed(
	    "ldapurl=\"ldaps://[::1]:1636/dc=a%2cb,dc=x?mail,cn?one?\" ldapbinddn=b");

	(void)state;
	assert_true(o.is_ldaps);
	assert_string_equal(o.servers, "[::1]");
	assert_int_equal(o.port, 1636);
	assert_string_equal(o.base_dn, "dc=a,b,dc=x");
	assert_string_equal(o.search_attribute, "mail");
	assert_int_equal(o.scope, LDAP_OPTIONS_ONE);
	assert_null(o.search_filter);
	ldap_options_done(&o);

	o = parsed("ldapurl=\"ldap://h/dc=x??base?(&(uid=$username)(a=%3f))\"");
	assert_false(o.is_ldaps);
	assert_string_equal(o.servers, "h");
	assert_int_equal(o.port, 0);
	assert_null(o.search_attribute);
	assert_int_equal(o.scope, LDAP_OPTIONS_BASE);
	assert_string_equal(o.search_filter, "(&(uid=$username)(a=?))");
	ldap_options_done(&o);

	/* No server is named, so that DNS finds them. */
	o = parsed("ldapurl=ldap:///dc=x");
	assert_null(o.servers);
	assert_string_equal(o.base_dn, "dc=x");
	assert_int_equal(o.scope, LDAP_OPTIONS_SUBTREE);
	ldap_options_done(&o);

	/* The URL names only a server, for a simple bind. */
	o = parsed("ldapurl=ldap://h:3389 ldapprefix=x");
	assert_int_equal(o.port, 3389);
	ldap_options_done(&o);
	o = parsed("ldapurl=ldap://h/ ldapprefix=x");
	assert_null(o.base_dn);
	ldap_options_done(&o);
}

static void test_bad_url(void **state)
{
	static const char *const bad[] = {"ldap:h", "http://h/dc=x", "LDAP://h/dc=x",
	    "ldap://h:/dc=x", "ldap://h:0/dc=x", "ldap://h:x/dc=x", "ldap://h/dc=%",
	    "ldap://h/dc=%4", "ldap://h/dc=%zz", "ldap://h/dc=%00", "ldap://h%/dc=x",
	    "ldap://h/dc=x?u%?sub", "ldap://h/dc=x?uid?tree", "ldap://h/dc=x???f%",
	    "ldap://h/dc=x????ext", "://h/dc=x"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		char text[100];
		snprintf(text, sizeof(text), "ldapurl=\"%s\"", bad[i]);
		refused(text, "could not parse LDAP URL \"");
	}
}

static void expect_uris(const char *options, const char *hosts, const char *expected)
{
	struct ldap_options o = parsed(options);
	struct buf out;

	buf_init(&out, 0);
	ldap_options_put_uris(&o, &out, hosts ? hosts : o.servers);
	assert_string_equal(buf_text(&out), expected);
	buf_done(&out);
	ldap_options_done(&o);
}

static void test_uris(void **state)
{
	(void)state;
	expect_uris("ldapserver=h ldapsuffix=x", NULL, "ldap://h:389");
	expect_uris(
	    "ldapserver=h ldapsuffix=x ldapscheme=ldaps", NULL, "ldaps://h:636");
	expect_uris("ldapserver=\" a  b:1 [::2] [::3]:3 ::4 \" ldapport=9 ldapsuffix=x",
	    NULL, "ldap://a:9 ldap://b:1 ldap://[::2]:9 ldap://[::3]:3 ldap://[::4]:9");
	expect_uris(
	    "ldapbasedn=dc=x", "a.x:389 b.x:390", "ldap://a.x:389 ldap://b.x:390");
}

static void test_dn(void **state)
{
	struct ldap_options o =
	    parsed("ldapserver=h ldapprefix=\"uid=\" ldapsuffix=\",dc=x\"");
	struct buf out;

	(void)state;
	buf_init(&out, 0);
	assert_int_equal(ldap_options_put_dn(&o, &out, "ann", NULL), 0);
	assert_string_equal(buf_text(&out), "uid=ann,dc=x");
	ldap_options_done(&o);
	buf_clear(&out);
	o = parsed("ldapserver=h ldapsuffix=@x");
	assert_int_equal(ldap_options_put_dn(&o, &out, "ann", NULL), 0);
	assert_string_equal(buf_text(&out), "ann@x");
	ldap_options_done(&o);
	buf_done(&out);
}

static void expect_filter(const char *options, const char *user, const char *expected)
{
	struct ldap_options o = parsed(options);
	struct buf out;
	struct err err;

	buf_init(&out, 0);
	assert_int_equal(
	    ldap_options_put_filter(&o, &out, user, &err), expected ? 0 : -1);
	if (expected)
		assert_string_equal(buf_text(&out), expected);
	buf_done(&out);
	ldap_options_done(&o);
}

static void test_filter(void **state)
{
	static const char *const hostile[] = {
	    "*", "a*", "a)(uid=b", "(", ")", "a\\2a", "a/b"};

	(void)state;
	expect_filter("ldapserver=h ldapbasedn=x", "ann", "(uid=ann)");
	expect_filter(
	    "ldapserver=h ldapbasedn=x ldapsearchattribute=mail", "a b", "(mail=a b)");
	expect_filter(
	    "ldapserver=h ldapbasedn=x ldapsearchfilter=(|(uid=$username)(mail="
	    "$username))",
	    "ann", "(|(uid=ann)(mail=ann))");
	/* The name is put in once; `$username` inside it is not replaced. */
	expect_filter("ldapserver=h ldapbasedn=x ldapsearchfilter=$username",
	    "$username", "$username");
	expect_filter(
	    "ldapserver=h ldapbasedn=x ldapsearchfilter=(a=$user)", "ann", "(a=$user)");
	for (size_t i = 0; i < sizeof(hostile) / sizeof(*hostile); i++) {
		expect_filter("ldapserver=h ldapbasedn=x", hostile[i], NULL);
		expect_filter(
		    "ldapserver=h ldapbasedn=x ldapsearchfilter=(uid=$username)",
		    hostile[i], NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_simple_bind),
	    cmocka_unit_test(test_search),
	    cmocka_unit_test(test_strays),
	    cmocka_unit_test(test_blanks_and_commas),
	    cmocka_unit_test(test_faults_show_no_password),
	    cmocka_unit_test(test_last_one_wins),
	    cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_needless_starttls),
	    cmocka_unit_test(test_names_in_a_dn),
	    cmocka_unit_test(test_url),
	    cmocka_unit_test(test_bad_url),
	    cmocka_unit_test(test_uris),
	    cmocka_unit_test(test_dn),
	    cmocka_unit_test(test_filter),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
