/*
 * How we prove to a server that we may log in (protocol.md 8; PostgreSQL "Start-up").
 */
#ifndef BROKER_DIAL_AUTH_H
#define BROKER_DIAL_AUTH_H

#include "session/conn.h"
#include "session/server.h"

/* A whole Authentication message of a server that is being logged in to. */
enum step dial_auth(struct server *server, const struct message *m);

#endif
