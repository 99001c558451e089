#include "base/networks.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "base/text.h"

/* The longest item: an IPv6 address with its prefix length. */
enum { ITEM_MAX = INET6_ADDRSTRLEN + 4 };

struct network {
	uint16_t family;
	uint8_t ip[16];
	unsigned bits;
};

/* Accepts digits only; text_uint would also accept signs and 0x. */
static int read_bits(const char *text, unsigned most, unsigned *bits)
{
	if (!*text || strspn(text, "0123456789") != strlen(text) || strlen(text) > 3 ||
	    text_uint(*text == '0' && text[1] ? "x" : text, bits) < 0 || *bits > most)
		return -1;
	return 0;
}

static int read_item(const char *item, size_t len, struct network *n)
{
	char text[ITEM_MAX + 1];
	char *slash;

	memset(n, 0, sizeof(*n));
	if (len > ITEM_MAX)
		return -1;
	memcpy(text, item, len);
	text[len] = '\0';
	if (strcmp(text, "unix") == 0) {
		n->family = AF_UNIX;
		return 0;
	}
	slash = strchr(text, '/');
	if (slash)
		*slash = '\0';
	n->family = strchr(text, ':') ? AF_INET6 : AF_INET;
	n->bits = n->family == AF_INET ? 32 : n->family == AF_INET6 ? 128 : 0;
	if (inet_pton(n->family, text, n->ip) != 1)
		return -1;
	return slash ? read_bits(slash + 1, n->bits, &n->bits) : 0;
}

int networks_check(const char *list, struct err *err)
{
	const char *at = list, *item;
	struct network n;
	size_t len;

	while (at && text_list_next(&at, &item, &len))
		if (read_item(item, len, &n) < 0)
			return err_set(err,
			    "\"%.*s\" is no network; write an address, ADDRESS/BITS or "
			    "unix",
			    (int)(len < ITEM_MAX ? len : ITEM_MAX), item);
	return 0;
}

static bool is_inside(const struct network *n, uint16_t family, const uint8_t *ip)
{
	unsigned whole = n->bits / 8, rest = n->bits % 8;

	if (n->family != family)
		return false;
	if (memcmp(n->ip, ip, whole) != 0)
		return false;
	return !rest || (n->ip[whole] ^ ip[whole]) >> (8 - rest) == 0;
}

bool networks_have(const char *list, uint16_t family, const uint8_t ip[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	const char *at = list, *item;
	struct network n;
	size_t len;

	if (family == AF_INET6 && memcmp(ip, mapped, sizeof(mapped)) == 0) {
		family = AF_INET;
		ip += sizeof(mapped);
	}
	while (at && text_list_next(&at, &item, &len))
		if (read_item(item, len, &n) == 0 && is_inside(&n, family, ip))
			return true;
	return false;
}
