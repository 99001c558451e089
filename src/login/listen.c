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
#include "login/evict.h"
#include "login/startup_phase.h"
#include "session/dispatch.h"
#include "session/listener.h"
#include "session/reserved_fds.h"
#include "session/workers.h"

enum {
	ACCEPT_PAUSE_US = 5000000, /* after an accept that failed for no known reason */
	SPARE_PAUSE_US = 100000,   /* at the descriptor limit, with all spares in use */
	EVICTED_PAUSE_US =
	    10000, /* at the descriptor limit, until evicted clients have closed */
	LOOK_AGAIN_MS = 10,
	ADDRESSES_PER_NAME = 32,
	FIRST_PASSED_FD = 3,
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
		startup_phase_begin(l->site, fd, peer, l->is_unix, is_spare);
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

/* Accepts a connection if one is there.  Pauses accepting if that fails.  False: none
 * was there, or it failed. */
static bool accept_one(struct listener *l)
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
			return false;
		}
	}
	/* the client is gone already; the next one may be there (accept(2)) */
	if (fd < 0 && (errno == ECONNABORTED || errno == EPROTO))
		return true;
	if (fd < 0) {
		if (errno != EAGAIN && errno != EWOULDBLOCK) {
			log_error(l->site->log, "accept() failed: %s", strerror(errno));
			pause_accepting(l, ACCEPT_PAUSE_US);
		}
		return false;
	}
	place_client(l, fd, &peer, is_spare);
	return true;
}

static void accept_ready(void *ctx, int fd)
{
	struct listener *l = ctx;

	(void)fd;
	/* One per turn: a second accept() would usually find nothing, and a connection
	 * that still waits makes the socket ready again in the next turn. */
	(void)accept_one(l);
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

static ino_t inode_of(const char *path)
{
	struct stat st;

	return path && stat(path, &st) == 0 ? st.st_ino : 0;
}

static void set_path(struct listener *l, const char *path)
{
	mem_free(l->path);
	l->path = mem_strdup(path);
	l->inode = inode_of(path);
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
	if (l->path && !l->is_stopped && !l->is_shared && inode_of(l->path) == l->inode)
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

/* The name under which a socket is made that replaces the one at the path.  It is as
 * long, so there is room for it, and the socket keeps it. */
static void spare_name(char *path)
{
	char *file = strrchr(path, '/');

	if (file)
		file[1] = '_';
}

static bool claim_unix(struct site *site, const struct sock_target *target)
{
	const char *path = target->un.sun_path;
	struct sock_target spare = *target;
	struct sockaddr_un un;
	struct listener *l;

	spare_name(spare.un.sun_path);
	list_for (l, &site->listeners, node) {
		const char *name = sock_local_path(l->fd, &un);
		if (!l->is_unclaimed || !l->is_unix ||
		    (strcmp(name, path) != 0 && strcmp(name, spare.un.sun_path) != 0))
			continue;
		l->is_unclaimed = false;
		set_path(l, path);
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
	    "failed to listen on any address in listen_addr list: %s\n%s", list,
	    last.text);
}

static int listen_unix(struct site *site, int *patience_ms, struct err *err)
{
	const struct settings *settings = site_settings(site);
	const char *dir = settings->unix_socket_dir;
	struct sock_options options;
	struct sock_target target;
	char lock[4096];
	struct stat st;
	struct err why;

	if (!dir || !*dir)
		return 0;
	snprintf(lock, sizeof(lock), "%s/.s.PGSQL.%d.lock", dir, settings->listen_port);
	if (*dir != '@' && stat(lock, &st) == 0)
		return err_set(err, "unix port %d is in use", settings->listen_port);
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
		set_path(l, target.un.sun_path);
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
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
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

int listen_renew_unix(struct site *site, struct err *err)
{
	struct sock_options options;
	struct sock_target target;
	struct listener *l;

	socket_options(site_settings(site), &options);
	list_for (l, &site->listeners, node) {
		if (!l->path || (!l->is_shared && access(l->path, F_OK) == 0))
			continue;
		(void)sock_target_path(&target, l->path, NULL);
		spare_name(target.un.sun_path);
		int fd = sock_listen(&target, &options, err);
		if (fd < 0)
			return -1;
		l->successor = listener_add(site, fd, true);
		set_path(l->successor, target.un.sun_path);
		return 0; /* there is one unix_socket_dir */
	}
	return 0;
}

void listen_replace_unix(struct site *site)
{
	struct listener *l;

	list_for (l, &site->listeners, node) {
		if (!l->successor)
			continue;
		if (rename(l->successor->path, l->path) < 0) {
			log_error(site->log, "could not rename %s to %s: %s",
			    l->successor->path, l->path, strerror(errno));
			listener_free(l->successor);
			l->successor = NULL;
			return; /* l goes on */
		}
		set_path(l->successor, l->path);
		log_info(site->log, "listening on unix:%s", l->path);
		while (accept_one(l))
			;
		listener_free(l);
		return;
	}
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
