/*
 * Configuration and user list, in two phases: read everything, which may fail and
 * touches nothing; then take it over, which cannot fail.
 */
#ifndef RELOAD_H
#define RELOAD_H

#include <stdbool.h>

#include "access.h"
#include "auth/userlist.h"
#include "base/buf.h"
#include "base/err.h"
#include "conf/config.h"
#include "daemon.h"

/* What was read. */
struct loaded {
	struct config *config;
	struct userlist *users; /* NULL: not needed, or it could not be read */
	struct tls_setup *tls;  /* NULL before loaded_read_tls */
	struct buf warnings;    /* texts, each with its NUL */
	struct err unreadable;  /* why users is NULL; "" when nothing is wrong */
	struct err broken;      /* users ends before this place; "" when it does not */
	struct access access;   /* HBA rules and ident maps */
};

/* Read the configuration file and the files it names that say who may log in.  -1 and
 * err when there is no valid configuration. */
int loaded_read(
    struct loaded *l, const char *path, const struct config *running, struct err *err);
/* The certificates it names.  -1 and err: they cannot be used. */
int loaded_read_tls(struct loaded *l, struct err *err);
void loaded_done(struct loaded *l);

/* Point the log where the settings say. */
void reload_configure_log(struct daemon *d, const struct settings *settings);
/* Log the lines of an error of config_load, each as its own; one that begins with a tab
 * goes with the one before. */
void reload_log_error(struct log *log, const struct err *err);
/* Log what loaded_read found odd.  Warnings are logged when they are new. */
void reload_tell(struct daemon *d, const struct loaded *l);
/* Take over a configuration, a user list (NULL: none was read), and the rules. */
void reload_adopt(struct daemon *d, struct config *config, const struct userlist *users,
    struct rules *rules);
/* The same for TLS; takes *tls, which may be NULL: nothing changes. */
void reload_adopt_tls(struct daemon *d, struct tls_setup **tls);
/* Read the files of certificates again if they have changed (tls_reload_period). */
void reload_changed_tls(struct daemon *d);

/* The process verbs. */
int reload_all(struct site *site, struct err *err);
int reload_set(struct site *site, const char *name, const char *value, struct err *err);

#endif
