/* HBA lines: types, names, methods, options, order, and which rule matches which
 * client. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "auth/kerberos.h"
#include "hba_asking.h"

/* ---- types ---- */

static void test_types(void **state)
{
	static const struct {
		const char *type;
		bool is_for_unix, is_for_plain, is_for_tls;
	} types[] = {
	    {"local all all trust", true, false, false},
	    {"host all all all trust", false, true, true},
	    {"hostssl all all all trust", false, false, true},
	    {"hostnossl all all all trust", false, true, false},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(types); i++) {
		struct hba_peer local = peer_at(NULL), plain = peer_at("10.0.0.1"),
				tls = plain, tls_local = local;
		tls.is_tls = tls_local.is_tls = true;
		assert_int_equal(
		    is_let_in(types[i].type, &local), types[i].is_for_unix);
		assert_int_equal(
		    is_let_in(types[i].type, &tls_local), types[i].is_for_unix);
		assert_int_equal(
		    is_let_in(types[i].type, &plain), types[i].is_for_plain);
		assert_int_equal(is_let_in(types[i].type, &tls), types[i].is_for_tls);
	}
	expect_refused(
	    "hostgssenc all all 1.2.3.4/32 trust", "hba line 1: unknown type");
	expect_refused("hostnogssenc all all all trust", "hba line 1: unknown type");
	expect_refused("Local all all trust", "hba line 1: unknown type");
	expect_refused("\"local\" all all trust", "hba line 1: unknown type");
	expect_refused(", all all trust", "hba line 1: unknown type");
	expect_refused("\"local all all trust", "hba line 1: unknown type");
}

/* ---- names ---- */

static void test_names(void **state)
{
	static const struct {
		const char *rule, *database, *user;
		bool is_in;
	} cases[] = {
	    {"local db joe trust", "db", "joe", true},
	    {"local db joe trust", "DB", "joe", false},
	    {"local db joe trust", "db", "jo", false},
	    {"local db joe trust", "d", "joe", false},
	    {"local a,b joe trust", "b", "joe", true},
	    {"local a , b joe trust", "b", "joe", true},
	    {"local a, b joe,ann trust", "a", "ann", true},
	    {"local a,b joe trust", "a,b", "joe", false},
	    {"local all all trust", "", "", true},
	    {"local \"all\" all trust", "x", "joe", false},
	    {"local \"all\" all trust", "all", "joe", true},
	    {"local all \"all\" trust", "x", "joe", false},
	    {"local x,all joe trust", "y", "joe", true},
	    {"local sameuser all trust", "joe", "joe", true},
	    {"local sameuser all trust", "joe", "ann", false},
	    {"local sameuser all trust", "sameuser", "ann", false},
	    {"local \"sameuser\" all trust", "joe", "joe", false},
	    {"local \"sameuser\" all trust", "sameuser", "joe", true},
	    {"local all sameuser trust", "joe", "joe", true},
	    {"local all sameuser trust", "joe", "ann", false},
	    {"local \"samerole\" \"+x\" trust", "samerole", "+x", true},
	    {"local \"@x\" all trust", "@x", "joe", true},
	    {"local \"a\"\"b,c d#\" all trust", "a\"b,c d#", "joe", true},
	    {"local \"\" all trust", "", "joe", true},
	    {"local \"\" all trust", "x", "joe", false},
	    {"local a\" b\"c all trust", "a bc", "joe", true},
	    {"local all replication trust", "db", "replication", true},
	    {"local \"replication\" all trust", "replication", "joe", true},
	    {"local replication all trust", "replication", "joe", false},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		if (is_name_in(cases[i].rule, cases[i].database, cases[i].user) !=
		    cases[i].is_in)
			fail_msg("%s: %s %s", cases[i].rule, cases[i].database,
			    cases[i].user);
	}
}

