/*
 * The version of the program, and the libraries that it was built with.
 */
#ifndef DAEMON_VERSION_H
#define DAEMON_VERSION_H

#include <stdio.h>

/* "2.0.0" */
const char *version_number(void);
/* "OpenSSL 3.0.15 3 Sep 2024" */
const char *version_tls(void);
/* Prints the text of --version. */
void version_print(FILE *out);

#endif
