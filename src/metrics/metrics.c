/*
 * Listening sockets and paths of the metrics server, and whether new clients can be
 * served (/readyz): from the mode of the pooler and the states of the hosts
 * (pool/hosts.h). scrape.c answers /metrics.
 */
#include "metrics/metrics.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/endpoints.h"
#include "base/map.h"
#include "base/mem.h"
#include "metrics/page.h"
#include "metrics/scrape.h"
#include "metrics/writer.h"
#include "net/http.h"
#include "net/sock.h"
#include "pool/hosts_role.h"
#include "session/site.h"
#include "session/tls_setup.h"
#include "session/workers.h"

/* ---- whether new clients can be served ---- */

/* What all sites together know of one host.  A site that has not connected to it lately
 * knows nothing of it. */
struct host_seen {
	bool is_down;
	char key[];
};

struct hosts_seen {
	struct map *hosts; /* struct host_seen by key: "name:port" */
	bool is_any_there; /* at least one host is known to be reachable */
	bool is_alone; /* this is the only site: a host that it has not tried counts as
			  reachable */
};

static struct host_seen *host_of(struct hosts_seen *seen, const struct host *host)
{
	struct host_seen *found;
	struct buf key;

	buf_init_sure(&key);
	buf_printf(&key, "%s:%d", host->name ? host->name : "", host->port);
	found = map_get_str(seen->hosts, buf_text(&key));
	if (!found) {
		found = mem_zero(sizeof(*found) + key.len + 1);
		memcpy(found->key, key.bytes, key.len);
		map_put_str(seen->hosts, found->key, found);
	}
	buf_done(&key);
	return found;
}

static void look_at_host(
    struct hosts_seen *seen, const struct database *db, const struct host *host)
{
	struct host_verdict shown;

	hosts_show(db, host, &shown);
	if (shown.value.state != HOST_UP && shown.value.state != HOST_NOT_TRIED)
		host_of(seen, host)->is_down = true;
	else if (seen->is_alone || host->assignments > 0)
		seen->is_any_there = true;
	else
		(void)host_of(seen, host);
}

static void look_at_site(struct site *site, void *ctx)
{
	struct hosts_seen *seen = ctx;
	const struct database *db;

	/* with several workers the control thread connects to no server */
	if (site->catalog->view.serves_nobody)
		return;
	list_for (db, &site->catalog->database_list, node)
		for (size_t i = 0; !db->is_admin && i < db->hosts.count; i++) {
			look_at_host(seen, db, db->hosts.list[i]);
			if (seen->is_any_there)
				return;
		}
}

/* NULL if new clients can be served, else a sentence that says why not: the pooler is
 * shutting down, suspended or paused, or all hosts of all databases are down.  A host
 * that nobody has tried yet does not count as down. */
static const char *readiness_obstacle(struct site *site)
{
	struct host_seen *host;

	if (site->shutdown != SHUTDOWN_NONE)
		return "The pooler is shutting down.";
	if (site->catalog->suspended)
		return "The pooler is suspended.";
	if (site->catalog->paused)
		return "The pooler is paused.";
	struct hosts_seen seen = {
	    .hosts = map_new(), .is_alone = workers_site_count(site) == 1};
	bool is_any_up = false;
	size_t at = 0;

	(void)workers_each(site, look_at_site, &seen);
	is_any_up = seen.is_any_there || map_count(seen.hosts) == 0;
	while ((host = map_next(seen.hosts, &at))) {
		is_any_up = is_any_up || !host->is_down;
		mem_free(host);
	}
	map_free(&seen.hosts);
	if (!is_any_up)
		return "No server can be reached.";
	return NULL;
}

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

static void answer_ready(const struct metrics *m, struct http_request *r)
{
	const char *obstacle = readiness_obstacle(m->site);
	char text[100];

	snprintf(text, sizeof(text), "%s\n", obstacle ? obstacle : "ready");
	http_answer(r, obstacle ? 503 : 200, plain, text);
}

static void answer_metrics(struct metrics *m, struct http_request *r)
{
	if (http_is_head(r))
		http_answer(r, 200,
		    writer_format_type(writer_choose_format(http_header(r, "Accept"))),
		    "");
	else if (scrapes_find_room(m->scrapes) < 0)
		http_answer(r, 503, plain, "Too many scrapes at a time; try again.\n");
	else
		scrape_begin(m->scrapes, r);
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

static void tell_failure(void *ctx)
{
	const struct metrics *m = ctx;

	log_warning(m->site->log, "metrics: closing a connection: no memory for TLS");
}

static const struct http_ops ops = {.asked = answer_request,
    .wanted = continue_answer,
    .gone = drop_request,
    .failed = tell_failure};

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
