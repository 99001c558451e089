/*
 * Runs libevent's HTTP server in the loop and adds what it lacks: limits of the number
 * of connections and of their time.  libevent does not report the end of a connection,
 * so connections are counted by looking for their events in its event base.  The owner
 * decides how requests are answered.
 */
#include "net/http.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>

#include "base/mem.h"
#include "net/loop_events.h"
#include "net/tls.h"

enum {
	HEADERS_MOST = 8 * 1024,
	BODY_MOST = 1024,
	INPUT_MOST = 32 * 1024, /* the most bytes that a peer can make us keep */
	TICK_US = 500000,
	ASK_US = 10000000,    /* limit of time from accept to the end of the request */
	ANSWER_US = 60000000, /* limit of time from there to the end of the answer */
	/* at the limit of connections, one that has asked for nothing for so long gives
	 * way to another, the oldest first; others ask sooner */
	GIVE_WAY_US = 50000,
	IDLE_SECONDS = 60, /* libevent's own limit, which is longer than ours */
};

/* A listening socket. */
struct listening {
	struct node node;
	struct http *http; /* borrowed */
	struct evhttp *server;
	struct evconnlistener *listener; /* owned by the server; NULL: closed */
	struct evhttp_bound_socket *bound;
	struct tls_context *context; /* one reference; NULL: no TLS */
};

/* An accepted connection. */
struct connection {
	const struct bufferevent *bev; /* owned by libevent, which may have freed it */
	uint64_t came_us, due_us;
	bool is_seen;
	bool has_asked;  /* its request is complete */
	bool is_leaving; /* it was shut down, and counts no more */
};

struct http {
	struct loop *loop;
	const struct http_ops *ops;
	void *ctx;
	struct list listenings; /* struct listening by .node */
	struct list requests;   /* struct http_request by .node */
	struct connection *connections;
	size_t connection_count, connection_room;
	struct deadline tick;
	struct later enforcing; /* closes connections beyond the limit */
};

struct http_request {
	struct node node;
	struct http *http;
	struct evhttp_request *request;
	void *data;
	char *path; /* owned */
};

/* ---- connections and their limits ---- */

static struct connection *find_connection(struct http *h, const void *bev)
{
	for (size_t i = 0; i < h->connection_count; i++)
		if (h->connections[i].bev == bev)
			return &h->connections[i];
	return NULL;
}

static struct bufferevent *bev_of(const struct http_request *r)
{
	struct evhttp_connection *c = evhttp_request_get_connection(r->request);

	return c ? evhttp_connection_get_bufferevent(c) : NULL;
}

/* Marks the connection that an event belongs to.  Events of a connection have its
 * bufferevent as argument. */
static int mark_seen(
    const struct event_base *base, const struct event *event, void *ctx)
{
	struct connection *connection =
	    find_connection(ctx, event_get_callback_arg(event));

	(void)base;
	if (connection)
		connection->is_seen = true;
	return 0;
}

/* Removes connections that have ended.  While its answer is being made, a connection
 * may have no event, so those of requests are kept. */
static void drop_ended(struct http *h)
{
	struct event_base *base = loop_events_base(h->loop);
	const struct http_request *r;
	struct connection *connection;
	size_t kept = 0;

	for (size_t i = 0; i < h->connection_count; i++)
		h->connections[i].is_seen = false;
	event_base_foreach_event(base, mark_seen, h);
	list_for (r, &h->requests, node) {
		connection = find_connection(h, bev_of(r));
		if (connection)
			connection->is_seen = true;
	}
	for (size_t i = 0; i < h->connection_count; i++)
		if (h->connections[i].is_seen)
			h->connections[kept++] = h->connections[i];
	h->connection_count = kept;
}

/* Called for a new bufferevent.  If an old connection had the same address, it has
 * ended, and its entry is reused. */
static size_t staying_count(const struct http *h)
{
	size_t count = 0;

	for (size_t i = 0; i < h->connection_count; i++)
		count += !h->connections[i].is_leaving;
	return count;
}

static bool is_full(const struct http *h)
{
	return staying_count(h) >= HTTP_CONNECTIONS_MOST;
}

