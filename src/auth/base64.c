/*
 * Base64.  The decoder accepts the canonical spelling only: with white space, misplaced
 * padding or stray bits at the end, one proof could be written in many ways.
 */
#include "auth/base64.h"

static const char alphabet[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(const uint8_t *bytes, size_t len, char *out)
{
	for (size_t i = 0; i < len; i += 3) {
		size_t left = len - i;
		uint32_t group = (uint32_t)bytes[i] << 16;
		if (left > 1)
			group |= (uint32_t)bytes[i + 1] << 8;
		if (left > 2)
			group |= bytes[i + 2];
		*out++ = alphabet[group >> 18];
		*out++ = alphabet[group >> 12 & 63];
		*out++ = left > 1 ? alphabet[group >> 6 & 63] : '=';
		*out++ = left > 2 ? alphabet[group & 63] : '=';
	}
	*out = '\0';
}

/* last: the two characters behind letters and digits. */
static int digit_value(char c, const char last[2])
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == last[0])
		return 62;
	return c == last[1] ? 63 : -1;
}

static int decode(const char *text, size_t digits, const char last[2], uint8_t *out,
    size_t size, size_t *out_len)
{
	size_t done = 0;
	uint32_t bits = 0;
	unsigned bit_count = 0;

	for (size_t i = 0; i < digits; i++) {
		int value = digit_value(text[i], last);
		if (value < 0)
			return -1;
		bits = bits << 6 | (uint32_t)value;
		bit_count += 6;
		if (bit_count < 8)
			continue;
		if (done == size)
			return -1;
		bit_count -= 8;
		out[done++] = (uint8_t)(bits >> bit_count);
		bits &= (1u << bit_count) - 1;
	}
	*out_len = done;
	return bits == 0 ? 0 : -1;
}

int base64_decode(
    const char *text, size_t len, uint8_t *out, size_t size, size_t *out_len)
{
	size_t digits = len;

	if (len % 4 != 0)
		return -1;
	while (digits > 0 && len - digits < 2 && text[digits - 1] == '=')
		digits--;
	return decode(text, digits, "+/", out, size, out_len);
}

int base64_decode_url(
    const char *text, size_t len, uint8_t *out, size_t size, size_t *out_len)
{
	return len % 4 == 1 ? -1 : decode(text, len, "-_", out, size, out_len);
}
