/*
 * The console's commands: what they do, and who may give them.
 */
#ifndef ADMIN_VERBS_H
#define ADMIN_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "admin/command.h"
#include "admin/show_stream.h"
#include "session/client.h"

/* One command of one client; everything is borrowed. */
struct order {
	struct client *client;
	const char *query; /* the text as the client sent it */
	const struct command *command;
	/* *ticket is 0 if the command has been answered.  Otherwise the command is run
	 * again later: it is a RELOAD that takes longer (site.h), or a SET that waits
	 * for one. */
	uint64_t *ticket;
	/* The console's slices: *slices is not NULL after a SHOW whose rows follow in
	 * later turns. */
	struct show_stream **slices;
};

struct verb {
	const char *name;
	const char *arguments; /* see commands.def */
	const char *usage;
	void (*run)(const struct order *order);
	bool is_for_anyone;
};

/* The i-th command in the order of SHOW HELP; NULL past the end. */
const struct verb *verb_at(size_t i);
/* The verb of a command; NULL: there is no such command. */
const struct verb *verb_find(const struct command *command);
/* Does the command have the arguments that the verb needs? */
bool verb_has_form(const struct verb *verb, const struct command *command);
/* May the client give this command?  This is the only check of rights. */
bool verb_is_allowed(
    const struct verb *verb, const struct command *command, bool is_admin);

#endif
