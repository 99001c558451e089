/*
 * Base64 as in RFC 4648 section 4, with padding and without line breaks.  Decoding is
 * strict: only the text that an encoder produces is accepted.
 */
#ifndef AUTH_BASE64_H
#define AUTH_BASE64_H

#include <stddef.h>
#include <stdint.h>

/* Number of characters for len bytes, without the NUL. */
#define BASE64_LEN(len) (((size_t)(len) + 2) / 3 * 4)

/* out gets BASE64_LEN(len) characters and a NUL. */
void base64_encode(const uint8_t *bytes, size_t len, char *out);
/* Decodes `len` characters into out, which has room for `size` bytes; *out_len gets
 * their number.  -1: the text is not canonical base64 or does not fit. */
int base64_decode(
    const char *text, size_t len, uint8_t *out, size_t size, size_t *out_len);
/* The same for the alphabet of URLs without padding, RFC 4648 section 5. */
int base64_decode_url(
    const char *text, size_t len, uint8_t *out, size_t size, size_t *out_len);

#endif
