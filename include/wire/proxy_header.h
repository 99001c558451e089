/*
 * The header with which a proxy tells whom it speaks for (PROXY protocol, versions 1
 * and 2).  It comes before everything else, also before TLS.
 */
#ifndef WIRE_PROXY_HEADER_H
#define WIRE_PROXY_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most bytes of a header that are accepted, extensions of version 2 included. */
enum { PROXY_HEADER_MAX = 4096 };

enum proxy_header_result {
	PROXY_HEADER_PARTIAL, /* more bytes are needed */
	PROXY_HEADER_WHOLE,
	PROXY_HEADER_BROKEN, /* it is none, or it is malformed */
};

struct proxy_header {
	size_t size; /* how many bytes it has */
	/* The client's address.  AF_UNSPEC: the header names none (LOCAL, UNKNOWN and
	 * address families that say nothing here); the connection's own peer counts. */
	uint16_t family;
	uint16_t port;  /* host order */
	uint8_t ip[16]; /* network order, IPv4 in the first four */
};

/* Reads the header at the beginning of `bytes`; what follows it is not looked at.  Only
 * after PROXY_HEADER_WHOLE can `header` be used. */
enum proxy_header_result proxy_header_read(
    const uint8_t *bytes, size_t len, struct proxy_header *header);
/* Could these be the first bytes of such a header? */
bool proxy_header_begins(const uint8_t *bytes, size_t len);

#endif
