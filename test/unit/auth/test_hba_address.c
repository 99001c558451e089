/* HBA rules by address: networks, masks, own interfaces, host names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hba_asking.h"

/* ---- addresses ---- */

static void test_networks(void **state)
{
	static const struct {
		const char *address, *ip;
		bool is_in;
	} cases[] = {
	    {"all", "1.2.3.4", true},
	    {"all", "::1", true},
	    {"10.0.0.0/8", "10.255.3.4", true},
	    {"10.0.0.0/8", "11.0.0.0", false},
	    {"10.0.0.0/08", "10.0.0.1", true},
	    {"10.1.2.3/32", "10.1.2.3", true},
	    {"10.1.2.3/32", "10.1.2.2", false},
	    {"10.1.2.2/31", "10.1.2.3", true},
	    {"10.1.2.2/31", "10.1.2.4", false},
	    {"0.0.0.0/0", "255.1.2.3", true},
	    {"0.0.0.0/0", "::1", false},
	    {"::/0", "1.2.3.4", false},
	    {"::/0", "fe80::1", true},
	    {"::1/128", "::1", true},
	    {"::1/128", "::2", false},
	    {"fe80::/10", "febf::1", true},
	    {"fe80::/10", "fec0::1", false},
	    {"10.0.0.0 255.0.0.0", "10.9.9.9", true},
	    {"10.0.0.0 255.0.0.0", "12.9.9.9", false},
	    {"1.0.3.0 255.0.255.0", "1.99.3.99", true},
	    {"1.0.3.0 255.0.255.0", "1.99.4.99", false},
	    {"2001:db8:: ffff:ffff::", "2001:db8:1::5", true},
	    {"2001:db8:: ffff:ffff::", "2001:db9:1::5", false},
	    {"10.0.0.0/8", "::ffff:10.1.2.3", true},
	    {"10.0.0.0/8", "::ffff:11.1.2.3", false},
	    {"10.0.0.0/8", "::10.1.2.3", false},
	    {"::ffff:0:0/96", "::ffff:10.1.2.3", true},
	    {"::ffff:0:0/96", "10.1.2.3", false},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		char rule[128];
		snprintf(rule, sizeof(rule), "host all all %s trust", cases[i].address);
		if (is_address_in(rule, cases[i].ip) != cases[i].is_in)
			fail_msg("%s: %s", rule, cases[i].ip);
	}
}

static void test_mismatched_masks(void **state)
{
	static const char text[] = "host all all 1.2.3.4/24 trust\n"
				   "host all all fe80::1/64 trust\n"
				   "host all all 1.2.3.4 255.255.0.0 trust\n";
	struct hba_peer p = peer_at("1.2.3.4");
	struct notes n = {0};

	(void)state;
	buf_init(&n.text, 0);
	struct hba *hba = parse_noting(text, &n);
	assert_string_equal(buf_text(&n.text),
	    "address does not match mask in hba line #1: 1.2.3.4 / 255.255.255.0\n"
	    "address does not match mask in hba line #2: fe80::1 / "
	    "ffff:ffff:ffff:ffff::\n"
	    "address does not match mask in hba line #3: 1.2.3.4 / 255.255.0.0\n");
	assert_int_equal(hba_count(hba), 3);
	assert_int_equal(line_for(hba, &p), 0);
	p = peer_at("fe80::1");
	assert_int_equal(line_for(hba, &p), 0);
	hba_free(&hba);
	buf_done(&n.text);
}

/* A `reject` whose address has host bits still matches, as in PostgreSQL. */
static void test_reject_with_host_bits(void **state)
{
	static const char text[] = "host all all 1.2.3.4/24 reject\n"
				   "host all all fe80::1/64 reject\n"
				   "host all all 10.1.2.3 255.255.0.0 reject\n"
				   "local all all reject\n"
				   "host all all all trust\n";
	static const struct {
		const char *ip;
		unsigned line;
	} cases[] = {{"1.2.3.9", 1}, {"1.2.3.4", 1}, {"1.2.4.4", 5}, {"fe80::2", 2},
	    {"fe81::1", 5}, {"10.1.9.9", 3}, {"10.2.2.3", 5}, {NULL, 4}};
	struct notes n = {0};

	(void)state;
	buf_init(&n.text, 0);
	struct hba *hba = parse_noting(text, &n);
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct hba_peer p = peer_at(cases[i].ip);
		assert_int_equal(line_for(hba, &p), cases[i].line);
	}
	/* The mistake is reported all the same. */
	assert_non_null(strstr(buf_text(&n.text), "address does not match mask"));
	hba_free(&hba);
	buf_done(&n.text);
}

