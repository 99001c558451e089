/*
 * Reads the header in which a load balancer tells the address of the client that it
 * connects for (PROXY protocol, versions 1 and 2).  It comes before everything else,
 * also before TLS.
 */
#ifndef WIRE_PROXY_HEADER_H
#define WIRE_PROXY_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest header that is accepted, including the extensions of version 2. */
enum { PROXY_HEADER_MAX = 4096 };

enum proxy_header_result {
	PROXY_HEADER_PARTIAL, /* incomplete: more bytes are needed */
	PROXY_HEADER_WHOLE,
	PROXY_HEADER_BROKEN, /* malformed, or something else than a header */
};

struct proxy_header {
	size_t size; /* length of the header in bytes */
	/* The client's address.  AF_UNSPEC: the header has none (LOCAL, UNKNOWN, or an
	 * address family that is not supported), so the address of the connection
	 * counts. */
	uint16_t family;
	uint16_t port;  /* host order */
	uint8_t ip[16]; /* network order; IPv4 in the first four bytes */
};

/* Reads the header at the beginning of `bytes` and ignores what follows it.  `header`
 * may only be used after PROXY_HEADER_WHOLE. */
enum proxy_header_result proxy_header_read(
    const uint8_t *bytes, size_t len, struct proxy_header *header);
/* Whether these can be the first bytes of a header. */
bool proxy_header_begins(const uint8_t *bytes, size_t len);

#endif
