/*
 * One client linked to one server: the hot path.  The service of ordinary databases.
 */
#ifndef RELAY_RELAY_H
#define RELAY_RELAY_H

#include "session/site.h"

extern const struct service relay_service;
extern const struct request_ops relay_request_ops;

#endif