static void add_connection(struct http *h, const struct bufferevent *bev)
{
	struct connection *connection = find_connection(h, bev);

	if (!connection) {
		if (h->connection_count == h->connection_room) {
			h->connection_room =
			    h->connection_room * 2 + HTTP_CONNECTIONS_MOST;
			h->connections = mem_resize(h->connections,
			    h->connection_room * sizeof(*h->connections));
		}
		connection = &h->connections[h->connection_count++];
	}
	*connection = (struct connection){
	    .bev = bev,
	    .came_us = loop_now(h->loop),
	    .due_us = loop_now(h->loop) + ASK_US,
	    .is_seen = true,
	};
	/* more than the limit have come at once */
	if (staying_count(h) > HTTP_CONNECTIONS_MOST) {
		connection->is_leaving = true;
		loop_later(h->loop, &h->enforcing);
	}
}

static void accept_connections(struct http *h, bool is_on)
{
	struct listening *listening;

	list_for (listening, &h->listenings, node) {
		if (!listening->listener)
			continue;
		if (is_on)
			evconnlistener_enable(listening->listener);
		else
			evconnlistener_disable(listening->listener);
	}
	loop_events_follow(h->loop);
}

/* Shuts the socket down; libevent notices the end of the connection and frees it. */
static void shut_down(struct connection *connection)
{
	struct bufferevent *bev = (struct bufferevent *)(uintptr_t)connection->bev;
	int fd = bufferevent_getfd(bev);

	connection->is_leaving = true;
	if (fd < 0)
		return;
	shutdown(fd, SHUT_RDWR);
	bufferevent_enable(bev, EV_READ);
}

/* At the limit: the connection that has asked for nothing for the longest time gives
 * way. */
static void make_room(struct http *h)
{
	uint64_t before_us = loop_now(h->loop) - GIVE_WAY_US;
	struct connection *oldest = NULL, *c = h->connections;

	for (size_t i = 0; i < h->connection_count; i++, c++)
		if (!c->has_asked && !c->is_leaving && c->came_us <= before_us &&
		    (!oldest || c->came_us < oldest->came_us))
			oldest = c;
	if (oldest)
		shut_down(oldest);
}

static void enforce_limits(struct later *l)
{
	struct http *h = container_of(l, struct http, enforcing);
	uint64_t now_us = loop_now(h->loop);

	drop_ended(h);
	for (size_t i = 0; i < h->connection_count; i++)
		if (h->connections[i].is_leaving || h->connections[i].due_us <= now_us)
			shut_down(&h->connections[i]);
	if (is_full(h))
		make_room(h);
	accept_connections(h, !is_full(h));
}

/* Checks the limits of time twice per second, or more often while connections wait for
 * room. */
static void tick(struct deadline *d)
{
	struct http *h = container_of(d, struct http, tick);

	enforce_limits(&h->enforcing);
	deadline_set(
	    h->loop, d, loop_now(h->loop) + (is_full(h) ? GIVE_WAY_US : TICK_US));
}

/* ---- connections ---- */

static struct bufferevent *new_bufferevent(struct event_base *base, void *ctx)
{
	struct listening *listening = ctx;
	struct http *h = listening->http;
	struct ssl_st *ssl =
	    listening->context ? tls_context_accept(listening->context) : NULL;
	struct bufferevent *bev;

