/*
 * The part of struct site that belongs to the session floor.
 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include "session/site.h"

/* Makes slabs, lists, maps, spare descriptors and secrets of the process.  The caller
 * has set log, mem, loop, net, dns, catalog, vars and version.  -1 and err: there is no
 * descriptor or no thread for the helper threads; everything else has been made. */
int session_init(struct site *site, struct err *err);
/* Derives the salts of users who do not exist from the private key, so that they are
 * the same after the next start, like those of SCRAM secrets.  Without a key, processes
 * behind one address take what all of them know, but outside this machine nobody. */
void session_keep_salts(struct site *site, const struct settings *settings);
/* Settings or limits have changed: sets every client's deadline anew. */
void session_review(struct site *site);
/* Frees everything.  Call it when no client and no server is left. */
void session_done(struct site *site);
/* For an immediate exit: sets site->shutdown to SHUTDOWN_NOW and dooms every client and
 * server, without messages to them or to the log.  They are closed in the next turns of
 * the loop (session_is_empty). */
void session_drop_all(struct site *site);
/* True if no client and no server is left. */
bool session_is_empty(const struct site *site);

#endif
