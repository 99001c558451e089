/*
 * Runs the reloads that are asked for, one after the other and each in steps, so that
 * long files delay no client.  A helper thread loads the files.  Then the snapshot is
 * put in force, except for the secrets, which are taken over a few users per turn of
 * the loop.  Then those who asked for the reload get the result.
 */
#ifndef DAEMON_RELOAD_RUN_H
#define DAEMON_RELOAD_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "daemon/load_job.h"
#include "net/loop.h"

struct site;
struct daemon;

enum reload_phase { RELOAD_IDLE, RELOAD_READING, RELOAD_ADOPTING };

struct reload_run {
	struct deadline users_due; /* takes over the next users */
	struct load_job *job; /* while RELOAD_READING on a helper thread; else NULL */
	/* one reference to each, while RELOAD_ADOPTING: the new list and the one before
	 */
	struct userlist *users, *old_users;
	/* one reference, held until a long reload ends; else NULL */
	struct config *old;
	/* Reloads are numbered.  The number begun is done or in progress; wanted is
	 * begun, or begun + 1 if another reload has been asked for. */
	uint64_t begun, done, wanted;
	struct err err; /* of the reload that ended last */
	int result;
	enum reload_phase phase;
	bool is_manager_waiting; /* the service manager waits for the end of the reload
				  */
};

void reload_run_init(struct reload_run *r);
/* The process ends: gives up a reload that is in progress. */
void reload_run_stop(struct daemon *d);
/* The process verbs: see site.h. */
int reload_run_ask(struct site *site, uint64_t *ticket, struct err *err);
bool reload_run_is_reading(const struct site *site);

#endif
