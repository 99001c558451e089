/*
 * MIT Kerberos' GSSAPI as the files auth/kerberos* use it.  A build without the library
 * has these functions, too, and each of them fails.
 */
#ifndef AUTH_GSSAPI_H
#define AUTH_GSSAPI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth/kerberos.h"
#include "base/buf.h"
#include "base/err.h"

bool gssapi_is_built(void);

/* Several threads may use the same credentials at a time. */
struct gssapi_credentials;

/* The keys with which tickets of clients are read; keyfile "": those of the system's
 * keytab.  NULL and err: there are none. */
struct gssapi_credentials *gssapi_acceptor(const char *keyfile, struct err *err);
/* A ticket for the KDC, which it may be asked for now, in a cache in memory of its own.
 * keyfile "": the account's credential cache; principal "": the first one there. */
struct gssapi_credentials *gssapi_initiator(
    const char *keyfile, const char *principal, struct err *err);
/* NULL is allowed. */
void gssapi_credentials_free(struct gssapi_credentials **c);

struct gssapi_context;

/* One step for the side that is logged in to.  *context is made in the first one.  With
 * KERBEROS_DONE *client is the principal of the other side, which the caller frees. */
enum kerberos_result gssapi_accept(struct gssapi_context **context,
    const struct gssapi_credentials *c, const uint8_t *token, size_t len,
    struct buf *out, char **client, struct err *err);
/* One step for the side that logs in; it may ask the KDC.  lifetime_s (may be NULL):
 * for how long the ticket for the service is valid. */
enum kerberos_result gssapi_connect(struct gssapi_context **context,
    const struct gssapi_credentials *c, const char *service, const uint8_t *token,
    size_t len, struct buf *out, uint32_t *lifetime_s, struct err *err);
/* NULL is allowed. */
void gssapi_context_free(struct gssapi_context **context);

#endif
