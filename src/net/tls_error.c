/*
 * Texts for OpenSSL's errors.
 */
#include <stdio.h>
#include <string.h>

#include <openssl/err.h>

#include "net/tls_parts.h"

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
