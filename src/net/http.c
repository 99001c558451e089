/*
 * libevent's HTTP server in the loop, and what it lacks: a limit of connections, and of
 * the time that one may take.  It does not tell when a connection ends, so they are
 * counted by what it waits for: each has an event in its base.
 * Not here: what is asked and answered.
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
#include "net/tls.h"

enum {
	HEADERS_MOST = 8 * 1024,
	BODY_MOST = 1024,
	INPUT_MOST = 32 * 1024, /* what a peer can make us keep */
	TICK_US = 500000,
	ASK_US = 10000000,    /* from accept to the end of the request */
	ANSWER_US = 60000000, /* from there to the end of the answer */
	IDLE_SECONDS = 60,    /* libevent's own limits; ours come before them */
};

/* A listening socket. */
struct door {
	struct node node;
	struct http *http; /* borrowed */
	struct evhttp *server;
	struct evconnlistener *listener; /* the server's; NULL: closed */
	struct evhttp_bound_socket *bound;
	struct tls_context *context; /* one reference; NULL: in clear */
};

/* A connection that was accepted. */
struct caller {
	const struct bufferevent *bev; /* libevent's; may be gone */
	uint64_t due_us;
	bool is_there;
	bool is_too_many;
};

struct http {
	struct loop *loop;
	const struct http_ops *ops;
	void *ctx;
	struct list doors;    /* struct door by .node */
	struct list requests; /* struct http_request by .node */
	struct caller *callers;
	size_t caller_count, caller_room;
	struct deadline tick;
	struct later cleaning; /* those who are too many are sent away */
};

struct http_request {
	struct node node;
	struct http *http;
	struct evhttp_request *request;
	void *data;
	char *path; /* owned */
};

/* ---- who is there ---- */

static struct caller *find_caller(struct http *h, const void *bev)
{
	for (size_t i = 0; i < h->caller_count; i++)
		if (h->callers[i].bev == bev)
			return &h->callers[i];
	return NULL;
}

static struct bufferevent *bev_of(const struct http_request *r)
{
	struct evhttp_connection *c = evhttp_request_get_connection(r->request);

	return c ? evhttp_connection_get_bufferevent(c) : NULL;
}

/* The events of a connection have its bufferevent as argument. */
static int note_there(
    const struct event_base *base, const struct event *event, void *ctx)
{
	struct caller *caller = find_caller(ctx, event_get_callback_arg(event));

	(void)base;
	if (caller)
		caller->is_there = true;
	return 0;
}

/* Forgets those who have left.  One whose answer is being made may wait for nothing. */
static void count_again(struct http *h)
{
	struct event_base *base = loop_libevent(h->loop);
	const struct http_request *r;
	struct caller *caller;
	size_t kept = 0;

	for (size_t i = 0; i < h->caller_count; i++)
		h->callers[i].is_there = false;
	event_base_foreach_event(base, note_there, h);
	list_for (r, &h->requests, node) {
		caller = find_caller(h, bev_of(r));
		if (caller)
			caller->is_there = true;
	}
	for (size_t i = 0; i < h->caller_count; i++)
		if (h->callers[i].is_there)
			h->callers[kept++] = h->callers[i];
	h->caller_count = kept;
}

/* Called for a bufferevent that was just made: one of the same address has left. */
static void add_caller(struct http *h, const struct bufferevent *bev)
{
	struct caller *caller = find_caller(h, bev);

	if (!caller) {
		if (h->caller_count == h->caller_room) {
			h->caller_room = h->caller_room * 2 + HTTP_CONNECTIONS_MOST;
			h->callers = mem_resize(
			    h->callers, h->caller_room * sizeof(*h->callers));
		}
		caller = &h->callers[h->caller_count++];
	}
	*caller = (struct caller){
	    .bev = bev,
	    .due_us = loop_now(h->loop) + ASK_US,
	    .is_there = true,
	    .is_too_many = h->caller_count > HTTP_CONNECTIONS_MOST,
	};
	if (caller->is_too_many)
		loop_later(h->loop, &h->cleaning);
}

static void open_doors(struct http *h, bool is_open)
{
	struct door *door;

	list_for (door, &h->doors, node) {
		if (!door->listener)
			continue;
		if (is_open)
			evconnlistener_enable(door->listener);
		else
			evconnlistener_disable(door->listener);
	}
}

/* libevent sees the end of the connection, and frees it. */
static void hang_up(const struct caller *caller)
{
	int fd = bufferevent_getfd((struct bufferevent *)(uintptr_t)caller->bev);

	if (fd >= 0)
		shutdown(fd, SHUT_RDWR);
}

static void clean(struct later *l)
{
	struct http *h = container_of(l, struct http, cleaning);
	uint64_t now_us = loop_now(h->loop);

	count_again(h);
	for (size_t i = 0; i < h->caller_count; i++)
		if (h->callers[i].is_too_many || h->callers[i].due_us <= now_us)
			hang_up(&h->callers[i]);
	open_doors(h, h->caller_count < HTTP_CONNECTIONS_MOST);
}

/* Limits of time are looked at twice per second while somebody is there; and libevent's
 * own clocks go only when it is asked. */
static void tick(struct deadline *d)
{
	struct http *h = container_of(d, struct http, tick);

	loop_ask_libevent(h->loop);
	clean(&h->cleaning);
	deadline_set(h->loop, d, loop_now(h->loop) + TICK_US);
}

/* ---- connections ---- */

static struct bufferevent *new_bufferevent(struct event_base *base, void *ctx)
{
	struct door *door = ctx;
	struct http *h = door->http;
	struct bufferevent *bev;

