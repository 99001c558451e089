/*
 * Certificates for tests, made on demand, in a temporary folder that certs_done
 * removes.  Files are NAME.crt, NAME.key and NAME.crl.
 */
#ifndef TEST_NET_CERTS_H
#define TEST_NET_CERTS_H

#include <stdbool.h>

enum cert_key { CERT_EC, CERT_RSA, CERT_ED25519 };

struct cert_wish {
	const char *issuer; /* NAME of the issuer; NULL: self-signed */
	const char *cn;     /* the common name; NULL: none */
	int cn_len;         /* 0: up to the NUL */
	const char *sans;   /* "DNS:a.b,IP:1.2.3.4"; NULL: none */
	const char *hash;   /* NULL: sha256 */
	enum cert_key key;
	bool is_ca, is_expired;
};

/* The folder of the files, one per process. */
const char *certs_dir(void);
void certs_done(void);
void certs_make(const char *name, const struct cert_wish *wish);
/* Writes issuer.crl with the named certificate revoked; NULL: none is. */
void certs_revoke(const char *issuer, const char *name);
/* DIR/file; valid until the 32nd call from now. */
const char *certs_path(const char *file);
/* The certificate in DER form, which is hashed; the caller frees it with mem_free. */
unsigned char *certs_der(const char *name, int *len);

#endif
