/*
 * What commands do, and who may give them.
 */
#ifndef ADMIN_VERBS_H
#define ADMIN_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "admin/command.h"
#include "admin/slices.h"
#include "session/client.h"

/* One command given by one client; all borrowed. */
struct order {
	struct client *client;
	const char *query; /* as sent */
	const struct command *command;
	/* 0: it has its answer.  Else it is shown again later: a RELOAD that takes
	 * longer (see site.h), or a SET that waits for one. */
	uint64_t *ticket;
	/* The console's; not NULL after a SHOW whose rows follow in the next turns. */
	struct slices **slices;
};

struct verb {
	const char *name;
	const char *arguments; /* see commands.def */
	const char *usage;
	const char *help;
	void (*run)(const struct order *order);
	bool is_for_anyone;
};

/* The i-th in the order of SHOW HELP, NULL past the end. */
const struct verb *verb_at(size_t i);
/* NULL when there is no such command. */
const struct verb *verb_find(const struct command *command);
/* Does the command have its argument, as far as that does not depend on rights? */
bool verb_has_form(const struct verb *verb, const struct command *command);
/* The only check of rights: what is not allowed here is denied. */
bool verb_is_allowed(
    const struct verb *verb, const struct command *command, bool is_admin);

#endif
