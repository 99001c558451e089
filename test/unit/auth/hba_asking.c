/* Helpers of the tests of HBA rules. */
#include "hba_asking.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "auth/ident.h"

/* ---- reading ---- */

void take_note(void *ctx, enum diagnostic kind, const char *where, const char *text)
{
	struct notes *n = ctx;

	(void)kind;
	if (n->has_place)
		buf_printf(&n->text, "%s|", where);
	buf_printf(&n->text, "%s\n", text);
}

void no_note(void *ctx, enum diagnostic kind, const char *where, const char *text)
{
	(void)ctx;
	(void)kind;
	fail_msg("unexpected: %s: %s", where, text);
}

static struct ident *some_maps(void)
{
	static const char text[] = "ok a b\n";

	return ident_parse("ident", text, strlen(text), no_note, NULL, NULL);
}

struct hba *parse_noting(const char *text, struct notes *n)
{
	struct ident *ident = some_maps();

	struct hba *hba =
	    hba_parse("hba", text, strlen(text), ident, take_note, n, NULL);
	ident_free(&ident);
	return hba;
}

struct hba *parse(const char *text)
{
	struct ident *ident = some_maps();

	struct hba *hba =
	    hba_parse("hba", text, strlen(text), ident, no_note, NULL, NULL);
	ident_free(&ident);
	return hba;
}

/* ---- asking ---- */

struct hba_peer peer_at(const char *ip)
{
	struct hba_peer p = {.database = "db", .user = "joe"};

	p.is_unix = !ip;
	if (ip) {
		p.family = strchr(ip, ':') ? AF_INET6 : AF_INET;
		assert_int_equal(inet_pton(p.family, ip, p.ip), 1);
	}
	return p;
}

/* Returns the line of the rule that matches, or 0. */
unsigned line_for(const struct hba *hba, const struct hba_peer *p)
{
	const struct hba_rule *rule;
	enum hba_result result = hba_match(hba, p, &rule);

	assert_int_not_equal(result, HBA_NEEDS_NAME);
	assert_int_equal(result == HBA_MATCH, rule != NULL);
	return rule ? rule->line : 0;
}

/* Whether this single rule matches. */
bool is_let_in(const char *rule, const struct hba_peer *p)
{
	struct hba *hba = parse(rule);

	assert_int_equal(hba_count(hba), 1);
	unsigned line = line_for(hba, p);
	hba_free(&hba);
	return line;
}

bool is_address_in(const char *rule, const char *ip)
{
	struct hba_peer p = peer_at(ip);

	return is_let_in(rule, &p);
}

bool is_name_in(const char *rule, const char *database, const char *user)
{
	struct hba_peer p = peer_at(NULL);

	p.database = database;
	p.user = user;
	return is_let_in(rule, &p);
}

/* Expects that a file with this one line is refused with this fault. */
void expect_refused(const char *line, const char *why)
{
	char notes[1024];
	struct notes n = {0};

	snprintf(notes, sizeof(notes), "%s\ncould not parse hba config line 1\n", why);
	buf_init(&n.text, 0);
	struct hba *hba = parse_noting(line, &n);
	assert_string_equal(buf_text(&n.text), notes);
	assert_null(hba);
	buf_done(&n.text);
}