	if (ssl)
		bev = bufferevent_openssl_socket_new(
		    base, -1, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
	else
		bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
	assert(bev);
	if (ssl)
		bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
	bufferevent_setwatermark(bev, EV_READ, 0, INPUT_MOST);
	/* none that libevent has freed may give way to this one */
	if (h->connection_count + 1 >= HTTP_CONNECTIONS_MOST)
		drop_ended(h);
	add_connection(h, bev);
	if (listening->context && !ssl) {
		find_connection(h, bev)->is_leaving = true;
		loop_later(h->loop, &h->enforcing);
		h->ops->failed(h->ctx);
	}
	if (is_full(h))
		make_room(h);
	if (is_full(h)) {
		accept_connections(h, false);
		deadline_set(h->loop, &h->tick, loop_now(h->loop) + GIVE_WAY_US);
	}
	return bev;
}

/* Accepting failed, for example because no descriptor is left.  tick() enables the
 * listener again. */
static void accept_failed(struct evconnlistener *listener, void *ctx)
{
	(void)ctx;
	evconnlistener_disable(listener);
}

/* ---- requests ---- */

static void request_free(struct http_request *r)
{
	list_remove(&r->http->requests, &r->node);
	mem_free(r->path);
	mem_free(r);
}

/* Is called when the connection ends before its request.  libevent frees the request if
 * it still belongs to the connection. */
static void connection_closed(struct evhttp_connection *c, void *ctx)
{
	struct http_request *r = ctx;
	struct evhttp_request *request = r->request;

	(void)c;
	r->http->ops->gone(r->http->ctx, r);
	request_free(r);
	if (!evhttp_request_get_connection(request))
		evhttp_request_free(request);
}

/* From a complete request on, and again after each call by which libevent sends:
 * otherwise it reads on, and takes the end of what the client sends for the end of the
 * connection.  A client may close its side when it has asked.  If it has gone, sending
 * fails. */
static void stop_reading(struct http *h, struct bufferevent *bev)
{
	if (bev)
		bufferevent_disable(bev, EV_READ);
	loop_events_follow(h->loop);
}

static void request_came(struct evhttp_request *request, void *ctx)
{
	struct listening *listening = ctx;
	struct http *h = listening->http;
	struct evhttp_connection *c = evhttp_request_get_connection(request);
	struct connection *connection =
	    find_connection(h, evhttp_connection_get_bufferevent(c));
	struct http_request *r;
	bool is_connect = evhttp_request_get_command(request) == EVHTTP_REQ_CONNECT;

	/* no answer in clear where there was no memory for TLS */
	if (connection && connection->is_leaving) {
		shut_down(connection);
		evhttp_send_reply(request, HTTP_SERVUNAVAIL, NULL, NULL);
		return;
	}
	r = mem_zero(sizeof(*r));
	r->http = h;
	r->request = request;
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(request);
	const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
	r->path = mem_strdup(path && *path ? path : "/");
	list_push_back(&h->requests, &r->node);
	evhttp_connection_set_closecb(c, connection_closed, r);
	if (connection) {
		connection->due_us = loop_now(h->loop) + ANSWER_US;
		connection->has_asked = true;
	}
	struct bufferevent *bev = bev_of(r);
	stop_reading(h, bev);
	h->ops->asked(h->ctx, r);
	/* libevent never ends a connection on which CONNECT came */
	if (is_connect && (connection = find_connection(h, bev)))
		shut_down(connection);
}

bool http_is_get(const struct http_request *r)
{
	return evhttp_request_get_command(r->request) == EVHTTP_REQ_GET;
}

bool http_is_head(const struct http_request *r)
{
	return evhttp_request_get_command(r->request) == EVHTTP_REQ_HEAD;
}

const char *http_path(const struct http_request *r)
{
	return r->path;
}

const char *http_header(const struct http_request *r, const char *name)
{
	return evhttp_find_header(evhttp_request_get_input_headers(r->request), name);
}

void http_set_data(struct http_request *r, void *data)
{
	r->data = data;
}

void *http_data(const struct http_request *r)
{
	return r->data;
}

/* ---- answers ---- */

static const char *reason_of(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	default:
		return "Service Unavailable";
	}
}

static void put_headers(struct http_request *r, const char *type)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(r->request);

	evhttp_add_header(headers, "Content-Type", type);
	evhttp_add_header(headers, "Cache-Control", "no-store");
	evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
	evhttp_add_header(headers, "Connection", "close");
}

/* Frees our part of a request; libevent ends the rest. */
static struct evhttp_request *release(struct http_request *r)
{
	struct evhttp_request *request = r->request;
	struct evhttp_connection *c = evhttp_request_get_connection(request);

	if (c)
		evhttp_connection_set_closecb(c, NULL, NULL);
	request_free(r);
	return request;
}

void http_add_header(struct http_request *r, const char *name, const char *value)
{
	evhttp_add_header(evhttp_request_get_output_headers(r->request), name, value);
}

void http_answer(struct http_request *r, int status, const char *type, const char *body)
{
	struct evbuffer *bytes = evbuffer_new();
	struct http *h = r->http;
	struct bufferevent *bev;

	assert(bytes);
	put_headers(r, type);
	/* libevent would send it behind the headers of an answer to HEAD, too */
	if (!http_is_head(r))
		evbuffer_add(bytes, body, strlen(body));
	bev = bev_of(r);
	evhttp_send_reply(release(r), status, reason_of(status), bytes);
	stop_reading(h, bev);
	evbuffer_free(bytes);
}

