/*
 * The exchange in which a client proves who it is (protocol.md 4; PostgreSQL
 * "Start-up"): cleartext, md5, SCRAM.  It chooses no method and lets nobody in.
 */
#ifndef LOGIN_PROOF_H
#define LOGIN_PROOF_H

#include "session/client.h"

enum proof {
	PROOF_MORE,    /* another message of the client is expected, or, in the phase
			  LOGIN_AWAIT, somebody's answer: login->proven comes then */
	PROOF_LATER,   /* the same message has to be shown again when login->derived is
			* called */
	PROOF_DONE,    /* the client is who it says */
	PROOF_FAILED,  /* proof_fail says so to the client */
	PROOF_REFUSED, /* the client was told and is doomed */
};

/* Ask for the proof that client->login->method wants. */
enum proof proof_begin(struct client *client);
/* A whole message of type 'p'. */
enum proof proof_message(struct client *client, const struct message *m);
/* The text of the method for a proof that failed, FATAL. */
void proof_fail(struct client *client);
/* The login ends, in whatever way. */
void proof_done(struct client *client);

#endif
