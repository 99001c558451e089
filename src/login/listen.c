/*
 * Listening sockets, accepting, and the startup phase up to the StartupMessage, which
 * login.c handles.
 */
#include "login/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "cancel/cancel.h"
#include "login/evict.h"
#include "login/login.h"
#include "login/long_parts.h"
#include "login/proxy.h"
#include "session/client.h"
#include "session/conn_move.h"
#include "session/dispatch.h"
#include "session/listener.h"
#include "session/reserved_fds.h"
#include "session/tls_setup.h"
#include "session/workers.h"
#include "wire/message.h"
#include "wire/proxy_header.h"

enum {
	ACCEPT_PAUSE_US = 5000000, /* after an accept that failed for no known reason */
	SPARE_PAUSE_US = 100000,   /* at the descriptor limit, with all spares in use */
	EVICTED_PAUSE_US =
	    10000, /* at the descriptor limit, until evicted clients have closed */
	LOOK_AGAIN_MS = 10,
	ADDRESSES_PER_NAME = 32,
	FIRST_PASSED_FD = 3,
	TLS_HANDSHAKE_RECORD = 0x16, /* RFC 8446 section 5.1 */
};

/* ---- startup phase ---- */

static const struct conn_ops startup_ops, encrypted_ops;

static bool has_tls(const struct conn *conn)
{
	return conn->remote.family != AF_UNIX && tls_setup_client(conn->site->tls);
}

/* An SSLRequest or GSSENCRequest must come alone: bytes behind it came in clear and
 * would be taken for encrypted ones. */
static enum step startup_check_alone(
    struct client *client, const struct message *m, enum error_id extra_bytes)
{
	if (m->size != 8) {
		client_malformed(&client->conn, m->bytes, m->have);
		return STEP_CLOSE;
	}
	if (m->behind > 0) {
		client_fatal(client, extra_bytes);
		return STEP_CLOSE;
	}
	return STEP_NEXT;
}

static enum step startup_answer(struct client *client, const uint8_t *answer)
{
	stream_put(&client->conn.stream, NULL, answer, 1);
	return STEP_NEXT;
}

static enum step startup_encrypt(struct conn *conn, const uint8_t *initial, size_t len)
{
	conn_hand_on(conn, &encrypted_ops);
	return conn_secure(conn, tls_setup_client(conn->site->tls), NULL, initial, len,
		   "failed to accept SSL") < 0
		   ? STEP_CLOSE
		   : STEP_NEXT;
}

static enum step startup_ssl(struct client *client, const struct message *m)
{
	static const uint8_t yes = 'S', no = 'N';
	struct conn *conn = &client->conn;

	if (conn->ops == &encrypted_ops) {
		conn_doom_quietly(conn, "SSL req inside SSL");
		return STEP_CLOSE;
	}
	if (startup_check_alone(client, m, ERROR_UNENCRYPTED_SSL) != STEP_NEXT)
		return STEP_CLOSE;
	if (!has_tls(conn))
		return startup_answer(client, &no);
	startup_answer(client, &yes);
	return startup_encrypt(conn, NULL, 0);
}

static enum step startup_cancel(struct client *client, const struct message *m)
{
	/* 8 bytes of header, process id, secret */
	if (m->size < 8 + 4 + 4 || m->size > 8 + CANCEL_REQUEST_KEY_MAX) {
		conn_doom(&client->conn, "bad cancel request");
		return STEP_CLOSE;
	}
	return cancel_begin(client, m);
}

/* Waits for the rest of a packet.  Beyond max_client_conn only the console lets
 * somebody in, whose packets are short: nothing long is kept there. */
static enum step startup_wait(struct client *client, const struct message *m)
{
	struct site *site = client->conn.site;

	if (m->have > LONG_PARTS_FROM && login_is_full(site)) {
		client_fatal(client, ERROR_NO_MORE_CONNECTIONS);
		return STEP_CLOSE;
	}
	long_parts_make_room(client, m->have);
	return STEP_MORE;
}