static void test_bad_names(void **state)
{
	(void)state;
	expect_refused("local samerole all trust", "samerole is not supported");
	expect_refused("local all samegroup trust", "samegroup is not supported");
	expect_refused("local all +grp trust",
	    "hba line 1: group +grp: membership is not known here; list the users, in "
	    "a file named by @file, or write a /regular expression");
	expect_refused("local +grp all trust",
	    "hba line 1: group +grp: membership is not known here; list the users, in "
	    "a file named by @file, or write a /regular expression");
	expect_refused("local", "hba line 1: database name is missing");
	expect_refused("local all", "hba line 1: user name is missing");
	expect_refused("local ,a all trust", "hba line 1: database name is missing");
	expect_refused("local a,,b all trust", "hba line 1: database name is missing");
	expect_refused("local a,", "hba line 1: database name is missing");
	expect_refused("local all b, # c", "hba line 1: user name is missing");
	expect_refused("local \"open all trust", "hba line 1: a quote is not closed");
	expect_refused("local all o\"pen trust", "hba line 1: a quote is not closed");
}

static void test_replication(void **state)
{
	static const struct {
		const char *rule;
		bool is_for_none, is_for_logical, is_for_physical;
	} cases[] = {
	    {"local all all trust", true, true, false},
	    {"local db all trust", true, true, false},
	    {"local sameuser,/./ all trust", false, false, false},
	    {"local replication all trust", false, false, true},
	    {"local replication joe trust", false, false, true},
	    {"local replication ann trust", false, false, false},
	    {"local db,replication all trust", true, true, true},
	    {"local \"replication\" all trust", false, false, false},
	    {"local all replication trust", false, false, false},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct hba_peer p = peer_at(NULL);
		assert_int_equal(is_let_in(cases[i].rule, &p), cases[i].is_for_none);
		p.replication = HBA_REPLICATION_LOGICAL;
		assert_int_equal(is_let_in(cases[i].rule, &p), cases[i].is_for_logical);
		p.replication = HBA_REPLICATION_PHYSICAL;
		assert_int_equal(
		    is_let_in(cases[i].rule, &p), cases[i].is_for_physical);
	}
}

static void test_regular_expressions(void **state)
{
	static const struct {
		const char *rule, *database, *user;
		bool is_in;
	} cases[] = {
	    {"local /^app_[0-9]+$ all trust", "app_12", "joe", true},
	    {"local /^app_[0-9]+$ all trust", "app_", "joe", false},
	    {"local /^app_[0-9]+$ all trust", "xapp_1", "joe", false},
	    {"local /app all trust", "xappx", "joe", true},
	    {"local x,/^a,/^b all trust", "bb", "joe", true},
	    {"local x,/^a,/^b all trust", "cb", "joe", false},
	    {"local /\"^a{1,2}(b| c)$\" all trust", "aa c", "joe", true},
	    {"local /\"^a{1,2}(b| c)$\" all trust", "aaa c", "joe", false},
	    {"local \"/^a\" all trust", "ab", "joe", false},
	    {"local \"/^a\" all trust", "/^a", "joe", true},
	    {"local all /^j trust", "db", "joe", true},
	    {"local all /^j trust", "db", "ann", false},
	    {"local /^a\\.b$ all trust", "a.b", "joe", true},
	    {"local /^a\\.b$ all trust", "axb", "joe", false},
	    {"local /^(a|b)+c{2}d*[{]$ all trust", "abccd{", "joe", true},
	    {"local /^(a|b)+c{2}d*[{]$ all trust", "abcd{", "joe", false},
	    {"local /^a\\+?[+*]+$ all trust", "a++", "joe", true},
	    {"local /^[]^a[:digit:]]+$ all trust", "a]1", "joe", true},
	    {"local /^[^]a]+$ all trust", "bb", "joe", true},
	    {"local /^[^]a]+$ all trust", "]b", "joe", false},
	    {"local /^[[.a.][=b=]]$ all trust", "b", "joe", true},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		if (is_name_in(cases[i].rule, cases[i].database, cases[i].user) !=
		    cases[i].is_in)
			fail_msg("%s: %s", cases[i].rule, cases[i].database);
	}
}

/* A name longer than any user's is matched by no expression, as that costs time. */
static void test_names_too_long_for_expressions(void **state)
{
	struct hba *hba = parse("local short all trust\n"
				"local /[a-z]+[0-9]+x all trust\n"
				"local all all trust");
	struct hba_peer p = peer_at(NULL);
	char name[60000];

	(void)state;
	memset(name, 'a', sizeof(name));
	name[255] = '\0';
	p.database = name;
	assert_int_equal(line_for(hba, &p), 3);
	name[255] = 'a';
	name[sizeof(name) - 1] = '\0';
	clock_t begin = clock();
	assert_int_equal(line_for(hba, &p), 0);
	assert_true(clock() - begin < CLOCKS_PER_SEC);
	hba_free(&hba);
}