void http_begin(struct http_request *r, const char *type)
{
	put_headers(r, type);
	evhttp_send_reply_start(r->request, 200, reason_of(200));
	stop_reading(r->http, bev_of(r));
}

static void part_left(struct evhttp_connection *c, void *ctx)
{
	struct http_request *r = ctx;

	(void)c;
	r->http->ops->wanted(r->http->ctx, r);
}

void http_put(struct http_request *r, const struct buf *part)
{
	struct evbuffer *bytes = evbuffer_new();

	assert(part->len > 0);
	assert(bytes);
	evbuffer_add(bytes, part->bytes, part->len);
	evhttp_send_reply_chunk_with_cb(r->request, bytes, part_left, r);
	stop_reading(r->http, bev_of(r));
	evbuffer_free(bytes);
}

void http_end(struct http_request *r)
{
	struct bufferevent *bev = bev_of(r);
	struct http *h = r->http;

	evhttp_send_reply_end(release(r));
	stop_reading(h, bev);
}

void http_give_up(struct http_request *r)
{
	struct connection *connection = find_connection(r->http, bev_of(r));

	if (connection)
		shut_down(connection);
	loop_events_follow(r->http->loop);
}

/* ---- the server ---- */

struct http *http_new(struct loop *loop, const struct http_ops *ops, void *ctx)
{
	struct http *h = mem_zero(sizeof(*h));

	h->loop = loop;
	h->ops = ops;
	h->ctx = ctx;
	list_init(&h->listenings);
	list_init(&h->requests);
	deadline_init(&h->tick, tick);
	h->enforcing.run = enforce_limits;
	deadline_set(loop, &h->tick, loop_now(loop) + TICK_US);
	return h;
}

static void listening_free(struct listening *listening)
{
	list_remove(&listening->http->listenings, &listening->node);
	if (listening->server)
		evhttp_free(listening->server);
	tls_context_unref(&listening->context);
	mem_free(listening);
}

static struct evhttp *new_server(struct listening *listening)
{
	struct evhttp *server = evhttp_new(loop_events_base(listening->http->loop));

	if (!server)
		return NULL;
	/* all methods are accepted here, because the owner answers unsupported ones */
	evhttp_set_allowed_methods(
	    server, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST |
			EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS |
			EVHTTP_REQ_TRACE | EVHTTP_REQ_CONNECT | EVHTTP_REQ_PATCH);
	evhttp_set_max_headers_size(server, HEADERS_MOST);
	evhttp_set_max_body_size(server, BODY_MOST);
	evhttp_set_timeout(server, IDLE_SECONDS);
	evhttp_set_bevcb(server, new_bufferevent, listening);
	evhttp_set_gencb(server, request_came, listening);
	return server;
}

int http_listen(struct http *http, int fd, struct tls_context *context, struct err *err)
{
	struct listening *listening = mem_zero(sizeof(*listening));

	listening->http = http;
	listening->context = context ? tls_context_ref(context) : NULL;
	list_push_back(&http->listenings, &listening->node);
	listening->server = new_server(listening);
	if (listening->server)
		listening->bound =
		    evhttp_accept_socket_with_handle(listening->server, fd);
	if (!listening->bound) {
		close(fd);
		listening_free(listening);
		return err_set(err, "libevent cannot serve the socket");
	}
	listening->listener = evhttp_bound_socket_get_listener(listening->bound);
	evconnlistener_set_error_cb(listening->listener, accept_failed);
	loop_events_follow(http->loop);
	return 0;
}

void http_stop_listening(struct http *http)
{
	struct listening *listening;

	loop_events_leave(http->loop);
	list_for (listening, &http->listenings, node) {
		if (listening->bound)
			evhttp_del_accept_socket(listening->server, listening->bound);
		listening->bound = NULL;
		listening->listener = NULL;
	}
	loop_events_follow(http->loop);
}

void http_free(struct http **hp)
{
	struct http *h = *hp;
	struct listening *listening, *next;

	if (!h)
		return;
	loop_events_leave(h->loop);
	list_for_safe (listening, next, &h->listenings, node)
		listening_free(listening);
	loop_events_follow(h->loop);
	deadline_clear(h->loop, &h->tick);
	later_cancel(h->loop, &h->enforcing);
	mem_free(h->connections);
	mem_free(h);
	*hp = NULL;
}
