/*
 * Names and numbers of the program and its libraries.
 */
#include "daemon/version.h"

#include <openssl/crypto.h>

#include "auth/external_auth.h"
#include "auth/kerberos.h"
#include "auth/oauth_keys.h"
#include "config.h"
#include "net/dns.h"
#include "net/loop.h"

const char *version_number(void)
{
	return PACKAGE_VERSION;
}

const char *version_tls(void)
{
	return OpenSSL_version(OPENSSL_VERSION);
}

#ifdef HAVE_URING
#	define HAS_URING "yes"
#else
#	define HAS_URING "no"
#endif
#ifdef HAVE_NCURSES
#	define HAS_NCURSES "yes"
#else
#	define HAS_NCURSES "no"
#endif

void version_print(FILE *out)
{
	/* systemd's protocol is supported without its library */
	fprintf(out,
	    "PgBouncer %s\nlibevent %s\nadns: %s\ntls: %s\nsystemd: yes\npam: %s\n"
	    "ldap: %s\ngssapi: %s\noauth: %s\nio_uring: %s\nncurses: %s\n",
	    version_number(), loop_library_version(), dns_library_version(),
	    version_tls(), external_auth_has_pam() ? "yes" : "no",
	    external_auth_has_ldap() ? "yes" : "no", kerberos_is_built() ? "yes" : "no",
	    oauth_is_supported() ? "yes" : "no", HAS_URING, HAS_NCURSES);
}
