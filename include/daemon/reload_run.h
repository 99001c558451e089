/*
 * Reloads that are asked for: one after the other, each in steps, so that long files
 * hold up no client.  A helper thread loads everything; then it is put in force, but
 * for the secrets, which are taken over some users per turn; then whoever asked is
 * told.
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
	struct later turn;      /* the next users */
	struct load_job *job;   /* while RELOAD_READING, if a helper thread loads */
	struct userlist *users; /* owned, while RELOAD_ADOPTING */
	struct config *old;     /* a reference, until the end of a long reload */
	/* Reloads are numbered.  begun is done, or in progress; wanted may be one more.
	 */
	uint64_t begun, done, wanted;
	struct err err; /* of the one that was done last */
	int result;
	enum reload_phase phase;
	bool is_manager_waiting; /* the service manager is to be told of the end */
};

void reload_run_init(struct reload_run *r);
/* The process ends: what is under way is given up. */
void reload_run_stop(struct daemon *d);
/* The process verbs: see site.h. */
int reload_run_ask(struct site *site, uint64_t *ticket, struct err *err);
bool reload_run_is_reading(const struct site *site);

#endif
