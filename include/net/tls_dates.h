/*
 * From when until when the certificates in a file are valid.
 */
#ifndef NET_TLS_DATES_H
#define NET_TLS_DATES_H

#include <stdbool.h>
#include <stdint.h>

struct tls_dates {
	int64_t begins_s, ends_s; /* seconds since 1970 */
	char subject[128];        /* of the certificate that ends first or last */
};

/* Reads a PEM file.  A certificate and its chain are valid while all of them are.  Of
 * authorities one is enough, so the file is as valid as the one that ends last.  -1:
 * the file has no certificate that can be read. */
int tls_dates_read(const char *path, bool is_authorities, struct tls_dates *out);

#endif
