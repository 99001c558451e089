#include "wire/proxy_header.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

enum {
	LINE_MAX_LEN = 107, /* with its CR LF */
	SIGNATURE_LEN = 12,
	FIXED_LEN = 16,
	COMMAND_LOCAL = 0,
	COMMAND_PROXY = 1,
	FAMILY_INET = 0x1,
	FAMILY_INET6 = 0x2,
};

static const uint8_t signature[SIGNATURE_LEN] = {
    '\r', '\n', '\r', '\n', 0, '\r', '\n', 'Q', 'U', 'I', 'T', '\n'};
static const char line_word[] = "PROXY ";

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

static bool is_prefix(
    const uint8_t *bytes, size_t len, const void *whole, size_t whole_len)
{
	return memcmp(bytes, whole, smaller(len, whole_len)) == 0;
}

bool proxy_header_begins(const uint8_t *bytes, size_t len)
{
	return is_prefix(bytes, len, signature, sizeof(signature)) ||
	       is_prefix(bytes, len, line_word, sizeof(line_word) - 1);
}

/* ---- version 1 ---- */

/* Returns the next field of the line without the blank behind it; NULL at the end. */
static char *next_field(char **at)
{
	char *field = *at;

	if (!field || !*field)
		return NULL;
	*at = strchr(field, ' ');
	if (*at)
		*(*at)++ = '\0';
	return *field ? field : NULL;
}

/* A port is a decimal number without leading zeros. */
static int read_port(const char *text, uint16_t *port)
{
	unsigned value = 0;

	if (!text || (text[0] == '0' && text[1]))
		return -1;
	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return -1;
		value = value * 10 + (unsigned)(*text - '0');
		if (value > UINT16_MAX)
			return -1;
	}
	*port = (uint16_t)value;
	return 0;
}

static int read_addresses(char *at, struct proxy_header *header)
{
	const char *source = next_field(&at), *target = next_field(&at);
	const char *source_port = next_field(&at), *target_port = next_field(&at);
	uint8_t ignored[16];
	uint16_t port;

	if (!source || !target || !target_port || at ||
	    inet_pton(header->family, source, header->ip) != 1 ||
	    inet_pton(header->family, target, ignored) != 1 ||
	    read_port(source_port, &header->port) < 0 ||
	    read_port(target_port, &port) < 0)
		return -1;
	return 0;
}

/* line is the part between PROXY and CR LF. */
static int read_line(char *line, struct proxy_header *header)
{
	char *at = line;
	const char *kind = next_field(&at);

	if (!kind)
		return -1;
	if (strcmp(kind, "UNKNOWN") == 0)
		return 0; /* the rest of the line is to be ignored */
	header->family = strcmp(kind, "TCP4") == 0   ? AF_INET
			 : strcmp(kind, "TCP6") == 0 ? AF_INET6
						     : AF_UNSPEC;
	return header->family == AF_UNSPEC ? -1 : read_addresses(at, header);
}

static enum proxy_header_result read_version_1(
    const uint8_t *bytes, size_t len, struct proxy_header *header)
{
	const size_t word_len = sizeof(line_word) - 1;
	const uint8_t *end = memchr(bytes, '\n', smaller(len, LINE_MAX_LEN));
	char line[LINE_MAX_LEN + 1];
	size_t line_len;

	if (!end)
		return len < LINE_MAX_LEN ? PROXY_HEADER_PARTIAL : PROXY_HEADER_BROKEN;
	header->size = (size_t)(end - bytes) + 1;
	if (header->size < word_len + 2 || end[-1] != '\r')
		return PROXY_HEADER_BROKEN;
	line_len = header->size - 2 - word_len;
	memcpy(line, bytes + word_len, line_len);
	line[line_len] = '\0';
	if (strlen(line) != line_len || read_line(line, header) < 0)
		return PROXY_HEADER_BROKEN;
	return PROXY_HEADER_WHOLE;
}

/* ---- version 2 ---- */

static uint16_t get_u16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

/* The block has source address, target address, source port, target port. */
static int read_block(
    const uint8_t *block, size_t len, size_t ip_len, struct proxy_header *header)
{
	if (len < 2 * ip_len + 2 * sizeof(uint16_t))
		return -1;
	header->family = ip_len == 4 ? AF_INET : AF_INET6;
	memcpy(header->ip, block, ip_len);
	header->port = get_u16(block + 2 * ip_len);
	return 0;
}

static enum proxy_header_result read_version_2(
    const uint8_t *bytes, size_t len, struct proxy_header *header)
{
	size_t block_len;
	int rc = 0;

	if (len < FIXED_LEN)
		return PROXY_HEADER_PARTIAL;
	block_len = get_u16(bytes + 14);
	header->size = FIXED_LEN + block_len;
	if (bytes[12] >> 4 != 2 || (bytes[12] & 0xf) > COMMAND_PROXY ||
	    header->size > PROXY_HEADER_MAX)
		return PROXY_HEADER_BROKEN;
	if (len < header->size)
		return PROXY_HEADER_PARTIAL;
	if ((bytes[12] & 0xf) == COMMAND_LOCAL)
		return PROXY_HEADER_WHOLE;
	if (bytes[13] >> 4 == FAMILY_INET)
		rc = read_block(bytes + FIXED_LEN, block_len, 4, header);
	else if (bytes[13] >> 4 == FAMILY_INET6)
		rc = read_block(bytes + FIXED_LEN, block_len, 16, header);
	return rc < 0 ? PROXY_HEADER_BROKEN : PROXY_HEADER_WHOLE;
}

enum proxy_header_result proxy_header_read(
    const uint8_t *bytes, size_t len, struct proxy_header *header)
{
	memset(header, 0, sizeof(*header));
	header->family = AF_UNSPEC;
	if (!proxy_header_begins(bytes, len))
		return PROXY_HEADER_BROKEN;
	if (len < sizeof(line_word) - 1)
		return PROXY_HEADER_PARTIAL;
	if (bytes[0] == (uint8_t)line_word[0])
		return read_version_1(bytes, len, header);
	return len < SIGNATURE_LEN ? PROXY_HEADER_PARTIAL
				   : read_version_2(bytes, len, header);
}
