/*
 * The exchange in which a client proves who it is (protocol.md 4; PostgreSQL
 * "Start-up"): cleartext, md5, SCRAM, GSSAPI.  It does not choose the method, and what
 * follows from the result is decided in login.c.
 */
#ifndef LOGIN_PROOF_H
#define LOGIN_PROOF_H

#include "session/client.h"

enum proof {
	PROOF_MORE,    /* the client has to send another message; or, in the phase
			  LOGIN_AWAIT, login->proven is called with the result */
	PROOF_LATER,   /* pass the same message again when login->derived is called */
	PROOF_DONE,    /* the client has proven who it is */
	PROOF_FAILED,  /* the proof is wrong; proof_fail sends the error */
	PROOF_REFUSED, /* the client has got an error and is doomed */
};

/* Asks the client for the proof that client->login->method requires. */
enum proof proof_begin(struct client *client);
/* Is this message of type 'p' longer than any proof that is expected now?  Then it is
 * logged. */
bool proof_is_too_long(const struct client *client, const struct message *m);
/* A whole message of type 'p'. */
enum proof proof_message(struct client *client, const struct message *m);
/* Sends the client the FATAL error of its method for a wrong proof. */
void proof_fail(struct client *client);
/* Frees what the exchange holds.  Call it whenever a login ends. */
void proof_done(struct client *client);

#endif
