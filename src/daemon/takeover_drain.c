/*
 * The new process, when the old one cannot hand over its clients: PgBouncer, or a
 * version with another format of records.  This process gets its listening sockets and
 * serves new clients.  The old one serves those that it has, until they leave.
 */
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/process.h"
#include "daemon/takeover.h"
#include "login/listen.h"
#include "metrics/metrics.h"

struct draining {
	struct daemon *d;
	struct watch *end; /* of the old process */
	struct deadline due;
	int old_process, old_pid;
};

static void old_process_ended(void *ctx, int fd)
{
	struct draining *g = ctx;
	struct daemon *d = g->d;
	struct err err;

	(void)fd;
	log_put(d->site.log, LEVEL_LOG | KIND_TAKEOVER, NULL, "process %d has ended",
	    g->old_pid);
	takeover_stop_draining(d);
	/* it has removed the files of its unix sockets and its pidfile, without looking
	 * whose they are by now */
	if (listen_renew_unix(&d->site, &err) < 0)
		log_error(d->site.log, "%s", err.text);
	listen_replace_unix(&d->site);
	listen_own(&d->site);
	metrics_review(&d->site);
	if (pidfile_restore(&d->pidfile, &err) < 0)
		log_warning(
		    d->site.log, "%s; this process goes on without it", err.text);
}

/* A second TERM ends it at once. */
static void end_old_process(struct deadline *due)
{
	struct draining *g = container_of(due, struct draining, due);

	log_put(g->d->site.log, LEVEL_LOG | KIND_TAKEOVER, NULL,
	    "takeover_drain_timeout: ending process %d", g->old_pid);
#ifdef SYS_pidfd_send_signal
	(void)syscall(SYS_pidfd_send_signal, g->old_process, SIGTERM, NULL, 0);
#endif
}

void takeover_stop_draining(struct daemon *d)
{
	struct draining *g = d->draining;

	if (!g)
		return;
	d->draining = NULL;
	watch_free(&g->end);
	deadline_clear(d->site.loop, &g->due);
	close(g->old_process);
	mem_free(g);
}

/* Does everything that may fail, before the old process decides. */
static int prepare(struct daemon *d, struct takeover_terms *terms, struct err *err)
{
	struct site *site = &d->site;
	struct sock_addr local;

	for (size_t i = 0; i < terms->socket_count; i++)
		listen_take(site, terms->sockets[i],
		    sock_local(terms->sockets[i], &local) == 0 &&
			local.family == AF_UNIX);
	if (pidfile_check(&d->pidfile, terms->pid, 0, site->log, err) < 0 ||
	    listen_open(site, 0, err) < 0 || listen_renew_unix(site, err) < 0)
		return -1;
	return takeover_ask_to_drain(terms, err);
}

int takeover_drain(struct daemon *d, struct takeover_terms *terms, struct err *err)
{
	struct site *site = &d->site;
	uint64_t patience_us = site_settings(site)->takeover_drain_timeout;
	struct draining *g;
	int old_process = process_open(terms->pid);

	if (old_process < 0)
		err_set(err, "takeover: this system does not tell when process %d ends",
		    terms->pid);
	if (old_process < 0 || prepare(d, terms, err) < 0) {
		if (old_process >= 0)
			close(old_process);
		if (terms->console >= 0)
			close(terms->console);
		return -1;
	}
	/* at once: that one refuses clients by now */
	listen_replace_unix(site);
	g = d->draining = mem_alloc(sizeof(*g));
	*g = (struct draining){
	    .d = d, .old_process = old_process, .old_pid = terms->pid};
	g->end = watch_new(site->loop, old_process, WATCH_READ, old_process_ended, g);
	deadline_init(&g->due, end_old_process);
	if (patience_us > 0)
		deadline_set(site->loop, &g->due, loop_now(site->loop) + patience_us);
	listen_start(site);
	log_put(site->log, LEVEL_LOG | KIND_TAKEOVER, NULL,
	    "process %d cannot hand over its clients: it serves them until they leave, "
	    "and this process serves new ones",
	    terms->pid);
	return 0;
}