static void test_bad_addresses(void **state)
{
	static const struct {
		const char *line, *why;
	} cases[] = {
	    {"host all all", "hba line 1: did not find address"},
	    {"host all all \"all\" trust",
		"hba line 1: did not find address: 'all' is quoted or misplaced"},
	    {"host all all , trust", "hba line 1: did not find address"},
	    {"host all all trust",
		"hba line 1: did not find address: trust stands in its place"},
	    {"host all all cert map=m",
		"hba line 1: did not find address: cert stands in its place"},
	    {"host all all somewhere", "hba line 1: unsupported method: buf="},
	    {"host all all trust md6", "hba line 1: unsupported method: buf=md6"},
	    {"host all all 1.2.3.4", "hba line 1: did not find mask"},
	    {"host all all 1.2.3.4 trust", "hba line 1: failed to parse mask: trust"},
	    {"host all all ::1 trust", "hba line 1: failed to parse mask: trust"},
	    {"host all all 1.2.3.4 ffff:: trust",
		"hba line 1: failed to parse mask: ffff::"},
	    {"host all all 1.2.3.4/33 trust", "hba line 1: invalid mask"},
	    {"host all all ::1/129 trust", "hba line 1: invalid mask"},
	    {"host all all 1.2.3.4/ trust", "hba line 1: invalid mask"},
	    {"host all all 1.2.3.4/-1 trust", "hba line 1: invalid mask"},
	    {"host all all 1.2.3.4/24x trust", "hba line 1: invalid mask"},
	    {"host all all 1.2.3.4/99999999999999999999 trust",
		"hba line 1: invalid mask"},
	    {"host all all 1.2.3/24 trust",
		"hba line 1: failed to parse address - 1.2.3"},
	    {"host all all 1.2.3.400 trust",
		"hba line 1: failed to parse address - 1.2.3.400"},
	    {"host all all fe80::1%lo/64 trust",
		"hba line 1: failed to parse address - fe80::1%lo"},
	    {"host all all example.com/24 trust",
		"hba line 1: failed to parse address - example.com"},
	    {"host all all a..b trust", "hba line 1: failed to parse address - a..b"},
	    {"host all all a. trust", "hba line 1: failed to parse address - a."},
	    {"host all all . trust", "hba line 1: failed to parse address - ."},
	    {"host all all *.com trust", "hba line 1: failed to parse address - *.com"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		expect_refused(cases[i].line, cases[i].why);
}

/* Every machine has a loopback interface with 127.0.0.1/8. */
static void test_own_addresses(void **state)
{
	(void)state;
	assert_true(is_address_in("host all all samehost trust", "127.0.0.1"));
	assert_true(is_address_in("host all all samehost trust", "::ffff:127.0.0.1"));
	assert_false(is_address_in("host all all samehost trust", "127.9.9.9"));
	assert_false(is_address_in("host all all samehost trust", "240.1.2.3"));
	assert_true(is_address_in("host all all samenet trust", "127.0.0.1"));
	assert_true(is_address_in("host all all samenet trust", "127.9.9.9"));
	assert_false(is_address_in("host all all samenet trust", "240.1.2.3"));
	assert_false(is_address_in("host all all samenet trust", "::2"));
}

static void test_host_names(void **state)
{
	static const struct {
		const char *address, *name;
		bool is_in;
	} cases[] = {
	    {"db.example.com", "db.example.com", true},
	    {"db.example.com", "DB.Example.COM", true},
	    {"db.example.com", "xdb.example.com", false},
	    {"db.example.com", "db.example.co", false},
	    {".example.com", "db.example.com", true},
	    {".example.com", "a.b.EXAMPLE.com", true},
	    {".example.com", "example.com", false},
	    {".example.com", "xexample.com", false},
	    {".example.com", "com", false},
	    {"my_host-1", "my_host-1", true},
	    {"10.example", "10.example", true},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct hba_peer p = peer_at("192.0.2.1");
		const struct hba_rule *rule;
		char line[128];
		snprintf(line, sizeof(line), "host all all %s trust", cases[i].address);
		struct hba *hba = parse(line);
		assert_int_equal(hba_match(hba, &p, &rule), HBA_NEEDS_NAME);
		assert_int_equal(rule->line, 1);
		p.name = HBA_NAME_NONE;
		assert_int_equal(line_for(hba, &p), 0);
		p.name = HBA_NAME_KNOWN;
		p.host_name = cases[i].name;
		assert_int_equal(line_for(hba, &p), cases[i].is_in);
		hba_free(&hba);
	}
}

/* The host name is asked for only when no earlier rule decides. */
static void test_name_is_needed_late(void **state)
{
	struct hba *hba = parse("host db joe 10.0.0.0/8 trust\n"
				"host db ann good.example md5\n"
				"hostssl db joe good.example md5\n"
				"host db joe good.example peer\n"
				"host db joe all reject\n");
	struct hba_peer p = peer_at("10.0.0.1");
	const struct hba_rule *rule;

	(void)state;
	assert_int_equal(line_for(hba, &p), 1);
	p = peer_at("11.0.0.1");
	assert_int_equal(hba_match(hba, &p, &rule), HBA_NEEDS_NAME);
	assert_int_equal(rule->line, 4);
	p.name = HBA_NAME_NONE;
	assert_int_equal(line_for(hba, &p), 5);
	p.name = HBA_NAME_KNOWN;
	p.host_name = "good.example";
	assert_int_equal(line_for(hba, &p), 4);
	p.is_tls = true;
	assert_int_equal(line_for(hba, &p), 3);
	hba_free(&hba);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_networks),
	    cmocka_unit_test(test_mismatched_masks),
	    cmocka_unit_test(test_reject_with_host_bits),
	    cmocka_unit_test(test_bad_addresses),
	    cmocka_unit_test(test_own_addresses),
	    cmocka_unit_test(test_host_names),
	    cmocka_unit_test(test_name_is_needed_late),
	};

	return cmocka_run_group_tests_name("hba_address", tests, NULL, NULL);
}
