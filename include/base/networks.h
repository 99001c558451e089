/*
 * Lists of networks as settings have them: "10.0.0.0/8, 2001:db8::/32, 192.168.1.7,
 * unix".  The text is read anew at each question, because such lists are short and the
 * questions are rare.
 */
#ifndef BASE_NETWORKS_H
#define BASE_NETWORKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Are all items of the list understood?  Items are separated by commas: an IPv4 or IPv6
 * address with or without "/BITS", or the word "unix".  -1 and err: it names the item.
 * NULL and "" are empty lists. */
int networks_check(const char *list, struct err *err);
/* Is this address in the list?  family is AF_INET, AF_INET6 or AF_UNIX; ip is in
 * network order, an IPv4 address in its first four bytes.  An IPv4 address that is
 * mapped into IPv6 counts as IPv4.  Items that networks_check would refuse contain
 * nobody. */
bool networks_have(const char *list, uint16_t family, const uint8_t ip[16]);

#endif