static void expect_bad_regex(const char *regex, const char *why)
{
	char line[256], text[512];

	snprintf(line, sizeof(line), "local all /\"%s\" trust", regex);
	snprintf(text, sizeof(text),
	    "hba line 1: invalid regular expression \"%s\": %s", regex, why);
	expect_refused(line, text);
}

static void test_bad_regular_expressions(void **state)
{
	static const char special[] = "only special characters can be escaped; write "
				      "classes as [0-9] or [[:alnum:]_]";

	(void)state;
	expect_bad_regex("", "it is empty and would find every name");
	expect_bad_regex("(a", "Unmatched ( or \\(");
	expect_bad_regex("[a", "a bracket is not closed");
	expect_bad_regex("[[:a]", "Unmatched [, [^, [:, [., or [=");
	expect_bad_regex("[", "a bracket is not closed");
	expect_bad_regex("[^]", "a bracket is not closed");
	expect_bad_regex("[[:nothing:]]", "Invalid character class name");
	expect_bad_regex("[\\\\d]", "a backslash means nothing in brackets");
	expect_bad_regex("\\d+", special);
	expect_bad_regex("a\\w", special);
	expect_bad_regex("(a)\\1", "back references are not supported");
	expect_bad_regex("(?:a)", "(?...) is not supported");
	expect_bad_regex("***=a", "directors (***) are not supported");
	expect_bad_regex("a\\", "Trailing backslash");
	static const char *const loose[] = {
	    "*a", "(+a)", "a|?", "^*", "a++", "a*?", "a{2}{3}", "a?{1,2}", "{1}"};
	for (size_t i = 0; i < COUNT(loose); i++)
		expect_bad_regex(loose[i], "a quantifier has nothing to repeat");
}

/* ---- methods and options ---- */

static void test_methods(void **state)
{
	static const struct {
		const char *name;
		enum hba_method method;
	} methods[] = {
	    {"trust", HBA_TRUST},
	    {"reject", HBA_REJECT},
	    {"md5", HBA_MD5},
	    {"password", HBA_PLAIN},
	    {"peer", HBA_PEER},
	    {"cert", HBA_CERT},
	    {"scram-sha-256", HBA_SCRAM},
	    {"ldap", HBA_LDAP},
	    {"pam", HBA_PAM},
	};
	static const char ldap_options[] = " ldapserver=h ldapsuffix=x";
	struct hba_peer p = peer_at(NULL);

	(void)state;
	for (size_t i = 0; i < COUNT(methods); i++) {
		const struct hba_rule *rule;
		bool is_ldap = methods[i].method == HBA_LDAP;
		char line[128];
		snprintf(line, sizeof(line), " local all\tall %s%s # c",
		    methods[i].name, is_ldap ? ldap_options : "");
		struct hba *hba = parse(line);
		assert_int_equal(hba_match(hba, &p, &rule), HBA_MATCH);
		assert_int_equal(rule->method, methods[i].method);
		assert_string_equal(hba_method_name(rule->method), methods[i].name);
		assert_null(rule->map);
		assert_string_equal(rule->file, "hba");
		*strstr(line, is_ldap ? ldap_options : " #") = '\0';
		assert_string_equal(rule->text, line + 1);
		if (is_ldap)
			assert_string_equal(rule->options, ldap_options + 1);
		else
			assert_null(rule->options);
		hba_free(&hba);
	}
}