static enum step startup_message(struct conn *conn, const struct message *m)
{
	struct client *client = conn_client(conn);

	if (m->type == 'p') {
		client_fatal(client, ERROR_PASSWORD_BEFORE_STARTUP);
		return STEP_CLOSE;
	}
	if (m->type != 0) {
		if (client_is_http(m->bytes, m->have))
			client_malformed(conn, m->bytes, m->have);
		else
			conn_doom(conn, "%s", error_text(ERROR_BAD_PACKET));
		return STEP_CLOSE;
	}
	if (!message_is_whole(m))
		return startup_wait(client, m);
	switch (m->code) {
	case STARTUP_SSL:
		return startup_ssl(client, m);
	case STARTUP_GSSENC:
		if (startup_check_alone(client, m, ERROR_UNENCRYPTED_GSS) != STEP_NEXT)
			return STEP_CLOSE;
		return startup_answer(client, (const uint8_t *)"N");
	case STARTUP_CANCEL:
		return startup_cancel(client, m);
	case PROTOCOL_V2:
		client_fatal(client, ERROR_OLD_PROTOCOL);
		return STEP_CLOSE;
	}
	if (m->code >> 16 != 3) {
		client_malformed(conn, m->bytes, m->have);
		return STEP_CLOSE;
	}
	if (tls_setup_client_mode(conn->site->tls) >= TLS_REQUIRE && has_tls(conn) &&
	    conn->ops != &encrypted_ops) {
		client_fatal(client, ERROR_SSL_REQUIRED);
		return STEP_CLOSE;
	}
	return login_begin(client, m);
}

static void startup_arm(struct conn *conn)
{
	uint64_t limit = site_settings(conn->site)->client_login_timeout;
	conn_set_deadline(conn, limit ? conn->connect_us + limit : 0);
}

static void startup_expired(struct conn *conn)
{
	client_fatal(conn_client(conn), ERROR_LOGIN_TIMEOUT);
}

static void startup_ended(struct conn *conn, const struct err *err)
{
	/* a lost connection is not reported as a failure of TLS */
	if (err && conn->ops == &encrypted_ops &&
	    stream_has_tls_failure(&conn->stream) && !stream_tls(&conn->stream))
		conn_log(conn, LEVEL_WARNING | KIND_TLS, "TLS handshake error: %s",
		    err->text);
	conn_doom_quietly(conn, "client unexpected eof");
}

static void startup_closed(struct conn *conn, const char *reason)
{
	(void)reason;
	client_leave(conn_client(conn));
}

/* TLS may begin with the first byte, without being asked for (PostgreSQL 17, "SSL
 * Session Encryption"). */
static enum step startup_first(
    struct conn *conn, const uint8_t *p, size_t len, size_t *taken)
{
	(void)taken;
	if (len > 4 && proxy_header_begins(p, len))
		conn_log(conn, LEVEL_WARNING | KIND_PROTOCOL,
		    "PROXY header from an address that proxy_protocol_from does not "
		    "list");
	if (*p == TLS_HANDSHAKE_RECORD && has_tls(conn))
		return startup_encrypt(conn, p, len);
	conn_hand_on(conn, &startup_ops);
	return STEP_MORE;
}

static const struct conn_ops first_ops = {
    .name = "first bytes",
    .message = startup_message,
    .expired = startup_expired,
    .review = startup_arm,
    .malformed = client_malformed,
    .ended = startup_ended,
    .closed = startup_closed,
    .raw = startup_first,
};

static const struct conn_ops startup_ops = {
    .name = "startup",
    .message = startup_message,
    .expired = startup_expired,
    .review = startup_arm,
    .malformed = client_malformed,
    .ended = startup_ended,
    .closed = startup_closed,
};

/* The phase of the startup packet, inside TLS. */
static const struct conn_ops encrypted_ops = {
    .name = "encrypted startup",
    .message = startup_message,
    .expired = startup_expired,
    .review = startup_arm,
    .malformed = client_malformed,
    .ended = startup_ended,
    .closed = startup_closed,
};

