/*
 * Configuration and user list, in two phases: read everything, which may fail and
 * touches nothing; then take it over, which cannot fail.
 */
#ifndef RELOAD_H
#define RELOAD_H

#include <stdbool.h>

#include "auth/userlist.h"
#include "base/buf.h"
#include "base/err.h"
#include "conf/config.h"
#include "daemon.h"

/* What was read. */
struct loaded {
	struct config *config;
	struct userlist *users; /* NULL: not needed, or it could not be read */
	struct buf warnings;    /* texts, each with its NUL */
	struct err unreadable;  /* why users is NULL; "" when nothing is wrong */
	struct err broken;      /* users ends before this place; "" when it does not */
};

/* Read the configuration file and the user list it names.  -1 and err when there is no
 * valid configuration. */
int loaded_read(
    struct loaded *l, const char *path, const struct config *running, struct err *err);
void loaded_done(struct loaded *l);

/* Point the log where the settings say. */
void reload_configure_log(struct daemon *d, const struct settings *settings);
/* Log the lines of an error of config_load, each as its own; one that begins with a tab
 * goes with the one before. */
void reload_log_error(struct log *log, const struct err *err);
/* Log what loaded_read found odd.  Warnings are logged when they are new. */
void reload_tell(struct daemon *d, const struct loaded *l);
/* Take it over. */
void reload_adopt(
    struct daemon *d, struct config *config, const struct userlist *users);

/* The process verbs. */
int reload_all(struct site *site, struct err *err);
int reload_set(struct site *site, const char *name, const char *value, struct err *err);

#endif
