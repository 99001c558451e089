/*
 * A small HTTP server: libevent's own, in the loop.  This is the only file that
 * includes it.  It is made for a few answers to strangers: each connection carries one
 * request, which must come and be answered in a bounded time, and there are never many.
 *
 * Errors of the protocol (a request that is malformed, too long or too large) are
 * answered here; `asked` gets all others.
 */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/loop.h"

struct http;
struct http_request; /* one, from `asked` to its end */
struct tls_context;

/* Connections at a time; more wait in the kernel's queue.  A burst can go beyond by
 * what that queue holds for each listening socket. */
enum { HTTP_CONNECTIONS_MOST = 32, HTTP_BACKLOG = 16 };

struct http_ops {
	/* Answer it, now or later. */
	void (*asked)(void *ctx, struct http_request *r);
	/* What http_put got has left: more can be put. */
	void (*wanted)(void *ctx, struct http_request *r);
	/* The peer has left, or took too long, before the end of the answer.  Nothing
	 * may be put any more, and the request is freed when this returns. */
	void (*gone)(void *ctx, struct http_request *r);
};

/* ops and ctx are borrowed. */
struct http *http_new(struct loop *loop, const struct http_ops *ops, void *ctx);
/* Closes all; `gone` is called for what was not answered. */
void http_free(struct http **http);

/* Serves a listening socket, which is http's from then on, also if it fails.  context,
 * which is referenced: all is TLS; NULL: in clear.  -1 and err. */
int http_listen(
    struct http *http, int fd, struct tls_context *context, struct err *err);
/* Closes the listening sockets.  Connections go on. */
void http_stop_listening(struct http *http);

/* ---- one request ---- */

bool http_is_get(const struct http_request *r);
bool http_is_head(const struct http_request *r);
/* The path without the query, as sent; never NULL. */
const char *http_path(const struct http_request *r);
/* NULL: there is no such header. */
const char *http_header(const struct http_request *r, const char *name);
/* What the owner keeps with it. */
void http_set_data(struct http_request *r, void *data);
void *http_data(const struct http_request *r);

/* The whole answer, which ends the request.  allow: what the Allow header says; NULL:
 * there is none. */
void http_answer(struct http_request *r, int status, const char *type,
    const char *allow, const char *body);
/* An answer in parts: begin; put, and again each time when it is wanted; end, which
 * ends the request.  Each part is not empty. */
void http_begin(struct http_request *r, const char *type);
void http_put(struct http_request *r, const struct buf *part);
void http_end(struct http_request *r);

#endif