static void test_bad_methods(void **state)
{
	static const struct {
		const char *method, *why;
	} cases[] = {
	    {"", "unsupported method: buf="},
	    {"any", "unsupported method: buf=any"},
	    {"plain", "unsupported method: buf=plain"},
	    {"MD5", "unsupported method: buf=MD5"},
	    {"sspi", "unsupported method: buf=sspi"},
	    {"\"md5\"", "unsupported method: buf=md5"},
	    {"md5 foo", "Ident map foo is malformed. It is not in map=value format."},
	    {"md5 map=", "Ident map map= is malformed. It is not in map=value format."},
	    {"md5 =x", "Ident map =... is malformed. It is not in map=value format."},
	    {"md5 ldapbindpasswd=secret",
		"Ident map ldapbindpasswd=... is malformed. It is not in map=value "
		"format."},
	    {"cert map=no", "Ident map no is not found in ident config file"},
	    {"cert map=ok more", "unsupported parameters"},
	    {"cert map=ok,", "unsupported parameters"},
	    {"cert \"map=ok\"", "unsupported parameters"},
	    {"cert,", "unsupported parameters"},
	    {"pam map=ok", "unsupported parameters"},
	    {"trust \"open", "unsupported parameters"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		char line[128], why[256];
		snprintf(line, sizeof(line), "local all all %s", cases[i].method);
		snprintf(why, sizeof(why), "hba line 1: %s", cases[i].why);
		expect_refused(line, why);
	}
}

static void test_gss(void **state)
{
#define OPTIONS                                                 \
	" of gss, which are include_realm=0, include_realm=1, " \
	"krb_realm=REALM and map=NAME"
	static const struct {
		const char *options, *realm, *map;
		bool is_realm_left_out;
	} good[] = {
	    {"", NULL, NULL, false},
	    {" include_realm=1", NULL, NULL, false},
	    {" include_realm=0", NULL, NULL, true},
	    {" map=ok krb_realm=A.B include_realm=0", "A.B", "ok", true},
	    {" krb_realm=\"A B\"", "A B", NULL, false},
	};
	static const struct {
		const char *line, *why;
	} bad[] = {
	    {"local all all gss",
		"gssapi authentication is not supported on local sockets"},
	    {"host all all all gss include_realm=",
		"include_realm= is no option" OPTIONS},
	    {"host all all all gss include_realm=10",
		"include_realm=10 is no option" OPTIONS},
	    {"host all all all gss krb_realm=", "krb_realm= is no option" OPTIONS},
	    {"host all all all gss map=", "map= is no option" OPTIONS},
	    {"host all all all gss map=no",
		"Ident map no is not found in ident config file"},
	    {"host all all all gss \"map=ok\"", "unsupported parameters"},
	    {"host all all all gss,", "unsupported parameters"},
	};
	struct hba_peer p = peer_at("192.0.2.1");
	const struct hba_rule *rule;
	char line[128];

	(void)state;
	if (!kerberos_is_built()) {
		expect_refused("host all all all gss",
		    "hba line 1: gss is not supported by this build");
		return;
	}
	for (size_t i = 0; i < COUNT(good); i++) {
		snprintf(
		    line, sizeof(line), "host all all all gss%s # c", good[i].options);
		struct hba *hba = parse(line);
		assert_int_equal(hba_match(hba, &p, &rule), HBA_MATCH);
		assert_int_equal(rule->method, HBA_GSS);
		assert_string_equal(hba_method_name(rule->method), "gss");
		assert_int_equal(rule->is_realm_left_out, good[i].is_realm_left_out);
		*strstr(line, " #") = '\0';
		assert_string_equal(rule->text, line);
		if (good[i].realm)
			assert_string_equal(rule->realm, good[i].realm);
		else
			assert_null(rule->realm);
		if (good[i].map)
			assert_string_equal(rule->map, good[i].map);
		else
			assert_null(rule->map);
		hba_free(&hba);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		snprintf(line, sizeof(line), "hba line 1: %s", bad[i].why);
		expect_refused(bad[i].line, line);
	}
}

static void test_oauth_options(void **state)
{
	static const struct {
		const char *line, *why;
	} bad[] = {
	    {"local all all oauth issuer=https://x scope=s",
		"the method oauth needs TLS: use hostssl, or host"},
	    {"hostssl all all all oauth issuer",
		"authentication option not in name=value format: issuer"},
	    {"hostssl all all all oauth issuer=",
		"authentication option not in name=value format: issuer"},
	    {"hostssl all all all oauth \"issuer=https://x\"",
		"authentication option not in name=value format: issuer"},
	    {"hostssl all all all oauth colour=red",
		"unrecognized authentication option name: \"colour\""},
	    {"hostssl all all all oauth map=no",
		"Ident map no is not found in ident config file"},
	    {"hostssl all all all oauth issuer=https://x",
		"the method oauth requires the options issuer and scope"},
	    {"hostssl all all all oauth issuer=http://x scope=s",
		"issuer has to begin with https://: http://x"},
	};
	char line[128];

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		snprintf(line, sizeof(line), "hba line 1: %s", bad[i].why);
		expect_refused(bad[i].line, line);
	}
}

