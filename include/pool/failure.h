/*
 * Why the pool's last attempt to connect has failed, and what that means for its
 * clients (protocol.md 10.4).  pool.c notes failures and logins; hosts.c forgets the
 * kind when another host serves.
 */
#ifndef POOL_FAILURE_H
#define POOL_FAILURE_H

#include <stdbool.h>
#include <stdint.h>

enum failure_kind {
	FAILURE_NONE,
	FAILURE_LOST,  /* a new server was lost: the next attempt has to wait */
	FAILURE_LOGIN, /* the login failed: clients that ask are refused at once */
	FAILURE_HOSTS, /* no host is up and fit: clients wait for one */
};

struct failure {
	enum failure_kind kind;
	bool refuses_waiting; /* all that wait are to be refused with `refusal` */
	char text[100];       /* of the last failed login; "": none */
	char sqlstate[6];
	char *refusal; /* owned: text for clients that waited for it; or NULL */
	char *fast;    /* owned: text for clients that ask after it; or NULL */
};

/* A login has failed.  text is for the console, told for clients; they and sqlstate
 * (NULL: the connection was lost) are copied. */
void failure_note(struct failure *f, enum failure_kind kind, const char *text,
    const char *told, const char *sqlstate);
/* Frees what f owns; there is no failure then. */
void failure_forget(struct failure *f);

/* How the last auth_query has ended, in the pool that runs it: for the console. */
struct lookup_end {
	uint64_t at_us; /* 0: none has ended */
	char *failure;  /* owned; NULL: it has worked */
};

/* The text is copied. */
void lookup_end_note(struct lookup_end *end, uint64_t now_us, const char *failure);

#endif
