/*
 * Lists of networks, as they are written in settings: "10.0.0.0/8, 2001:db8::/32,
 * 192.168.1.7, unix".  Such lists are short and rarely needed, so the text is parsed
 * each time.
 */
#ifndef BASE_NETWORKS_H
#define BASE_NETWORKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Checks that every item can be read.  Items are separated by commas; each is an IPv4
 * or IPv6 address, with or without "/BITS", or the word "unix".  Returns -1 and names
 * the item in err otherwise.  NULL and "" are empty lists. */
int networks_check(const char *list, struct err *err);
/* Whether this address is in the list.  family is AF_INET, AF_INET6 or AF_UNIX; ip is
 * in network order, with an IPv4 address in its first four bytes.  An IPv4 address
 * mapped into IPv6 counts as IPv4.  Items that networks_check would refuse match
 * nothing. */
bool networks_have(const char *list, uint16_t family, const uint8_t ip[16]);

#endif
