/*
 * A keytab for tests that need no KDC.
 */
#ifndef TEST_AUTH_KEYTAB_H
#define TEST_AUTH_KEYTAB_H

/* Writes a keytab with a key of postgres/localhost@EXAMPLE.COM. */
void keytab_write(const char *path);

#endif
