/*
 * Gets the keys of an issuer over HTTPS, as a job for a helper thread: first its
 * discovery document, then the key set that this names.
 */
#ifndef AUTH_OAUTH_FETCH_H
#define AUTH_OAUTH_FETCH_H

#include "auth/helpers.h"
#include "auth/oauth_keys.h"

struct oauth_fetch {
	struct helpers_job job;
	char *issuer;  /* owned: as it is configured */
	char *ca_file; /* owned; "": the authorities of the system */
	/* the result, which done() may take; NULL: err says why */
	struct oauth_keys *keys;
	struct err err;
	/* borrowed */
	void (*done)(struct oauth_fetch *fetch);
	void *owner;
};

struct oauth_fetch *oauth_fetch_new(const char *issuer, const char *ca_file,
    void (*done)(struct oauth_fetch *fetch), void *owner);
void oauth_fetch_discard(struct oauth_fetch *fetch);

#endif
