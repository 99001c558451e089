/*
 * Addresses of HBA rules, numeric and by name.  samehost and samenet read the list of
 * network interfaces each time, because interfaces come and go.  The caller looks up
 * host names.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

#include "auth/hba_rows.h"

static unsigned ip_len(uint16_t family)
{
	return family == AF_INET ? 4 : 16;
}

/* ---- parsing ---- */

static int parse_ip(const char *text, uint16_t *family, uint8_t ip[16])
{
	memset(ip, 0, 16);
	*family = strchr(text, ':') ? AF_INET6 : AF_INET;
	return inet_pton(*family, text, ip) == 1 ? 0 : -1;
}

static int parse_bits(const char *text, struct hba_address *a)
{
	unsigned bits = 0, most = 8 * ip_len(a->family);

	if (!*text)
		return -1;
	for (; *text; text++) {
		if (!isdigit((unsigned char)*text))
			return -1;
		bits = bits * 10 + (unsigned)(*text - '0');
		if (bits > most)
			return -1;
	}
	for (unsigned i = 0; i < bits; i++)
		a->mask[i / 8] |= (uint8_t)(0x80 >> i % 8);
	return 0;
}

static int parse_mask(struct hba_address *a, struct rule_file *f, struct err *err)
{
	uint16_t family;

	if (f->tokens.kind != TOKEN_WORD)
		return rule_file_error(f, err, "did not find mask");
	const char *text = tokenizer_text(&f->tokens);
	if (parse_ip(text, &family, a->mask) < 0 || family != a->family)
		return rule_file_error(f, err, "failed to parse mask: %.200s", text);
	tokenizer_next(&f->tokens);
	return 0;
}

/* Warns about an address with bits outside its mask.  As in PgBouncer, such a rule is
 * kept and matches nobody; but a `reject` matches, as in PostgreSQL, because it must
 * never let people in by mistake. */
static void check_mask(
    const struct hba_address *a, const struct rule_reader *r, const struct rule_file *f)
{
	char ip[INET6_ADDRSTRLEN], mask[INET6_ADDRSTRLEN];
	struct err text;
	uint8_t outside = 0;

	for (unsigned i = 0; i < 16; i++)
		outside |= a->ip[i] & (uint8_t)~a->mask[i];
	if (!outside)
		return;
	err_set(&text, "address does not match mask in %.200s line #%u: %s / %s",
	    f->path, f->line, inet_ntop(a->family, a->ip, ip, sizeof(ip)),
	    inet_ntop(a->family, a->mask, mask, sizeof(mask)));
	rule_file_warn(r, f, text.text);
}

/* A host name consists of letters, digits, hyphens and underscores between single
 * dots.  Its last part is not a number, so that a mistyped address is not taken for a
 * name. */
static bool is_host_name(const char *name)
{
	const char *last = strrchr(name, '.');

	last = last ? last + 1 : name;
	if (strspn(last, "0123456789") == strlen(last) || strstr(name, ".."))
		return false;
	for (; *name; name++) {
		if (!isalnum((unsigned char)*name) && !strchr("-_.", *name))
			return false;
	}
	return true;
}

static int parse_address_word(struct hba_address *a, char *text,
    const struct rule_reader *r, struct rule_file *f, struct err *err)
{
	if (strcmp(text, "all") == 0)
		a->kind = HBA_ANYWHERE;
	else if (strcmp(text, "samehost") == 0)
		a->kind = HBA_SAME_HOST;
	else if (strcmp(text, "samenet") == 0)
		a->kind = HBA_SAME_NET;
	else if (is_host_name(text)) {
		a->kind = text[0] == '.' ? HBA_DOMAIN : HBA_HOST;
		a->name = arena_strdup(r->arena, text);
	} else {
		char *slash = strchr(text, '/');
		if (slash)
			*slash = '\0';
		if (parse_ip(text, &a->family, a->ip) < 0)
			return rule_file_error(
			    f, err, "failed to parse address - %.200s", text);
		a->kind = HBA_NETWORK;
		tokenizer_next(&f->tokens);
		if (slash && parse_bits(slash + 1, a) < 0)
			return rule_file_error(f, err, "invalid mask");
		if (!slash && parse_mask(a, f, err) < 0)
			return -1;
		check_mask(a, r, f);
		return 0;
	}
	tokenizer_next(&f->tokens);
	return 0;
}

