/*
 * The floors of one site, from the loop up, made and unmade.  A process has one site,
 * or one for each worker and one for the control thread: see session/workers.h.
 */
#ifndef DAEMON_SITE_BUILD_H
#define DAEMON_SITE_BUILD_H

#include "base/err.h"
#include "session/site.h"
#include "session/workers.h"

/* Builds a site whose members mem, log and verbs are set; call it on the site's thread.
 * workers: the workers that it joins, at position index; NULL: the site is the only
 * one.  -1 and err: call site_build_free all the same. */
int site_build(struct site *site, const struct settings *settings,
    struct workers *workers, unsigned index, struct err *err);
/* Runs the loop until loop_stop.  Lines that a turn logs are written at the end of the
 * turn. */
void site_build_run(struct site *site);
/* Closes all connections without sending them anything, and runs the loop until they
 * are closed.  Call it after peers_init.  -1: some have not closed, so the site must
 * not be freed. */
int site_build_drop_all(struct site *site);
/* Stops listening and closes all connections, in a few turns of the loop.  -1: some do
 * not close. */
int site_build_empty(struct site *site);
/* Frees the site.  Call it when all connections are closed and no other thread posts to
 * the site any more. */
void site_build_free(struct site *site);

#endif
