/*
 * Reloads that are asked for: one after the other, each in steps, so that a long user
 * list holds up no client.  A helper thread reads the list; then everything is loaded
 * and put in force, but for the secrets, which are taken over some users per turn; then
 * whoever asked is told.
 */
#ifndef DAEMON_RELOAD_RUN_H
#define DAEMON_RELOAD_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "daemon/users_read.h"
#include "net/loop.h"

struct site;
struct daemon;

enum reload_phase { RELOAD_IDLE, RELOAD_READING, RELOAD_ADOPTING };

struct reload_run {
	struct later turn;      /* the next users */
	struct users_job *job;  /* while RELOAD_READING */
	struct userlist *users; /* owned, while RELOAD_ADOPTING */
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