	if (door->context)
		bev = bufferevent_openssl_socket_new(base, -1,
		    tls_context_accept(door->context), BUFFEREVENT_SSL_ACCEPTING,
		    BEV_OPT_CLOSE_ON_FREE);
	else
		bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
	assert(bev);
	if (door->context)
		bufferevent_openssl_set_allow_dirty_shutdown(bev, 1);
	bufferevent_setwatermark(bev, EV_READ, 0, INPUT_MOST);
	if (h->caller_count >= HTTP_CONNECTIONS_MOST)
		count_again(h);
	add_caller(h, bev);
	if (h->caller_count >= HTTP_CONNECTIONS_MOST)
		open_doors(h, false);
	return bev;
}

/* No descriptor is left, or the like: the clock opens it again. */
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

/* libevent frees its request if it still belongs to the connection. */
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

static char *path_of(struct evhttp_request *request)
{
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(request);
	const char *path = uri ? evhttp_uri_get_path(uri) : NULL;

	return mem_strdup(path && *path ? path : "/");
}

static void request_came(struct evhttp_request *request, void *ctx)
{
	struct door *door = ctx;
	struct http *h = door->http;
	struct evhttp_connection *c = evhttp_request_get_connection(request);
	struct http_request *r = mem_zero(sizeof(*r));
	struct caller *caller;

	r->http = h;
	r->request = request;
	r->path = path_of(request);
	list_push_back(&h->requests, &r->node);
	evhttp_connection_set_closecb(c, connection_closed, r);
	caller = find_caller(h, bev_of(r));
	if (caller)
		caller->due_us = loop_now(h->loop) + ANSWER_US;
	h->ops->asked(h->ctx, r);
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

/* What follows is libevent's. */
static struct evhttp_request *release(struct http_request *r)
{
	struct evhttp_request *request = r->request;
	struct evhttp_connection *c = evhttp_request_get_connection(request);

	if (c)
		evhttp_connection_set_closecb(c, NULL, NULL);
	request_free(r);
	return request;
}

void http_answer(struct http_request *r, int status, const char *type,
    const char *allow, const char *body)
{
	struct evbuffer *bytes = evbuffer_new();

	assert(bytes);
	put_headers(r, type);
	if (allow)
		evhttp_add_header(
		    evhttp_request_get_output_headers(r->request), "Allow", allow);
	evbuffer_add(bytes, body, strlen(body));
	evhttp_send_reply(release(r), status, reason_of(status), bytes);
	evbuffer_free(bytes);
}

void http_begin(struct http_request *r, const char *type)
{
	put_headers(r, type);
	evhttp_send_reply_start(r->request, 200, reason_of(200));
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
	evbuffer_free(bytes);
}

void http_end(struct http_request *r)
{
	evhttp_send_reply_end(release(r));
}

/* ---- the whole ---- */

struct http *http_new(struct loop *loop, const struct http_ops *ops, void *ctx)
{
	struct http *h = mem_zero(sizeof(*h));

	h->loop = loop;
	h->ops = ops;
	h->ctx = ctx;
	list_init(&h->doors);
	list_init(&h->requests);
	deadline_init(&h->tick, tick);
	h->cleaning.run = clean;
	deadline_set(loop, &h->tick, loop_now(loop) + TICK_US);
	return h;
}

static void door_free(struct door *door)
{
	list_remove(&door->http->doors, &door->node);
	if (door->server)
		evhttp_free(door->server);
	tls_context_unref(&door->context);
	mem_free(door);
}

static struct evhttp *new_server(struct door *door)
{
	struct evhttp *server = evhttp_new(loop_libevent(door->http->loop));

	if (!server)
		return NULL;
	/* Whatever else it is, it is refused in the owner's words. */
	evhttp_set_allowed_methods(
	    server, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST |
			EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS |
			EVHTTP_REQ_TRACE | EVHTTP_REQ_CONNECT | EVHTTP_REQ_PATCH);
	evhttp_set_max_headers_size(server, HEADERS_MOST);
	evhttp_set_max_body_size(server, BODY_MOST);
	evhttp_set_timeout(server, IDLE_SECONDS);
	evhttp_set_bevcb(server, new_bufferevent, door);
	evhttp_set_gencb(server, request_came, door);
	return server;
}

int http_listen(struct http *http, int fd, struct tls_context *context, struct err *err)
{
	struct door *door = mem_zero(sizeof(*door));

	door->http = http;
	door->context = context ? tls_context_ref(context) : NULL;
	list_push_back(&http->doors, &door->node);
	door->server = new_server(door);
	if (door->server)
		door->bound = evhttp_accept_socket_with_handle(door->server, fd);
	if (!door->bound) {
		close(fd);
		door_free(door);
		return err_set(err, "libevent cannot serve the socket");
	}
	door->listener = evhttp_bound_socket_get_listener(door->bound);
	evconnlistener_set_error_cb(door->listener, accept_failed);
	return 0;
}

void http_stop_listening(struct http *http)
{
	struct door *door;

	list_for (door, &http->doors, node) {
		if (door->bound)
			evhttp_del_accept_socket(door->server, door->bound);
		door->bound = NULL;
		door->listener = NULL;
	}
}

void http_free(struct http **hp)
{
	struct http *h = *hp;
	struct door *door, *next;

	if (!h)
		return;
	list_for_safe (door, next, &h->doors, node)
		door_free(door);
	deadline_clear(h->loop, &h->tick);
	later_cancel(h->loop, &h->cleaning);
	mem_free(h->callers);
	mem_free(h);
	*hp = NULL;
}
