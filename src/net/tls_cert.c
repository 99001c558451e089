/*
 * Certificates: their names, their hash for channel binding, and their dates. OpenSSL
 * verifies them, and checks the dates in each handshake. And texts for its errors.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/mem.h"
#include "net/sock.h"
#include "net/tls_parts.h"

/* ---- texts for errors of OpenSSL ---- */

const char *tls_last_error(char *out, size_t size)
{
	unsigned long code = ERR_get_error();
	const char *reason;

	ERR_clear_error();
	if (ERR_GET_LIB(code) == ERR_LIB_SYS)
		reason = strerror(ERR_GET_REASON(code));
	else
		reason = ERR_reason_error_string(code);
	if (reason)
		snprintf(out, size, "%s", reason);
	else
		snprintf(out, size, "error %lx", code);
	return out;
}

/* The * of "*.domain.tld" stands for exactly one label, in front of at least two
 * others. */
static bool is_wildcard_for(const char *pattern, size_t len, const char *name)
{
	const char *rest = strchr(name, '.');

	if (len < 3 || pattern[0] != '*' || pattern[1] != '.' || pattern[2] == '.')
		return false;
	if (!memchr(pattern + 2, '.', len - 2) || !rest || rest == name)
		return false;
	return strlen(rest) == len - 1 && strncasecmp(rest, pattern + 1, len - 1) == 0;
}

/* A text of a certificate can contain anything, even NUL, so lengths are compared
 * too. */
static bool is_name_for(
    const uint8_t *text, size_t len, const char *name, bool is_address)
{
	const char *pattern = (const char *)text;

	if (memchr(text, '\0', len))
		return false;
	if (strlen(name) == len && strncasecmp(pattern, name, len) == 0)
		return true;
	return !is_address && is_wildcard_for(pattern, len, name);
}

static bool is_alternative(
    const GENERAL_NAME *alt, const char *name, const struct sock_addr *address)
{
	const ASN1_STRING *text;

	if (alt->type == GEN_DNS) {
		text = alt->d.dNSName;
		return is_name_for(ASN1_STRING_get0_data(text),
		    (size_t)ASN1_STRING_length(text), name, address != NULL);
	}
	if (alt->type != GEN_IPADD || !address)
		return false;
	text = alt->d.iPAddress;
	int len = address->family == AF_INET ? 4 : 16;
	return ASN1_STRING_length(text) == len &&
	       memcmp(ASN1_STRING_get0_data(text), address->ip, (size_t)len) == 0;
}

static bool has_alternative(
    const X509 *cert, const char *name, const struct sock_addr *address)
{
	GENERAL_NAMES *alts = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	bool is_found = false;

	for (int i = 0; i < sk_GENERAL_NAME_num(alts) && !is_found; i++)
		is_found =
		    is_alternative(sk_GENERAL_NAME_value(alts, i), name, address);
	GENERAL_NAMES_free(alts);
	return is_found;
}

/* Returns the length of the subject's common name; *text is freed with OPENSSL_free.
 * -1: there is none. */