int hba_address_parse(struct hba_address *a, const struct rule_reader *r,
    struct rule_file *f, struct err *err)
{
	if (f->tokens.kind == TOKEN_END)
		return rule_file_error(f, err, "did not find address");
	if (f->tokens.kind != TOKEN_WORD)
		return rule_file_error(f, err,
		    "did not find address: '%.200s' is quoted or misplaced",
		    tokenizer_text(&f->tokens));
	char *text = mem_strdup(tokenizer_text(&f->tokens));
	int status = parse_address_word(a, text, r, f, err);
	mem_free(text);
	return status;
}

/* ---- matching ---- */

/* Returns the peer's address in this family.  A socket for both families reports IPv4
 * peers as ::ffff:a.b.c.d. */
static const uint8_t *ip_as(uint16_t family, const struct hba_peer *peer)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (peer->family == family)
		return peer->ip;
	if (family == AF_INET && peer->family == AF_INET6 &&
	    memcmp(peer->ip, mapped, sizeof(mapped)) == 0)
		return peer->ip + sizeof(mapped);
	return NULL;
}

/* Compares the bits of the mask.  An ip with bits outside its mask matches nobody. */
static bool is_inside(uint16_t family, const uint8_t *ip, const uint8_t *mask,
    const struct hba_peer *peer)
{
	const uint8_t *peer_ip = ip_as(family, peer);

	for (unsigned i = 0; peer_ip && i < ip_len(family); i++) {
		if ((peer_ip[i] & mask[i]) != ip[i])
			return false;
	}
	return peer_ip;
}

static const uint8_t *sockaddr_ip(const struct sockaddr *sa)
{
	if (sa && sa->sa_family == AF_INET)
		return (const uint8_t *)&((const struct sockaddr_in *)sa)->sin_addr;
	if (sa && sa->sa_family == AF_INET6)
		return (const uint8_t *)&((const struct sockaddr_in6 *)sa)->sin6_addr;
	return NULL;
}

static bool is_on_interface(
    const struct ifaddrs *i, bool is_whole_net, const struct hba_peer *peer)
{
	const uint8_t *ip = sockaddr_ip(i->ifa_addr);
	const uint8_t *net_mask = sockaddr_ip(i->ifa_netmask);
	uint8_t net[16], mask[16];

	if (!ip || (is_whole_net && !net_mask))
		return false;
	memset(mask, 0xff, sizeof(mask));
	for (unsigned at = 0; at < ip_len(i->ifa_addr->sa_family); at++) {
		if (is_whole_net)
			mask[at] = net_mask[at];
		net[at] = ip[at] & mask[at];
	}
	return is_inside(i->ifa_addr->sa_family, net, mask, peer);
}

static bool is_on_our_interfaces(bool is_whole_net, const struct hba_peer *peer)
{
	struct ifaddrs *all;
	bool is_found = false;

	if (getifaddrs(&all) < 0)
		return false;
	for (const struct ifaddrs *i = all; i && !is_found; i = i->ifa_next)
		is_found = is_on_interface(i, is_whole_net, peer);
	freeifaddrs(all);
	return is_found;
}

void hba_address_apply_mask(struct hba_address *a)
{
	if (a->kind != HBA_NETWORK)
		return;
	for (unsigned i = 0; i < sizeof(a->ip); i++)
		a->ip[i] &= a->mask[i];
}

bool hba_address_is_name(const struct hba_address *a)
{
	return a->kind == HBA_HOST || a->kind == HBA_DOMAIN;
}

bool hba_address_has(const struct hba_address *a, const struct hba_peer *peer)
{
	switch (a->kind) {
	case HBA_ANYWHERE:
		return true;
	case HBA_NETWORK:
		return is_inside(a->family, a->ip, a->mask, peer);
	case HBA_SAME_HOST:
	case HBA_SAME_NET:
		return is_on_our_interfaces(a->kind == HBA_SAME_NET, peer);
	case HBA_HOST:
	case HBA_DOMAIN:
		break;
	}
	if (peer->name != HBA_NAME_KNOWN)
		return false;
	size_t len = strlen(peer->host_name), suffix_len = strlen(a->name);
	if (a->kind == HBA_HOST || len <= suffix_len)
		return text_equal_nocase(a->name, peer->host_name);
	return text_equal_nocase(a->name, peer->host_name + len - suffix_len);
}