static void test_maps(void **state)
{
	struct hba_peer p = peer_at(NULL);
	const struct hba_rule *rule;
	struct hba *hba = parse("local all all peer map=ok#c\n");

	(void)state;
	assert_int_equal(hba_match(hba, &p, &rule), HBA_MATCH);
	assert_string_equal(rule->map, "ok");
	assert_string_equal(rule->text, "local all all peer map=ok");
	hba_free(&hba);
	/* Without an ident file there are no maps. */
	struct notes n = {0};
	static const char text[] = "local all all peer map=ok";
	buf_init(&n.text, 0);
	hba = hba_parse("hba", text, strlen(text), NULL, take_note, &n, NULL);
	assert_null(hba);
	assert_string_equal(buf_text(&n.text),
	    "hba line 1: Ident map ok is not found in ident config file\n"
	    "could not parse hba config line 1\n");
	buf_done(&n.text);
}

static enum hba_result asked(
    const char *text, const char *user, const char *ip, unsigned *line)
{
	struct hba_peer p = peer_at(ip);
	const struct hba_rule *rule;
	struct hba *hba = parse(text);

	p.user = user;
	enum hba_result result = hba_match(hba, &p, &rule);
	*line = rule ? rule->line : 0;
	hba_free(&hba);
	return result;
}

/* A directory takes these for the same name, so a rule for one holds for all. */
static void test_other_spellings(void **state)
{
	static const char rules[] = "host all alice,\"M\303\234LL\",/^svc_ all reject\n"
				    "host all bob 10.0.0.1/32 md5\n"
				    "host all all all ldap ldapserver=h ldapsuffix=x\n";
	static const char *const same[] = {"ALICE", "Alice ", " alice", "alice\302\255",
	    "\357\275\201lice", "m\303\274ll", "SVC_x"};
	static const char *const others[] = {"alic", "alicex", "carol", "mull", "m ll"};
	static const char plain[] = "host all alice all reject\nhost all all all md5\n";
	unsigned line;

	(void)state;
	for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
		assert_int_equal(
		    asked(rules, same[i], "10.0.0.1", &line), HBA_OTHER_SPELLING);
		assert_int_equal(line, 1);
		/* other methods tell names apart byte for byte */
		assert_int_equal(asked(plain, same[i], "10.0.0.1", &line), HBA_MATCH);
		assert_int_equal(line, 2);
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_int_equal(asked(rules, others[i], "10.0.0.1", &line), HBA_MATCH);
		assert_int_equal(line, 3);
	}
	assert_int_equal(asked(rules, "alice", "10.0.0.1", &line), HBA_MATCH);
	assert_int_equal(line, 1);
	/* only where the earlier rule would match */
	assert_int_equal(asked(rules, "BOB", "10.0.0.1", &line), HBA_OTHER_SPELLING);
	assert_int_equal(line, 2);
	assert_int_equal(asked(rules, "BOB", "10.0.0.2", &line), HBA_MATCH);
	assert_int_equal(line, 3);
}

static void test_other_spelling_from_a_named_host(void **state)
{
	unsigned line;

	(void)state;
	assert_int_equal(asked("host all alice some.host reject\n"
			       "host all all all pam\n",
			     "ALICE", "10.0.0.1", &line),
	    HBA_NEEDS_NAME);
	assert_int_equal(line, 1);
}

/* The options are kept as they are written, but are not part of the rule's text: they
 * may contain a password. */
static void test_ldap_options(void **state)
{
	static const char options[] =
	    "ldapserver=\"a b\", ldapbindpasswd=\"x #y\"\"z\" "
	    "ldapbinddn=a#b ldapbasedn=x";
	struct hba_peer p = peer_at("10.0.0.1");
	const struct hba_rule *rule;
	char line[256];

	(void)state;
	snprintf(line, sizeof(line), "host all all all ldap \t %s \t\r\n", options);
	struct hba *hba = parse(line);
	assert_int_equal(hba_match(hba, &p, &rule), HBA_MATCH);
	assert_string_equal(rule->options, options);
	assert_string_equal(rule->text, "host all all all ldap");
	hba_free(&hba);
}

