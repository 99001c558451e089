/*
 * Reads the dates of certificates.  OpenSSL checks them in each handshake.
 */
#include "net/tls_dates.h"

#include <time.h>

#include <openssl/err.h>
#include <openssl/pem.h>

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