/* ---- accepting ---- */

static void socket_options(const struct settings *s, struct sock_options *o)
{
	*o = (struct sock_options){
	    .defer_accept = s->tcp_defer_accept,
	    .keepalive = s->tcp_keepalive,
	    .reuseport = s->so_reuseport,
	    .buffer = s->tcp_socket_buffer,
	    .keepcnt = s->tcp_keepcnt,
	    .keepidle = s->tcp_keepidle,
	    .keepintvl = s->tcp_keepintvl,
	    .user_timeout_ms = s->tcp_user_timeout,
	    .backlog = s->listen_backlog,
	    .unix_mode = s->unix_socket_mode,
	    .unix_group = s->unix_socket_group,
	};
}

static void greet_client(struct site *site, bool is_unix, int fd,
    const struct sock_addr *peer, bool is_spare)
{
	const struct settings *settings = site_settings(site);
	struct client *client = client_new(site, &first_ops);
	struct conn *conn = &client->conn;
	enum strangers_verdict verdict = STRANGERS_FIT;
	unsigned uid;

	conn->remote = *peer;
	conn->unix_port = (uint16_t)settings->listen_port;
	client->is_spare = is_spare;
	if (is_unix && sock_peer(fd, &conn->peer_pid, &uid) == 0)
		client->is_unix_owner = uid == getuid();
	if (proxy_is_expected(client))
		proxy_expect(client, &first_ops);
	else
		verdict = client_appears(client);
	startup_arm(conn);
	/* With tcp_defer_accept the first bytes have come already. */
	if (!is_unix && settings->tcp_defer_accept)
		conn_open_recv_now(conn, fd);
	else
		conn_open(conn, fd);
	evict_for(client, verdict);
}

/* Serves the connection here, or gives it to the worker with the least load. */
static void place_client(
    struct listener *l, int fd, const struct sock_addr *peer, bool is_spare)
{
	struct worker *own = l->site->worker;

	/* A connection on a spare descriptor may only become a console, which is served
	 * by this site. */
	if (own && !is_spare)
		dispatch_send(workers_pick(own->workers), fd, peer, l->is_unix);
	else
		greet_client(l->site, l->is_unix, fd, peer, is_spare);
}

static void pause_accepting(struct listener *l, uint64_t pause_us)
{
	watch_off(l->watch);
	deadline_set(l->site->loop, &l->pause, loop_now(l->site->loop) + pause_us);
}

static void pause_over(struct deadline *d)
{
	struct listener *l = container_of(d, struct listener, pause);

	if (!l->is_stopped)
		watch_on(l->watch);
}

/* At the descriptor limit: gives up a spare descriptor to accept one more connection,
 * which only a console may keep.  Returns the socket or -1. */
static int accept_on_spare(struct listener *l, struct sock_addr *peer)
{
	struct site *site = l->site;
	int fd;

	if (!reserved_fds_give_up(site))
		return -1;
	fd = sock_accept(l->fd, peer);
	if (fd < 0)
		reserved_fds_refill(site);
	return fd;
}

/* Accepts a connection if one is there.  Pauses accepting if that fails. */
static void accept_one(struct listener *l)
{
	struct sock_addr peer;
	bool is_spare = false;
	int fd = sock_accept(l->fd, &peer);

	if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
		fd = accept_on_spare(l, &peer);
		is_spare = fd >= 0;
		if (fd < 0 && errno != EAGAIN) {
			/* clients that do not answer are closed, because the next
			 * connection may be the administrator's */
			pause_accepting(l, evict_silent(l->site) > 0 ? EVICTED_PAUSE_US
								     : SPARE_PAUSE_US);
			return;
		}
	}
	/* the client is gone already; the next one may be there (accept(2)) */
	if (fd < 0 && (errno == ECONNABORTED || errno == EPROTO))
		return;
	if (fd < 0) {
		if (errno != EAGAIN && errno != EWOULDBLOCK) {
			log_error(l->site->log, "accept() failed: %s", strerror(errno));
			pause_accepting(l, ACCEPT_PAUSE_US);
		}
		return;
	}
	place_client(l, fd, &peer, is_spare);
}

