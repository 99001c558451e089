/*
 * Certificates for tests, made as they are wanted, in a scratch folder that goes with
 * certs_done.  Files are NAME.crt, NAME.key and NAME.crl.
 */
#ifndef TEST_NET_CERTS_H
#define TEST_NET_CERTS_H

#include <stdbool.h>

enum cert_key { CERT_EC, CERT_RSA, CERT_ED25519 };

struct cert_wish {
	const char *issuer; /* NAME of another; NULL: signs itself */
	const char *cn;     /* NULL: no common name */
	int cn_len;         /* 0: up to its NUL */
	const char *sans;   /* "DNS:a.b,IP:1.2.3.4"; NULL: none */
	const char *hash;   /* NULL: sha256 */
	enum cert_key key;
	bool is_ca, is_expired;
};

/* Where the files are; of this process. */
const char *certs_dir(void);
void certs_done(void);
void certs_make(const char *name, const struct cert_wish *wish);
/* issuer.crl with the named certificate revoked; NULL: none is. */
void certs_revoke(const char *issuer, const char *name);
/* DIR/file, until the 32nd call from now. */
const char *certs_path(const char *file);
/* As the file holds it, in the form that is hashed; the caller frees with mem_free. */
unsigned char *certs_der(const char *name, int *len);

#endif
