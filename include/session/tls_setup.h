/*
 * TLS as the configuration wants it: one snapshot of contexts for clients and for
 * servers (configuration.md 4.6, protocol.md 17).  It is loaded as a whole or not at
 * all; connections keep the context they began with.
 */
#ifndef SESSION_TLS_SETUP_H
#define SESSION_TLS_SETUP_H

#include <stdbool.h>

#include "base/err.h"
#include "conf/config.h"
#include "net/tls.h"

struct tls_setup;

/* Contexts for everything the configuration names; NULL and err ("TLS setup failed:
 * ...", or what is missing) when one of them cannot be made. */
struct tls_setup *tls_setup_new(const struct config *config, struct err *err);
/* Another reference; NULL gives NULL.  Sites on several threads share a setup. */
struct tls_setup *tls_setup_ref(struct tls_setup *setup);
void tls_setup_unref(struct tls_setup **setup);

/* What clients get: enum tls_mode, and the context unless it is TLS_DISABLE. */
enum tls_mode tls_setup_client_mode(const struct tls_setup *setup);
struct tls_context *tls_setup_client(const struct tls_setup *setup);

/* What a connection to a server of this database is to be. */
struct server_tls {
	enum tls_mode mode;
	enum tls_start start;
	struct tls_context *context; /* borrowed from the setup; NULL: TLS_DISABLE */
};
/* -1 and err: the files of this entry cannot be used (of an entry that is not in the
 * configuration any more, nobody looked at them before). */
int tls_setup_server(struct tls_setup *setup, const struct database_config *db,
    struct server_tls *out, struct err *err);

/* Do the two differ in what makes existing server connections obsolete?  The contents
 * of files do not count. */
bool tls_setup_is_obsoleting(const struct tls_setup *old, const struct tls_setup *new);
/* Has one of the files changed since it was read?  Looks at them with stat. */
bool tls_setup_is_stale(struct tls_setup *setup);
/* What the files are now counts as read. */
void tls_setup_touch(struct tls_setup *setup);

#endif