static void accept_ready(void *ctx, int fd)
{
	struct listener *l = ctx;

	(void)fd;
	/* One per turn: a second accept() would usually find nothing, and a connection
	 * that still waits makes the socket ready again in the next turn. */
	accept_one(l);
	/* the connection may have taken a spare descriptor */
	reserved_fds_refill(l->site);
}

/* ---- listeners ---- */

static void tune_listener(struct listener *l)
{
	struct sock_options options;

	if (l->is_unix)
		return;
	socket_options(site_settings(l->site), &options);
	sock_tune_listener(l->fd, &options);
	sock_set_defer_accept(l->fd, options.defer_accept);
}

static struct listener *listener_add(struct site *site, int fd, bool is_unix)
{
	struct listener *l = mem_zero(sizeof(*l));
	l->site = site;
	l->fd = fd;
	l->is_unix = is_unix;
	l->watch = watch_new_listener(site->loop, fd, accept_ready, l);
	deadline_init(&l->pause, pause_over);
	list_push_back(&site->listeners, &l->node);
	tune_listener(l);
	return l;
}

static void listener_free(struct listener *l)
{
	list_remove(&l->site->listeners, &l->node);
	deadline_clear(l->site->loop, &l->pause);
	watch_free(&l->watch);
	/* A stopped listener (SUSPEND) may have been handed to another process, and one
	 * that was taken may still be the other process's, so their files stay.  The
	 * file is removed before the socket is closed, because a new process may create
	 * its own file as soon as nobody listens here. */
	if (l->path && !l->is_stopped && !l->is_shared)
		unlink(l->path);
	close(l->fd);
	mem_free(l->path);
	mem_free(l);
}

/* Finds the address among the sockets that were taken over from another process. */
static bool claim_tcp(struct site *site, const struct sock_addr *addr)
{
	struct listener *l;
	struct sock_addr local;

	list_for (l, &site->listeners, node) {
		if (!l->is_unclaimed || l->is_unix || sock_local(l->fd, &local) < 0 ||
		    !sock_addr_is_equal_ip(&local, addr) || local.port != addr->port)
			continue;
		l->is_unclaimed = false;
		return true;
	}
	return false;
}

static bool claim_unix(struct site *site, const struct sock_target *target)
{
	const char *path = target->un.sun_path;
	struct sockaddr_un un;
	struct listener *l;

	list_for (l, &site->listeners, node) {
		if (!l->is_unclaimed || !l->is_unix ||
		    strcmp(sock_local_path(l->fd, &un), path) != 0)
			continue;
		l->is_unclaimed = false;
		l->path = mem_strdup(path);
		return true;
	}
	return false;
}

/* ---- opening ---- */

/* Waits a little.  False: *patience_ms are over. */
static bool has_waited(int *patience_ms)
{
	const struct timespec pause = {.tv_nsec = LOOK_AGAIN_MS * 1000000L};

	if (*patience_ms <= 0)
		return false;
	*patience_ms -= LOOK_AGAIN_MS;
	nanosleep(&pause, NULL);
	return true;
}

/* Like sock_listen, but waits for an address that becomes free. */
static int listen_at(const struct sock_target *target,
    const struct sock_options *options, int *patience_ms, struct err *err)
{
	int fd;

	do
		fd = sock_listen(target, options, err);
	while (fd < 0 && errno == EADDRINUSE && has_waited(patience_ms));
	return fd;
}

