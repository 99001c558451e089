/*
 * Certificates for tests; see certs.h.
 */
#include "certs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include "base/mem.h"

static char dir[64];
static char names[64][32];
static int name_count;
static long next_serial = 1000;

const char *certs_dir(void)
{
	if (!*dir) {
		snprintf(dir, sizeof(dir), "/tmp/certs-XXXXXX");
		assert_non_null(mkdtemp(dir));
	}
	return dir;
}

const char *certs_path(const char *file)
{
	static char paths[32][128];
	static int next;
	char *path = paths[next++ % 32];

	snprintf(path, sizeof(paths[0]), "%s/%s", certs_dir(), file);
	return path;
}

static const char *path_of(const char *name, const char *ending)
{
	char file[48];

	snprintf(file, sizeof(file), "%.40s.%s", name, ending);
	return certs_path(file);
}

void certs_done(void)
{
	static const char *const endings[] = {"crt", "key", "crl"};

	for (int i = 0; i < name_count; i++)
		for (int k = 0; k < 3; k++)
			unlink(path_of(names[i], endings[k]));
	if (*dir)
		assert_int_equal(rmdir(dir), 0);
	*dir = '\0';
	name_count = 0;
}

static EVP_PKEY *new_key(enum cert_key kind)
{
	static const int kinds[] = {EVP_PKEY_EC, EVP_PKEY_RSA, EVP_PKEY_ED25519};
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_id(kinds[kind], NULL);
	EVP_PKEY *key = NULL;

	assert_int_equal(EVP_PKEY_keygen_init(ctx), 1);
	if (kind == CERT_EC)
		EVP_PKEY_CTX_set_ec_paramgen_curve_nid(ctx, NID_X9_62_prime256v1);
	else if (kind == CERT_RSA)
		EVP_PKEY_CTX_set_rsa_keygen_bits(ctx, 2048);
	assert_int_equal(EVP_PKEY_keygen(ctx, &key), 1);
	EVP_PKEY_CTX_free(ctx);
	return key;
}

static X509 *read_cert(const char *name)
{
	FILE *f = fopen(path_of(name, "crt"), "r");
	assert_non_null(f);
	X509 *cert = PEM_read_X509(f, NULL, NULL, NULL);
	fclose(f);
	assert_non_null(cert);
	return cert;
}

static EVP_PKEY *read_key(const char *name)
{
	FILE *f = fopen(path_of(name, "key"), "r");
	assert_non_null(f);
	EVP_PKEY *key = PEM_read_PrivateKey(f, NULL, NULL, NULL);
	fclose(f);
	assert_non_null(key);
	return key;
}

static void add_extension(X509 *cert, int nid, const char *value)
{
	X509V3_CTX ctx;

	X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
	X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	assert_non_null(ext);
	X509_add_ext(cert, ext, -1);
	X509_EXTENSION_free(ext);
}

static void set_subject(X509 *cert, const struct cert_wish *wish)
{
	X509_NAME *subject = X509_get_subject_name(cert);

	X509_NAME_add_entry_by_txt(
	    subject, "O", MBSTRING_UTF8, (const uint8_t *)"tests", -1, -1, 0);
	if (wish->cn)
		X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
		    (const uint8_t *)wish->cn, wish->cn_len ? wish->cn_len : -1, -1, 0);
}

static void sign(X509 *cert, EVP_PKEY *key, const struct cert_wish *wish)
{
	EVP_PKEY *with = wish->issuer ? read_key(wish->issuer) : key;
	X509 *issuer = wish->issuer ? read_cert(wish->issuer) : NULL;
	const char *hash = wish->hash ? wish->hash : "sha256";
	bool is_bare = EVP_PKEY_base_id(with) == EVP_PKEY_ED25519;

	X509_set_issuer_name(cert, X509_get_subject_name(issuer ? issuer : cert));
	assert_true(
	    X509_sign(cert, with, is_bare ? NULL : EVP_get_digestbyname(hash)) > 0);
	if (issuer)
		EVP_PKEY_free(with);
	X509_free(issuer);
}

static void write_files(const char *name, X509 *cert, EVP_PKEY *key)
{
	FILE *f = fopen(path_of(name, "crt"), "w");
	PEM_write_X509(f, cert);
	fclose(f);
	f = fopen(path_of(name, "key"), "w");
	PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL);
	fclose(f);
	assert_true(name_count < 64);
	snprintf(names[name_count++], sizeof(names[0]), "%s", name);
}

void certs_make(const char *name, const struct cert_wish *wish)
{
	EVP_PKEY *key = new_key(wish->key);
	X509 *cert = X509_new();

	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), next_serial++);
	X509_gmtime_adj(X509_getm_notBefore(cert), -7200);
	X509_gmtime_adj(X509_getm_notAfter(cert), wish->is_expired ? -3600 : 86400);
	set_subject(cert, wish);
	X509_set_pubkey(cert, key);
	if (wish->is_ca) {
		add_extension(cert, NID_basic_constraints, "critical,CA:TRUE");
		add_extension(cert, NID_key_usage, "critical,keyCertSign,cRLSign");
	}
	if (wish->sans)
		add_extension(cert, NID_subject_alt_name, wish->sans);
	sign(cert, key, wish);
	write_files(name, cert, key);
	X509_free(cert);
	EVP_PKEY_free(key);
}

void certs_revoke(const char *issuer, const char *name)
{
	X509 *ca = read_cert(issuer);
	EVP_PKEY *key = read_key(issuer);
	X509_CRL *crl = X509_CRL_new();
	ASN1_TIME *now = X509_gmtime_adj(NULL, -60),
		  *next = X509_gmtime_adj(NULL, 86400);

	X509_CRL_set_version(crl, 1);
	X509_CRL_set_issuer_name(crl, X509_get_subject_name(ca));
	X509_CRL_set1_lastUpdate(crl, now);
	X509_CRL_set1_nextUpdate(crl, next);
	if (name) {
		X509 *cert = read_cert(name);
		X509_REVOKED *revoked = X509_REVOKED_new();
		X509_REVOKED_set_serialNumber(revoked, X509_get_serialNumber(cert));
		X509_REVOKED_set_revocationDate(revoked, now);
		X509_CRL_add0_revoked(crl, revoked);
		X509_free(cert);
	}
	assert_true(X509_CRL_sign(crl, key, EVP_sha256()) > 0);
	FILE *f = fopen(path_of(issuer, "crl"), "w");
	PEM_write_X509_CRL(f, crl);
	fclose(f);
	X509_CRL_free(crl);
	ASN1_TIME_free(now);
	ASN1_TIME_free(next);
	EVP_PKEY_free(key);
	X509_free(ca);
}

unsigned char *certs_der(const char *name, int *len)
{
	X509 *cert = read_cert(name);
	unsigned char *der = NULL;

	*len = i2d_X509(cert, &der);
	unsigned char *copy = mem_dup(der, (size_t)*len);
	OPENSSL_free(der);
	X509_free(cert);
	return copy;
}
