/*
 * Answers a server that asks for a proof of the user (protocol.md 8; PostgreSQL
 * "Start-up").
 */
#ifndef BROKER_DIAL_AUTH_H
#define BROKER_DIAL_AUTH_H

#include "session/conn.h"
#include "session/server.h"

/* Handles a whole Authentication message during a login to a server. */
enum step dial_auth(struct server *server, const struct message *m);

#endif
