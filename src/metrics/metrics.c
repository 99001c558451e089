/*
 * Listening sockets and paths of the metrics server.  scrape.c answers /metrics.
 */
#include "metrics/metrics.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/endpoints.h"
#include "base/mem.h"
#include "metrics/format.h"
#include "metrics/page.h"
#include "metrics/readiness.h"
#include "metrics/scrape.h"
#include "net/http.h"
#include "net/sock.h"
#include "session/tls_setup.h"

enum {
	ADDRESSES_PER_NAME = 32,
	AGAIN_US = 1000000, /* until the next attempt to open a socket */
};

/* The file of a unix socket, which is removed when the socket closes. */
struct socket_file {
	struct node node;
	dev_t device;
	ino_t inode;
	char path[];
};

struct metrics {
	struct site *site; /* borrowed */
	struct http *http; /* NULL: nothing is open */
	struct scrapes *scrapes;
	struct page *page;
	struct list files; /* struct socket_file by .node */
	struct deadline again;
	/* owned: the value of metrics_listen that the sockets were opened for */
	char *listening;
	struct tls_setup *tls;        /* one reference; NULL: without TLS */
	bool is_open[ENDPOINTS_MOST]; /* the n-th endpoint of `listening` */
	bool has_failed, is_let_go;
};

/* ---- answers ---- */

static const char plain[] = "text/plain; charset=utf-8";

static void answer_metrics(struct metrics *m, struct http_request *r)
{
	if (http_is_head(r))
		http_answer(
		    r, 200, format_type(format_choose(http_header(r, "Accept"))), "");
	else if (scrapes_find_room(m->scrapes) < 0)
		http_answer(r, 503, plain, "Too many scrapes at a time; try again.\n");
	else
		scrape_begin(m->scrapes, r);
}

static void answer_ready(const struct metrics *m, struct http_request *r)
{
	const char *obstacle = readiness_obstacle(m->site);
	char text[100];

	snprintf(text, sizeof(text), "%s\n", obstacle ? obstacle : "ready");
	http_answer(r, obstacle ? 503 : 200, plain, text);
}

static void answer_request(void *ctx, struct http_request *r)
{
	struct metrics *m = ctx;
	const char *path = http_path(r);

	if (!http_is_get(r) && !http_is_head(r)) {
		http_add_header(r, "Allow", "GET, HEAD");
		http_answer(r, 405, plain, "Only GET and HEAD.\n");
	} else if (strcmp(path, "/metrics") == 0)
		answer_metrics(m, r);
	else if (strcmp(path, "/healthz") == 0)
		http_answer(r, 200, plain, "ok\n");
	else if (strcmp(path, "/readyz") == 0)
		answer_ready(m, r);
	else if (!page_answer(m->page, r))
		http_answer(r, 404, plain,
		    "Nothing is here: look at /metrics, /healthz or /readyz.\n");
}

static void continue_answer(void *ctx, struct http_request *r)
{
	(void)ctx;
	scrape_go_on(r);
}

static void drop_request(void *ctx, struct http_request *r)
{
	(void)ctx;
	scrape_drop(r);
}

static const struct http_ops ops = {
    .asked = answer_request, .wanted = continue_answer, .gone = drop_request};

/* ---- listening ---- */

static int listen_at(struct metrics *m, const struct endpoint *e,
    const struct sock_target *target, struct err *err)
{
	const struct settings *s = site_settings(m->site);
	const struct sock_options options = {
	    .keepalive = s->tcp_keepalive,
	    .backlog = HTTP_BACKLOG,
	    .unix_mode = s->unix_socket_mode,
	    .unix_group = s->unix_socket_group,
	};
	int fd = sock_listen(target, &options, err);
	bool has_tls = m->tls && e->port > 0;

	if (fd < 0)
		return -1;
	return http_listen(m->http, fd, has_tls ? tls_setup_client(m->tls) : NULL, err);
}

static int open_unix(struct metrics *m, const struct endpoint *e, struct err *err)
{
	struct sock_target target;
	struct socket_file *file;
	struct stat st;

	if (sock_target_path(&target, e->path, err) < 0 ||
	    listen_at(m, e, &target, err) < 0)
		return -1;
	if (stat(e->path, &st) < 0)
		return 0;
	file = mem_zero(sizeof(*file) + strlen(e->path) + 1);
	strcpy(file->path, e->path);
	file->device = st.st_dev;
	file->inode = st.st_ino;
	list_push_back(&m->files, &file->node);
	return 0;
}

/* A name may have several addresses; the first that can be listened at is enough. */
static int open_tcp(struct metrics *m, const struct endpoint *e, struct err *err)
{
	struct sock_addr addrs[ADDRESSES_PER_NAME];
	int count =
	    sock_resolve_listen(e->host, e->port, addrs, ADDRESSES_PER_NAME, err);
	int opened = 0;

	for (int i = 0; i < count; i++) {
		struct sock_target target;
		sock_target_ip(&target, &addrs[i]);
		opened += listen_at(m, e, &target, err) == 0;
	}
	return opened > 0 ? 0 : -1;
}

