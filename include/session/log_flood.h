/*
 * Limits the lines of the log that strangers cause: of one message, about clients of
 * one address that have not logged in (log_lines_per_address).
 */
#ifndef SESSION_LOG_FLOOD_H
#define SESSION_LOG_FLOOD_H

#include "net/sock.h"
#include "session/site.h"

/* Is a line with this format about such a client to be left out?  The first one that is
 * left out in a minute is told by a line of its own, and the next one that is written
 * by one that says how many were. */
bool log_flood_holds(
    const struct site *site, const struct sock_addr *from, const char *fmt);

struct log_flood *log_flood_new(void);
void log_flood_free(struct log_flood **flood);

#endif
