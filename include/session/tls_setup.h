/*
 * One snapshot of TLS contexts for clients and for servers, made from the configuration
 * (configuration.md 4.6, protocol.md 17).  It is loaded completely or not at all.
 * Connections keep the context with which they began.
 */
#ifndef SESSION_TLS_SETUP_H
#define SESSION_TLS_SETUP_H

#include <stdbool.h>

#include "base/err.h"
#include "conf/config.h"
#include "net/tls.h"

struct tls_setup;

/* Makes contexts for everything that the configuration names.  NULL and err ("TLS setup
 * failed: ...", or what is missing): one of them cannot be made. */
struct tls_setup *tls_setup_new(const struct config *config, struct err *err);
/* Another reference; NULL gives NULL.  Sites on several threads share a setup. */
struct tls_setup *tls_setup_ref(struct tls_setup *setup);
void tls_setup_unref(struct tls_setup **setup);

/* TLS of client connections: the mode, and the context, which is NULL for TLS_DISABLE.
 */
enum tls_mode tls_setup_client_mode(const struct tls_setup *setup);
struct tls_context *tls_setup_client(const struct tls_setup *setup);

/* TLS of connections to the servers of a database. */
struct server_tls {
	enum tls_mode mode;
	enum tls_start start;
	struct tls_context *context; /* borrowed from the setup; NULL: TLS_DISABLE */
};
/* Finds the TLS of a database's servers.  -1 and err: the files of this entry cannot be
 * used.  That can happen only with an entry that is not in the configuration any more,
 * because all others were checked when the setup was made. */
int tls_setup_server(struct tls_setup *setup, const struct database_config *db,
    struct server_tls *out, struct err *err);

/* Do the two differ so that existing server connections have to be replaced?  Changed
 * contents of files do not count. */
bool tls_setup_is_obsoleting(const struct tls_setup *old, const struct tls_setup *new);
/* Has one of the files changed since it was read?  Calls stat() for each. */
bool tls_setup_looks_stale(struct tls_setup *setup);
/* Calls fn for each file with certificates, with the setting that names it. */
typedef void tls_setup_dates_fn(
    void *ctx, const char *setting, const char *path, const struct tls_dates *dates);
void tls_setup_each_dates(struct tls_setup *setup, tls_setup_dates_fn *fn, void *ctx);
/* Remembers the present state of the files as read, without reading them. */
void tls_setup_touch(struct tls_setup *setup);

#endif
