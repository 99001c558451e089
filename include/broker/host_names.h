/*
 * The addresses of those names that entries of watched databases have as hosts: a name
 * with several is as many hosts.  Private to the files broker/host_*.c.
 */
#ifndef BROKER_HOST_NAMES_H
#define BROKER_HOST_NAMES_H

#include "broker/host_survey.h"

/* Begins to look up the names of the databases in use.  A new result leads to a survey
 * at once. */
void host_names_look(struct host_monitor *m);
/* Tells all sites what was found. */
void host_names_spread(struct host_monitor *m);
void host_names_free(struct host_monitor *m);

#endif
