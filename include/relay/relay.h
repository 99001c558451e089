/*
 * The service of all databases except the console: forwards messages between a client
 * and a server.
 */
#ifndef RELAY_RELAY_H
#define RELAY_RELAY_H

#include "session/site.h"

extern const struct service relay_service;
extern const struct request_ops relay_request_ops;

#endif
