/* Writes a keytab as the library reads it: version 2, one key of AES-256. */
#include "keytab.h"

#include <stdio.h>
#include <stdlib.h>

void keytab_write(const char *path)
{
	static const unsigned char bytes[] =
	    "\x05\x02"
	    "\x00\x00\x00\x55" /* the length of what follows */
	    "\x00\x02"
	    "\x00\x0b"
	    "EXAMPLE.COM"
	    "\x00\x08"
	    "postgres"
	    "\x00\x09"
	    "localhost"
	    "\x00\x00\x00\x01" /* the type of the name */
	    "\x00\x00\x00\x00" /* the time */
	    "\x01"             /* the version of the key */
	    "\x00\x12"         /* aes256-cts-hmac-sha1-96 */
	    "\x00\x20"
	    "0123456789abcdef0123456789abcdef"
	    "\x00\x00\x00\x01";
	FILE *file = fopen(path, "wb");

	if (!file || fwrite(bytes, 1, sizeof(bytes) - 1, file) != sizeof(bytes) - 1)
		abort();
	fclose(file);
}
