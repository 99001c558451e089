/*
 * Closes clients that have not proven who they are, so that they keep the administrator
 * out neither at the limit of open files nor at max_client_conn.
 */
#ifndef LOGIN_EVICT_H
#define LOGIN_EVICT_H

#include "session/site.h"

/* Closes the oldest clients, on all sites, that are in mid-login and have sent nothing
 * for too long although it is their turn.  Clients that wait for the pooler (look-ups,
 * key derivation, the pool's welcome) stay, and so does the owner of the process on the
 * unix socket.  Returns how many are being closed; their descriptors are free after
 * this turn of the loop. */
unsigned evict_silent(struct site *site);

/* The most logins of the console that may be incomplete beyond max_client_conn. */
enum { EVICT_CONSOLE_LOGINS = 100 };
/* A login of the console has begun beyond max_client_conn, and is the last of
 * site->console_logins.  If there are too many, closes the oldest one that does not
 * wait for the pooler, which may be the new one itself. */
void evict_console_login(struct site *site);

#endif
