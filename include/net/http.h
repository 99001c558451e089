/*
 * A small HTTP server inside the loop, made of libevent's HTTP server; net/http is the
 * only room that includes it.  It is meant for a few short answers to untrusted
 * clients: each connection carries one request, has a time limit for request and
 * answer, and the number of connections is limited.  Malformed or oversized requests
 * are answered here; `asked` gets all others.
 */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/loop.h"

struct http;
struct http_request; /* a request, from `asked` to the end of its answer */
struct tls_context;

/* The most connections at a time; if there are more, those that have asked for nothing
 * yet give way, and until then they wait in the kernel's queue.  A burst can exceed
 * it by the length of that queue for each listening socket. */
enum { HTTP_CONNECTIONS_MOST = 128, HTTP_BACKLOG = 16 };

struct http_ops {
	/* A request came; answer it now or later. */
	void (*asked)(void *ctx, struct http_request *r);
	/* What http_put was given has been sent; http_put may be called again. */
	void (*wanted)(void *ctx, struct http_request *r);
	/* The peer has closed, or its time is over, before the end of the answer.
	 * Nothing more may be sent; the request is freed when this returns. */
	void (*gone)(void *ctx, struct http_request *r);
	/* A new connection is closed: there is no memory for its TLS. */
	void (*failed)(void *ctx);
};

/* ops and ctx are borrowed. */
struct http *http_new(struct loop *loop, const struct http_ops *ops, void *ctx);
/* Closes everything; calls `gone` for each request without a complete answer. */
void http_free(struct http **http);

/* Serves a listening socket; fd belongs to http from then on, even after a failure.
 * context: all connections use TLS (a reference is taken); NULL: no TLS.  -1 and
 * err. */
int http_listen(
    struct http *http, int fd, struct tls_context *context, struct err *err);
/* Closes the listening sockets.  Connections continue. */
void http_stop_listening(struct http *http);

/* ---- one request ---- */

bool http_is_get(const struct http_request *r);
bool http_is_head(const struct http_request *r);
/* The path of the request without the query string, as it was sent; never NULL. */
const char *http_path(const struct http_request *r);
/* The value of a header, or NULL. */
const char *http_header(const struct http_request *r, const char *name);
/* Pointer for the owner's use. */
void http_set_data(struct http_request *r, void *data);
void *http_data(const struct http_request *r);

/* Adds a header to the answer, before it begins. */
void http_add_header(struct http_request *r, const char *name, const char *value);
/* Sends a complete answer and ends the request. */
void http_answer(
    struct http_request *r, int status, const char *type, const char *body);
/* Sends an answer in parts: call http_begin, http_put, http_put again each time
 * `wanted` is called, and http_end, which ends the request.  No part may be empty. */
void http_begin(struct http_request *r, const char *type);
void http_put(struct http_request *r, const struct buf *part);
void http_end(struct http_request *r);
/* Ends the connection before the answer is complete; `gone` is called later. */
void http_give_up(struct http_request *r);

#endif
