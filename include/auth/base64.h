/*
 * Base64 of RFC 4648 section 4, padded and without line breaks.  Decoding is strict:
 * only the text that an encoder produces is accepted.
 */
#ifndef AUTH_BASE64_H
#define AUTH_BASE64_H

#include <stddef.h>
#include <stdint.h>

/* Characters needed for len bytes, without NUL. */
#define BASE64_LEN(len) (((size_t)(len) + 2) / 3 * 4)

/* out gets BASE64_LEN(len) characters + NUL. */
void base64_encode(const uint8_t *bytes, size_t len, char *out);
/* Decodes `len` characters into at most `size` bytes; *out_len is how many they are.
 * -1 when the text is not canonical base64 or does not fit. */
int base64_decode(
    const char *text, size_t len, uint8_t *out, size_t size, size_t *out_len);

#endif
