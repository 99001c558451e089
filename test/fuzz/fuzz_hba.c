/* links: auth base */
/*
 * Any bytes as an HBA file.  A fault refuses the whole file.  Otherwise every rule that
 * fits is complete and lies in its file; once the host name is known no rule asks for
 * it; a rule's own text, parsed again, gives one rule that fits too.  Files named in
 * the text do not exist; the target skips inputs that could name a file outside, or
 * that cost the C library's regcomp much memory.
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "auth/hba.h"
#include "auth/ident.h"
#include "base/buf.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_note(
    void *ctx, enum diagnostic kind, const char *where, const char *text)
{
	*(int *)ctx += kind == DIAGNOSTIC_ERROR;
	if (strncmp(where, "/nowhere/f:", 11) != 0 || !text[0])
		abort();
}

static int is_too_costly(const char *text)
{
	size_t parentheses = 0;

	for (const char *at = text; *at; at++)
		parentheses += *at == '(';
	return parentheses > 8 || strchr(text, '{') || strlen(text) > 4096;
}

static void check_again(
    const struct hba_rule *rule, const struct ident *ident, const struct hba_peer *peer)
{
	const struct hba_rule *again;
	struct err err;
	struct buf text;
	int faults = 0;

	buf_init(&text, 0);
	buf_printf(&text, "%s %s", rule->text, rule->options ? rule->options : "");
	struct hba *hba = hba_parse(
	    "/nowhere/f", buf_text(&text), text.len, ident, check_note, &faults, &err);
	buf_done(&text);

	if (faults || hba_count(hba) != 1 ||
	    hba_match(hba, peer, &again) != HBA_MATCH ||
	    again->method != rule->method || strcmp(again->text, rule->text) != 0)
		abort();
	hba_free(&hba);
}

static void ask(const struct hba *hba, const struct ident *ident, struct hba_peer *peer)
{
	const struct hba_rule *rule;
	enum hba_result result = hba_match(hba, peer, &rule);

	if ((result == HBA_NO_MATCH) != !rule)
		abort();
	if (result == HBA_NEEDS_NAME) {
		peer->name = HBA_NAME_KNOWN;
		peer->host_name = "peer.example.com";
		result = hba_match(hba, peer, &rule);
		if (result == HBA_NEEDS_NAME)
			abort();
	}
	if (result != HBA_MATCH)
		return;
	if (!rule->line || strcmp(rule->file, "/nowhere/f") != 0 ||
	    !hba_method_name(rule->method) ||
	    (rule->options != NULL) != (rule->method == HBA_LDAP))
		abort();
	check_again(rule, ident, peer);
}

static void ask_all(const struct hba *hba, const struct ident *ident)
{
	static const char *const ips[] = {NULL, "10.1.2.3", "127.0.0.1", "::1"};

	for (unsigned i = 0; i < 4 * 3 * 2; i++) {
		struct hba_peer peer = {
		    .database = i % 2 ? "joe" : "db", .user = "joe"};
		const char *ip = ips[i / 6];
		peer.is_unix = !ip;
		peer.is_tls = i % 2;
		peer.replication = (enum hba_replication)(i / 2 % 3);
		peer.family = ip && strchr(ip, ':') ? AF_INET6 : AF_INET;
		if (ip && inet_pton(peer.family, ip, peer.ip) != 1)
			abort();
		ask(hba, ident, &peer);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const char maps[] = "m joe all\n";
	char *text = mem_alloc(len + 1);
	struct err err;
	int faults = 0;

	memcpy(text, data, len);
	text[len] = '\0';
	if (!strstr(text, "include") && !strchr(text, '@') && !is_too_costly(text)) {
		struct ident *ident = ident_parse(
		    "/nowhere/f", maps, strlen(maps), check_note, &faults, &err);
		struct hba *hba = hba_parse(
		    "/nowhere/f", text, len, ident, check_note, &faults, &err);
		if (!hba != (faults > 0))
			abort();
		if (hba)
			ask_all(hba, ident);
		hba_free(&hba);
		ident_free(&ident);
	}
	mem_free(text);
	return 0;
}