static int open_one(struct metrics *m, const struct endpoint *e, struct err *err)
{
	if ((e->port > 0 ? open_tcp(m, e, err) : open_unix(m, e, err)) < 0)
		return -1;
	log_info(m->site->log, "metrics are served on %s%s", e->text,
	    m->tls && e->port > 0 ? " (TLS)" : "");
	return 0;
}

/* Opens the endpoints that are not open yet. */
static void open_all(struct metrics *m)
{
	const char *list = m->listening;
	bool has_failed = false;
	struct endpoint e;
	struct err err;

	for (int i = 0; endpoints_next(&list, &e, &err) > 0; i++) {
		if (m->is_open[i])
			continue;
		m->is_open[i] = open_one(m, &e, &err) == 0;
		/* logged once, although it is tried every second */
		if (!m->is_open[i] && !m->has_failed)
			log_warning(m->site->log,
			    "cannot listen on %s (metrics_listen): %s; it is tried "
			    "again every second",
			    e.text, err.text);
		has_failed = has_failed || !m->is_open[i];
	}
	m->has_failed = has_failed;
	if (has_failed)
		deadline_set(
		    m->site->loop, &m->again, loop_now(m->site->loop) + AGAIN_US);
}

/* A file of the same name that another process has made meanwhile stays. */
static void remove_files(struct metrics *m)
{
	struct node *n;
	struct stat st;

	while ((n = list_pop_front(&m->files))) {
		struct socket_file *file = container_of(n, struct socket_file, node);
		if (stat(file->path, &st) == 0 && st.st_dev == file->device &&
		    st.st_ino == file->inode)
			unlink(file->path);
		mem_free(file);
	}
}

/* Unfinished requests are dropped; a scraper asks again at its next interval. */
static void close_all(struct metrics *m)
{
	deadline_clear(m->site->loop, &m->again);
	remove_files(m);
	http_free(&m->http);
	tls_setup_unref(&m->tls);
	mem_free(m->listening);
	m->listening = NULL;
	memset(m->is_open, 0, sizeof(m->is_open));
}

static bool is_as_configured(const struct metrics *m)
{
	const struct settings *s = site_settings(m->site);
	const char *wanted = s->metrics_listen ? s->metrics_listen : "";

	return strcmp(m->listening ? m->listening : "", wanted) == 0 &&
	       m->tls == (*wanted && s->metrics_tls ? m->site->tls : NULL);
}

void metrics_review(struct site *site)
{
	struct metrics *m = site->metrics;

	if (!m || m->is_let_go)
		return;
	const struct settings *s = site_settings(m->site);
	page_review(
	    m->page, s->metrics_page && s->metrics_listen && *s->metrics_listen);
	if (is_as_configured(m))
		return;
	m->has_failed = false;
	close_all(m);
	if (!s->metrics_listen || !*s->metrics_listen)
		return;
	m->listening = mem_strdup(s->metrics_listen);
	m->tls = s->metrics_tls ? tls_setup_ref(m->site->tls) : NULL;
	m->http = http_new(m->site->loop, &ops, m);
	open_all(m);
}

static void open_again(struct deadline *d)
{
	struct metrics *m = container_of(d, struct metrics, again);

	if (m->listening)
		open_all(m);
	else
		metrics_review(m->site);
}

void metrics_wait(struct site *site)
{
	deadline_set(
	    site->loop, &site->metrics->again, loop_now(site->loop) + AGAIN_US);
}

void metrics_let_go(struct site *site)
{
	struct metrics *m = site->metrics;

	if (!m)
		return;
	m->is_let_go = true;
	page_review(m->page, false);
	deadline_clear(site->loop, &m->again);
	remove_files(m);
	if (m->http)
		http_stop_listening(m->http);
}

/* ---- start and end ---- */

void metrics_start(struct site *site)
{
	struct metrics *m = mem_zero(sizeof(*m));

	m->site = site;
	m->scrapes = scrapes_new(site, loop_now(site->loop));
	m->page = page_new(site);
	list_init(&m->files);
	deadline_init(&m->again, open_again);
	site->metrics = m;
}

void metrics_stop(struct site *site)
{
	struct metrics *m = site->metrics;

	if (!m)
		return;
	close_all(m);
	scrapes_free(&m->scrapes);
	page_free(&m->page);
	mem_free(m);
	site->metrics = NULL;
}

size_t metrics_descriptors(const struct settings *settings)
{
	size_t count = endpoints_count(settings->metrics_listen);

	return count ? count * (1 + HTTP_BACKLOG) + HTTP_CONNECTIONS_MOST : 0;
}
