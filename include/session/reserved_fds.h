/*
 * Spare descriptors: they are open and unused, so that a few connections can still be
 * accepted when the process has reached its limit of open files.
 */
#ifndef SESSION_RESERVED_FDS_H
#define SESSION_RESERVED_FDS_H

#include <stdbool.h>

#include "session/site.h"

/* Opens the spare descriptors. */
void reserved_fds_init(struct site *site);
/* Closes them. */
void reserved_fds_done(struct site *site);
/* Closes one spare descriptor, so that one more socket can be opened.  false: there is
 * none left. */
bool reserved_fds_give_up(struct site *site);
/* Opens the descriptors that are missing, as many as the process has descriptors for.
 */
void reserved_fds_refill(struct site *site);

#endif