/* Skipped options could switch StartTLS off, or keep every user from logging in. */
static void test_bad_ldap_options(void **state)
{
	static const char unread[] =
	    "LDAP options cannot be read from character %d on; write key=value or "
	    "key=\"value\", without blanks around the value";
	static const struct {
		const char *options, *why;
		int at;
	} cases[] = {
	    {"", "LDAP needs one of ldapbasedn, ldapprefix and ldapsuffix", 0},
	    {"# ldapserver=h ldapsuffix=x",
		"LDAP needs one of ldapbasedn, ldapprefix and ldapsuffix", 0},
	    {"ldapserver=h ldapsuffix=x stray ldaptls=1", unread, 27},
	    {"ldapserver=h ldapsuffix=x ldaptls= 1", unread, 27},
	    {"ldapserver=h ldapsuffix=x ldaptls=yes",
		"invalid LDAP option: ldaptls=\"yes\"; write 0 or 1", 0},
	    {"ldapserver=h ldapsuffix=x ldapport=0", "invalid LDAP port number: \"0\"",
		0},
	    {"ldapserver=h ldapsuffix=x map=ok", "invalid LDAP option: \"map\"", 0},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		char line[128], text[200], why[256];
		snprintf(line, sizeof(line), "local all all ldap %s", cases[i].options);
		snprintf(text, sizeof(text), unread, cases[i].at);
		snprintf(why, sizeof(why), "hba line 1: %s",
		    cases[i].at ? text : cases[i].why);
		expect_refused(line, why);
	}
}

/* ---- lines ---- */

static void test_lines(void **state)
{
	struct hba *hba = parse("# comment\n"
				"\n"
				" \t\r\n"
				"local a all trust\r\n"
				"local b \\\n"
				"  all \\\r\n"
				"trust\n"
				"local c all trust#comment \\\n"
				"local after all trust\n"
				"# comment \\\n"
				"local z all trust\n"
				"local d all tr\\\n"
				"ust\n"
				"local \"#e\" all \\\n"
				"trust\n"
				"local e all trust\\");
	struct hba_peer p = peer_at(NULL);
	static const unsigned lines[] = {4, 5, 8, 12, 16};

	(void)state;
	assert_int_equal(hba_count(hba), 8);
	for (unsigned i = 0; i < 5; i++) {
		char name[] = {(char)('a' + i), '\0'};
		p.database = name;
		assert_int_equal(line_for(hba, &p), lines[i]);
	}
	/* A comment ends with its line. */
	p.database = "after";
	assert_int_equal(line_for(hba, &p), 9);
	p.database = "z";
	assert_int_equal(line_for(hba, &p), 11);
	p.database = "#e";
	assert_int_equal(line_for(hba, &p), 14);
	p.database = "never";
	assert_int_equal(line_for(hba, &p), 0);
	hba_free(&hba);
	assert_null(hba);
	hba_free(&hba);
	hba = parse("");
	assert_int_equal(line_for(hba, &p), 0);
	hba_free(&hba);
}

/* What stands behind a NUL byte must not get lost: it may be who is rejected. */
static void test_nul(void **state)
{
	static const char text[] = "local all all trust\n"
				   "local all bad reject\0\n";
	struct notes n = {.has_place = true};

	(void)state;
	buf_init(&n.text, 0);
	assert_null(hba_parse("f", text, sizeof(text) - 1, NULL, take_note, &n, NULL));
	assert_string_equal(buf_text(&n.text),
	    "f:2|hba line 2: a NUL byte in f:2; write that line again\n"
	    "f:2|could not parse hba config line 2\n");
	buf_done(&n.text);
}

/* One line that cannot be read refuses the file, and every such line is reported. */
static void test_faults(void **state)
{
	struct notes n = {.has_place = true};

	(void)state;
	buf_init(&n.text, 0);
	assert_null(parse_noting("nonsense\n"
				 "host db joe 10.0.0.1/32 reject\n"
				 "host db \\\n joe bad/ md5\n"
				 "host all all all trust\n",
	    &n));
	assert_string_equal(buf_text(&n.text),
	    "hba:1|hba line 1: unknown type\n"
	    "hba:1|could not parse hba config line 1\n"
	    "hba:3|hba line 3: failed to parse address - bad\n"
	    "hba:3|could not parse hba config line 3\n");
	buf_done(&n.text);
}

