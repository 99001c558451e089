/*
 * The session floor as a whole: what a site needs before the first connection.
 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include "session/site.h"

/* Slabs, lists, maps, the spare descriptors, secrets of the process.  site has log, mem
 * (initialised), loop, net, dns, catalog, vars and version set.  -1 and err: there is
 * no descriptor or no thread for helpers; everything else is made. */
int session_init(struct site *site, struct err *err);
/* Settings or limits have changed: every client's deadline is looked at again. */
void session_review(struct site *site);
/* Frees everything; no client and no server is left. */
void session_done(struct site *site);
/* For an immediate exit: sets site->shutdown to SHUTDOWN_NOW and dooms every client and
 * server without a word to them or the log.  They are gone after the loop's next turn
 * (session_is_empty). */
void session_drop_all(struct site *site);
/* No client and no server is left. */
bool session_is_empty(const struct site *site);

#endif