static int listen_tcp_name(
    struct site *site, const char *name, int *patience_ms, struct err *err)
{
	char text[SOCK_PORT_TEXT];
	struct sock_addr addrs[ADDRESSES_PER_NAME];
	struct sock_options options;
	int opened = 0;
	int n = sock_resolve_listen(
	    name, site_settings(site)->listen_port, addrs, ADDRESSES_PER_NAME, err);
	if (n < 0)
		return -1;
	if (n == 0)
		err_set(err, "%s has no address", name);
	socket_options(site_settings(site), &options);
	for (int i = 0; i < n; i++) {
		struct sock_target target;
		struct err why;
		if (claim_tcp(site, &addrs[i])) {
			opened++;
			continue;
		}
		sock_target_ip(&target, &addrs[i]);
		int fd = listen_at(&target, &options, patience_ms, &why);
		sock_addr_text(&addrs[i], 0, text);
		if (fd < 0) {
			log_warning(
			    site->log, "cannot listen on %s: %s", text, why.text);
			err_set(err, "%s: %s", text, why.text);
			continue;
		}
		log_info(site->log, "listening on %s", text);
		listener_add(site, fd, false);
		opened++;
	}
	return opened;
}

static int listen_tcp(struct site *site, int *patience_ms, struct err *err)
{
	const char *list = site_settings(site)->listen_addr;
	const char *at = list, *item;
	size_t len;
	int wanted = 0, opened = 0;

	while (at && text_list_next(&at, &item, &len)) {
		char *name = mem_alloc(len + 1);
		memcpy(name, item, len);
		name[len] = '\0';
		int n = listen_tcp_name(site, name, patience_ms, err);
		mem_free(name);
		if (n < 0)
			return -1;
		wanted++;
		opened += n;
	}
	if (wanted == 0 || opened > 0)
		return 0;
	const struct err last = *err;
	return err_set(err,
	    "failed to listen on any address in listen_addr list: %s (%s)", list,
	    last.text);
}

static int check_socket_lock(const char *dir, int port, struct err *err)
{
	char path[4096];
	struct stat st;
	snprintf(path, sizeof(path), "%s/.s.PGSQL.%d.lock", dir, port);
	if (*dir != '@' && stat(path, &st) == 0)
		return err_set(err, "unix port %d is in use", port);
	return 0;
}

static int listen_unix(struct site *site, int *patience_ms, struct err *err)
{
	const struct settings *settings = site_settings(site);
	const char *dir = settings->unix_socket_dir;
	struct sock_options options;
	struct sock_target target;
	struct err why;

	if (!dir || !*dir)
		return 0;
	if (check_socket_lock(dir, settings->listen_port, err) < 0)
		return -1;
	if (sock_target_unix(&target, dir, settings->listen_port, &why) == 0 &&
	    claim_unix(site, &target))
		return 0;
	socket_options(settings, &options);
	int fd = sock_target_unix(&target, dir, settings->listen_port, &why) < 0
		     ? -1
		     : listen_at(&target, &options, patience_ms, &why);
	if (fd < 0)
		return err_set(err, "failed to create unix socket\n\t%s", why.text);
	log_info(
	    site->log, "listening on unix:%s/.s.PGSQL.%d", dir, settings->listen_port);
	struct listener *l = listener_add(site, fd, true);
	if (*dir != '@')
		l->path = mem_strdup(target.un.sun_path);
	return 0;
}

/* ---- sockets passed by the service manager ---- */

void listen_note_passed(struct site *site)
{
	const char *count = getenv("LISTEN_FDS"), *pid = getenv("LISTEN_PID");
	int n = 0, owner = 0;

	site->passed_fds = 0;
	if (!count || text_int(count, &n) < 0 || n <= 0)
		return;
	if (pid && (text_int(pid, &owner) < 0 || owner != (int)getpid()))
		return;
	site->passed_fds = n;
}