static int common_name(const X509 *cert, unsigned char **text)
{
	const X509_NAME *subject = X509_get_subject_name(cert);
	int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);

	if (at < 0)
		return -1;
	return ASN1_STRING_to_UTF8(
	    text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

static bool is_common_name(
    const X509 *cert, const char *name, const struct sock_addr *address)
{
	unsigned char *text = NULL;
	int len = common_name(cert, &text);
	bool is_found =
	    len > 0 && is_name_for(text, (size_t)len, name, address != NULL);
	OPENSSL_free(text);
	return is_found;
}

bool tls_cert_is_named(const X509 *cert, const char *name)
{
	struct sock_addr parsed;
	bool is_address = sock_addr_parse(name, 0, &parsed) == 0;
	const struct sock_addr *address = is_address ? &parsed : NULL;

	bool is_found = *name && (has_alternative(cert, name, address) ||
				     is_common_name(cert, name, address));
	ERR_clear_error(); /* a malformed extension or name leaves errors behind */
	return is_found;
}

/* Returns a copy of a name; NULL: it contains a NUL or is empty. */
static char *copy_name(const uint8_t *text, int len)
{
	char *name;

	if (len <= 0 || memchr(text, '\0', (size_t)len))
		return NULL;
	name = mem_alloc((size_t)len + 1);
	memcpy(name, text, (size_t)len);
	name[len] = '\0';
	return name;
}

/* Returns the alternative name that has `*left` others in front of it; counts *left
 * down. */
static char *alternative_at(const X509 *cert, size_t *left)
{
	GENERAL_NAMES *alts = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	char *found = NULL;

	for (int i = 0; i < sk_GENERAL_NAME_num(alts) && !found; i++) {
		const GENERAL_NAME *alt = sk_GENERAL_NAME_value(alts, i);
		if (alt->type != GEN_DNS)
			continue;
		found = copy_name(ASN1_STRING_get0_data(alt->d.dNSName),
		    ASN1_STRING_length(alt->d.dNSName));
		if (found && *left > 0) {
			--*left;
			mem_free(found);
			found = NULL;
		}
	}
	GENERAL_NAMES_free(alts);
	return found;
}

char *tls_cert_name_at(const X509 *cert, size_t i)
{
	unsigned char *text = NULL;
	char *found = alternative_at(cert, &i);

	if (!found && i == 0) {
		int len = common_name(cert, &text);
		found = copy_name(text, len);
		OPENSSL_free(text);
	}
	ERR_clear_error();
	return found;
}

int tls_cert_hash(const X509 *cert, uint8_t out[TLS_HASH_MAX], size_t *len)
{
	int hash;
	unsigned size = 0;

	_Static_assert(TLS_HASH_MAX >= EVP_MAX_MD_SIZE, "every hash must fit");
	if (!X509_get_signature_info((X509 *)(uintptr_t)cert, &hash, NULL, NULL, NULL))
		hash = NID_undef;
	/* these two are too weak, so SHA-256 replaces them (RFC 5929 section 4.1) */
	if (hash == NID_md5 || hash == NID_sha1)
		hash = NID_sha256;
	const EVP_MD *md = hash == NID_undef ? NULL : EVP_get_digestbynid(hash);
	int result = md && X509_digest(cert, md, out, &size) ? 0 : -1;
	*len = size;
	ERR_clear_error();
	return result;
}

/* ---- dates of certificates ---- */

/* A date that cannot be read is the year 1970. */
static int64_t seconds_of(const ASN1_TIME *at)
{
	struct tm tm;

	return ASN1_TIME_to_tm(at, &tm) ? (int64_t)timegm(&tm) : 0;
}

int tls_dates_read(const char *path, bool is_authorities, struct tls_dates *out)
{
	BIO *file = BIO_new_file(path, "r"), *name = BIO_new(BIO_s_mem());
	bool is_any = false;
	X509 *cert;

	*out = (struct tls_dates){
	    .begins_s = INT64_MIN, .ends_s = is_authorities ? INT64_MIN : INT64_MAX};
	while (file && name && (cert = PEM_read_bio_X509(file, NULL, NULL, NULL))) {
		int64_t begins_s = seconds_of(X509_get0_notBefore(cert));
		int64_t ends_s = seconds_of(X509_get0_notAfter(cert));
		bool decides =
		    is_authorities ? ends_s > out->ends_s : ends_s < out->ends_s;
		if (is_authorities ? decides : begins_s > out->begins_s)
			out->begins_s = begins_s;
		if (decides) {
			out->ends_s = ends_s;
			/* RFC 2253 escapes control characters */
			(void)BIO_reset(name);
			X509_NAME_print_ex(
			    name, X509_get_subject_name(cert), 0, XN_FLAG_RFC2253);
			int len =
			    BIO_read(name, out->subject, (int)sizeof(out->subject) - 1);
			out->subject[len > 0 ? len : 0] = '\0';
		}
		X509_free(cert);
		is_any = true;
	}
	BIO_free(name);
	BIO_free(file);
	ERR_clear_error(); /* the end of the file is an error there */
	return is_any ? 0 : -1;
}