/* Every line of a good file, broken in turn, refuses the file at its place. */
static void test_every_line_broken(void **state)
{
	static const char *const lines[] = {"local all all reject",
	    "host db joe 10.0.0.1/32 reject", "hostssl all all all cert map=ok",
	    "host all all 10.0.0.0 255.0.0.0 md5",
	    "host all all all ldap ldapserver=h ldapsuffix=x",
	    "host all all all trust"};

	(void)state;
	for (size_t broken = 0; broken <= COUNT(lines); broken++) {
		struct notes n = {.has_place = true};
		struct buf text;
		char place[32];
		buf_init(&text, 0);
		buf_init(&n.text, 0);
		for (size_t i = 0; i < COUNT(lines); i++)
			buf_printf(&text, "%s%s\n", i == broken ? "x" : "", lines[i]);
		struct hba *hba = parse_noting(buf_text(&text), &n);
		snprintf(place, sizeof(place), "hba:%zu|hba line %zu: unknown type",
		    broken + 1, broken + 1);
		assert_int_equal(hba != NULL, broken == COUNT(lines));
		if (!hba)
			assert_memory_equal(buf_text(&n.text), place, strlen(place));
		hba_free(&hba);
		buf_done(&n.text);
		buf_done(&text);
	}
}

/* The first rule that matches counts. */
static void test_order(void **state)
{
	struct hba_peer p = peer_at("10.0.0.1");
	const struct hba_rule *rule;
	struct hba *hba = parse("host db joe 10.0.0.1/32 reject\n"
				"host all all all trust\n");

	(void)state;
	assert_int_equal(hba_match(hba, &p, &rule), HBA_MATCH);
	assert_int_equal(rule->method, HBA_REJECT);
	p = peer_at("10.0.0.2");
	assert_int_equal(line_for(hba, &p), 2);
	assert_string_equal(
	    hba_find_method(hba, HBA_TRUST)->text, "host all all all trust");
	assert_null(hba_find_method(hba, HBA_CERT));
	hba_free(&hba);
}

/* A rule may have any length; a note that quotes it is cut. */
static void test_long_names(void **state)
{
	char name[2000], notes[512];
	struct notes n = {0};
	struct buf text;

	(void)state;
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	buf_init(&text, 0);
	buf_init(&n.text, 0);
	buf_printf(&text, "host all all %s/1 trust\n", name);
	assert_null(parse_noting(buf_text(&text), &n));
	snprintf(notes, sizeof(notes),
	    "hba line 1: failed to parse address - %.200s\n"
	    "could not parse hba config line 1\n",
	    name);
	assert_string_equal(buf_text(&n.text), notes);
	buf_clear(&text);
	buf_printf(&text, "local %s all trust\n", name);
	struct hba *hba = parse(buf_text(&text));
	struct hba_peer p = peer_at(NULL);
	p.database = name;
	assert_int_equal(line_for(hba, &p), 1);
	hba_free(&hba);
	buf_done(&n.text);
	buf_done(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_types),
	    cmocka_unit_test(test_names),
	    cmocka_unit_test(test_bad_names),
	    cmocka_unit_test(test_replication),
	    cmocka_unit_test(test_regular_expressions),
	    cmocka_unit_test(test_names_too_long_for_expressions),
	    cmocka_unit_test(test_bad_regular_expressions),
	    cmocka_unit_test(test_methods),
	    cmocka_unit_test(test_bad_methods),
	    cmocka_unit_test(test_gss),
	    cmocka_unit_test(test_oauth_options),
	    cmocka_unit_test(test_maps),
	    cmocka_unit_test(test_other_spellings),
	    cmocka_unit_test(test_other_spelling_from_a_named_host),
	    cmocka_unit_test(test_ldap_options),
	    cmocka_unit_test(test_bad_ldap_options),
	    cmocka_unit_test(test_lines),
	    cmocka_unit_test(test_faults),
	    cmocka_unit_test(test_nul),
	    cmocka_unit_test(test_every_line_broken),
	    cmocka_unit_test(test_order),
	    cmocka_unit_test(test_long_names),
	};

	return cmocka_run_group_tests_name("hba", tests, NULL, NULL);
}