static void listen_passed(struct site *site, int count)
{
	const struct settings *settings = site_settings(site);
	for (int fd = FIRST_PASSED_FD; fd < FIRST_PASSED_FD + count; fd++) {
		struct sock_addr addr;
		if (sock_is_listening(fd) <= 0 || sock_local(fd, &addr) < 0)
			continue;
		fcntl(fd, F_SETFD, FD_CLOEXEC);
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
		log_info(site->log, "socket passed from service manager (fd %d)", fd);
		listener_add(site, fd, addr.family == AF_UNIX);
	}
	if (settings->listen_addr && *settings->listen_addr)
		log_warning(site->log,
		    "sockets passed from service manager, cf_listen_addr ignored");
	if (settings->unix_socket_dir && *settings->unix_socket_dir &&
	    strcmp(settings->unix_socket_dir, "/tmp") != 0)
		log_warning(site->log,
		    "sockets passed from service manager, cf_unix_socket_dir ignored");
}

int listen_open(struct site *site, int patience_ms, struct err *err)
{
	if (site->passed_fds > 0) {
		listen_passed(site, site->passed_fds);
		return 0;
	}
	if (listen_tcp(site, &patience_ms, err) < 0 ||
	    listen_unix(site, &patience_ms, err) < 0)
		return -1;
	/* taken over, but the new configuration does not ask for them */
	struct listener *l, *next;
	list_for_safe (l, next, &site->listeners, node)
		if (l->is_unclaimed)
			listener_free(l);
	if (list_is_empty(&site->listeners))
		return err_set(
		    err, "nowhere to listen: set listen_addr or unix_socket_dir");
	return 0;
}

void listen_take(struct site *site, int fd, bool is_unix)
{
	struct listener *l = listener_add(site, fd, is_unix);
	struct sock_addr local = {.family = AF_UNSPEC};
	struct sockaddr_un un;
	char text[SOCK_PORT_TEXT];

	l->is_unclaimed = l->is_shared = true;
	listener_stop(l);
	if (!is_unix)
		sock_local(fd, &local);
	log_info(site->log, "got pooler socket: %s",
	    is_unix ? sock_local_path(fd, &un) : sock_addr_text(&local, 0, text));
}

void listen_own(struct site *site)
{
	struct listener *l;

	list_for (l, &site->listeners, node)
		l->is_shared = false;
}

void listen_let_go(struct site *site)
{
	struct listener *l, *next;

	list_for_safe (l, next, &site->listeners, node) {
		listener_stop(l); /* its file belongs to the other process */
		listener_free(l);
	}
}

void listen_stop(struct site *site)
{
	struct listener *l;

	list_for (l, &site->listeners, node)
		listener_stop(l);
}

void listen_start(struct site *site)
{
	struct listener *l;

	list_for (l, &site->listeners, node)
		listener_start(l);
}

void listen_admit(
    struct site *site, int fd, enum passed_from from, const uint8_t *bytes, size_t len)
{
	struct client *client = client_new(site, &startup_ops);

	client->passed_from = from;
	if (conn_restore(&client->conn, fd, 0, bytes, len) < 0)
		conn_doom(&client->conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
	startup_arm(&client->conn);
}

void listen_admit_new(
    struct site *site, int fd, const struct sock_addr *remote, bool is_unix)
{
	greet_client(site, is_unix, fd, remote, false);
}

void listen_readmit(struct client *client)
{
	struct conn *conn = &client->conn;

	conn_hand_on(conn, conn->stream.tls ? &encrypted_ops : &startup_ops);
	startup_arm(conn);
}

void listen_close(struct site *site, bool all)
{
	struct listener *l, *next;
	list_for_safe (l, next, &site->listeners, node)
		if (all || !l->is_unix)
			listener_free(l);
}

bool listen_is_in_use(
    const struct site *site, const struct settings *settings, int patience_ms)
{
	const char *dir = settings->unix_socket_dir;
	struct sock_target target;

	if (!dir || !*dir || site->passed_fds > 0)
		return false;
	if (sock_target_unix(&target, dir, settings->listen_port, NULL) < 0)
		return false;
	while (sock_probe_listener(&target))
		if (!has_waited(&patience_ms))
			return true;
	return false;
}

void listen_apply_settings(struct site *site)
{
	struct listener *l;

	list_for (l, &site->listeners, node)
		tune_listener(l);
}
