/*
 * The old process of a takeover.  It works in rounds: stop connections, describe them
 * to the new process, wait for its answer, then let go of them or continue to serve
 * them.  The first round includes the listening sockets; after it, this process only
 * serves the remaining clients, and offers them in further rounds as they become free.
 *
 * With several workers each worker does its part of a step on its own thread while the
 * control thread waits, so that they may use the channel.
 */
#include <string.h>
#include <unistd.h>

#include "base/time_us.h"
#include "daemon/fd_channel.h"
#include "daemon/rebalance.h"
#include "daemon/reload_run.h"
#include "daemon/takeover.h"
#include "handoff/handoff.h"
#include "login/listen.h"
#include "login/startup_phase.h"
#include "metrics/metrics.h"
#include "net/sock.h"
#include "session/client.h"
#include "session/workers.h"
#include "wire/prepared.h"

enum phase {
	GIVING_STOPPING, /* until everything has been sent that is on its way */
	GIVING_OFFERED,  /* END was sent; READY or FAILED follows */
	GIVING_DECIDED,  /* GO was sent; ALIVE follows */
	GIVING_SERVING,  /* it serves clients that could not be moved */
};

enum {
	LOOK_US = 2000,    /* how often GIVING_STOPPING is checked */
	BUSY_US = 20000,   /* how long stopped clients wait for those that are busy,
			    * which can follow in a later round */
	ROUND_US = 200000, /* between rounds */
	SEND_PATIENCE_MS = 2000,
	DECISION_US = 10000000, /* without suspend_timeout */
};

#define WORKER_SILENT "a worker does not answer"
#define TOO_LONG      "it took longer than suspend_timeout"

struct giving {
	struct daemon *d;
	struct fd_channel *channel; /* NULL: the new process has gone */
	struct deadline due;
	struct handoff_counts counts;
	enum phase phase;
	uint64_t phase_until_us;
	uint64_t drain_until_us; /* UINT64_MAX: no limit */
	size_t console_count;
	int taker_pid;
	bool is_first; /* the first round is in progress */
	bool is_cut;   /* the channel has ended; it is freed at the deadline `due` */
};

static struct log *giving_log(const struct giving *g)
{
	return g->d->site.log;
}

static uint64_t giving_now(const struct giving *g)
{
	return loop_now(g->d->site.loop);
}

static void look_again(struct giving *g, uint64_t in_us)
{
	deadline_set(g->d->site.loop, &g->due, giving_now(g) + in_us);
}

/* ---- consoles, which must not run commands during a round ---- */

static void each_console(struct site *site, void (*act)(struct client *client))
{
	struct client *client, *after;

	list_for_safe (client, after, &site->clients, site_node)
		if (client->database && client->database->is_admin &&
		    !client->conn.is_doomed)
			act(client);
}

static void stop_console(struct client *client)
{
	conn_stop(&client->conn);
}

static void start_console(struct client *client)
{
	conn_start(&client->conn);
}

static void end_console(struct client *client)
{
	conn_start(&client->conn);
	client_fatal(client, ERROR_TAKEN_OVER);
}

/* That of the new process, which may not read the channel before this process ends, and
 * would take it for one that ended during the round.  It is told before any client is
 * served, because this process may be killed next. */
static void tell_given_up(struct client *client)
{
	if (client->conn.peer_pid != site_daemon(client->conn.site)->giving->taker_pid)
		return;
	client_notice(client, "the takeover was given up");
	stream_flush(&client->conn.stream);
}

/* ---- a round, and its end ---- */

static void hold_site(struct site *site)
{
	site->catalog->suspended = true;
	loop_note_shared(site->loop, true);
}

static void hold_still(struct giving *g)
{
	struct site *site = &g->d->site;

	workers_all(site, hold_site);
	each_console(site, stop_console);
	g->phase = GIVING_STOPPING;
	g->phase_until_us = giving_now(g) + BUSY_US;
	look_again(g, 0);
}

static void keep_site(struct site *site)
{
	site->catalog->suspended = false;
	handoff_keep(site);
	catalog_schedule_all(site->catalog, NULL);
}

/* The pools are no longer filled up from before their servers go, which would come to
 * the new process as well. */
static void let_go_of_site(struct site *site)
{
	site->catalog->is_leaving = true;
	handoff_let_go(site);
	keep_site(site);
}

static void giving_free(struct giving *g)
{
	deadline_clear(g->d->site.loop, &g->due);
	fd_channel_free(&g->channel);
	g->d->giving = NULL;
	mem_free(g);
}

/* Frees the channel later, because it may be in a call to this file. */
static void close_later(struct giving *g)
{
	g->is_cut = true;
	look_again(g, 0);
}

/* Ends a round without success.  If it was the first, this process continues as if
 * nothing had happened; otherwise it continues to serve its remaining clients alone. */
static void give_up(struct giving *g, const char *why)
{
	struct err ignored;

	if (g->phase == GIVING_SERVING)
		return;
	if (g->channel)
		(void)fd_channel_send(
		    g->channel, TAKEOVER_GIVEN_UP, why, strlen(why), -1, 0, &ignored);
	if (g->is_first)
		log_put(giving_log(g), LEVEL_ERROR | KIND_TAKEOVER, NULL,
		    "takeover by process %d failed: %s; this process goes on",
		    g->taker_pid, why);
	else
		log_put(giving_log(g), LEVEL_WARNING | KIND_TAKEOVER, NULL,
		    "process %d takes no more clients: %s; they stay until they leave",
		    g->taker_pid, why);
	g->phase = GIVING_SERVING;
	if (g->is_first)
		each_console(&g->d->site, tell_given_up);
	workers_all(&g->d->site, keep_site);
	each_console(&g->d->site, start_console);
	close_later(g);
}

/* ---- the decision ---- */

static void stop_accepting(struct giving *g)
{
	struct daemon *d = g->d;
	struct site *site = &d->site;
	uint64_t limit = site_settings(site)->takeover_drain_timeout;

	listen_let_go(site);
	metrics_let_go(site);
	pidfile_remove(&d->pidfile);
	g->drain_until_us = limit ? giving_now(g) + limit : UINT64_MAX;
	each_console(site, end_console);
}

static void count_console(struct client *client)
{
	site_daemon(client->conn.site)->giving->console_count++;
}

static void commit(struct giving *g)
{
	struct site *site = &g->d->site;
	struct err ignored;

	/* the clients that were offered have not left yet */
	g->console_count = 0;
	each_console(site, count_console);
	size_t staying =
	    workers_client_count(site) - g->counts.clients - g->console_count;

	workers_all(site, let_go_of_site);
	each_console(site, start_console);
	if (g->is_first) {
		log_put(giving_log(g), LEVEL_LOG | KIND_TAKEOVER, NULL,
		    "process %d has taken over %zu clients and %zu idle servers; %zu "
		    "clients stay here until they are done",
		    g->taker_pid, g->counts.clients,
		    g->counts.silent - g->counts.clients, staying);
		stop_accepting(g);
	} else {
		log_put(giving_log(g), LEVEL_DEBUG | KIND_TAKEOVER, NULL,
		    "process %d has taken over %zu clients more", g->taker_pid,
		    g->counts.clients);
	}
	g->phase = GIVING_SERVING;
	g->is_first = false;
	if (fd_channel_send(
		g->channel, TAKEOVER_DONE, NULL, 0, -1, SEND_PATIENCE_MS, &ignored) < 0)
		close_later(g);
	else
		look_again(g, LOOK_US);
}

static uint64_t decision_us(const struct giving *g)
{
	uint64_t limit = site_settings(&g->d->site)->suspend_timeout;

	return limit ? limit : DECISION_US;
}

/* If this process stood still, READY is found when its time is over.  GO would be
 * followed by the cut at once, and the new process might have sent ALIVE by then. */
static void decide(struct giving *g)
{
	struct err err;

	loop_touch_clock(g->d->site.loop);
	if (giving_now(g) >= g->phase_until_us) {
		give_up(g, TOO_LONG);
		return;
	}
	g->phase = GIVING_DECIDED;
	if (fd_channel_send(g->channel, TAKEOVER_GO, NULL, 0, -1, 0, &err) < 0)
		give_up(g, err.text);
}

/* Gives up the round from this side.  After GO the new process may have just sent
 * ALIVE: so its connection is cut first, which delivers what it has sent.  If that was
 * ALIVE, the round has succeeded, and the new process must not get GIVEN_UP. */
static void break_off(struct giving *g, const char *why)
{
	if (g->phase == GIVING_DECIDED)
		fd_channel_cut(g->channel);
	if (g->phase != GIVING_SERVING)
		give_up(g, why);
}

/* ---- offering ---- */

struct offering {
	struct giving *giving;
	/* the greatest numbers of all sites */
	uint64_t next_id, last_text, last_sql_text;
	struct err err;
	bool has_failed;
};

static int emit(void *ctx, const struct record *record, int fd)
{
	struct offering *o = ctx;
	struct buf bytes;
	int result;

	buf_init(&bytes, 0);
	record_encode(record, &bytes);
	result = bytes.failed
		     ? err_set(&o->err, "%s", error_text(ERROR_OUT_OF_MEMORY))
		     : fd_channel_send(o->giving->channel, (uint8_t)record->kind,
			   bytes.bytes, bytes.len, fd, SEND_PATIENCE_MS, &o->err);
	buf_wipe_done(&bytes);
	return result;
}

static void note_ids(struct site *site, void *ctx)
{
	struct offering *o = ctx;

	o->next_id = time_later(o->next_id, site->next_id);
	o->last_text = time_later(o->last_text, prepared_registry_last(site->prepared));
	o->last_sql_text =
	    time_later(o->last_sql_text, prepared_registry_last(site->sql_prepared));
}

static int emit_origin(struct offering *o)
{
	struct site *site = &o->giving->d->site;
	size_t count = vars_schema_count(site->vars);
	struct record_var *names = mem_zero(count * sizeof(*names));
	const struct record record = {.kind = RECORD_ORIGIN,
	    .origin = {.version = site->version,
		.pid = (int)getpid(),
		.next_id = o->next_id,
		.last_text = o->last_text,
		.last_sql_text = o->last_sql_text,
		.is_paused = site->catalog->paused,
		.names = {names, count},
		.mock_secret = {site->mock_secret, sizeof(site->mock_secret)}}};

	for (size_t i = 0; i < count; i++) {
		names[i].value = vars_schema_name(site->vars, i);
		names[i].other =
		    vars_schema_is_learned(site->vars, i) ? names[i].value : NULL;
	}
	int result = emit(o, &record, -1);
	mem_free(names);
	return result;
}

static void stop_site(struct site *site, void *ctx)
{
	struct giving *g = ctx;
	struct handoff_counts own;

	handoff_stop(site, g->is_first, &own);
	g->counts.silent += own.silent;
	g->counts.pending += own.pending;
	g->counts.busy += own.busy;
	g->counts.staying += own.staying;
	g->counts.clients += own.clients;
}

/* Offers what has stopped at one site.  A worker continues to serve what cannot be
 * stopped, so only what is offered counts. */
static void offer_site(struct site *site, void *ctx)
{
	struct offering *o = ctx;

	if (o->has_failed)
		return;
	stop_site(site, o->giving);
	o->has_failed = handoff_offer(site, o->giving->is_first, emit, o) < 0;
}

/* -1: the new process does not read.  1: a worker does not answer. */
static int offer_all(struct offering *o)
{
	struct giving *g = o->giving;
	struct site *site = &g->d->site;

	if (workers_each(site, note_ids, o) > 0)
		return 1;
	if (g->is_first && emit_origin(o) < 0)
		return -1;
	memset(&g->counts, 0, sizeof(g->counts));
	unsigned missed = workers_each(site, offer_site, o);
	if (o->has_failed)
		return -1;
	if (missed > 0)
		return 1;
	return fd_channel_send(
	    g->channel, TAKEOVER_END, NULL, 0, -1, SEND_PATIENCE_MS, &o->err);
}

static void offer(struct giving *g)
{
	struct offering o = {.giving = g};

	err_set(&o.err, "%s", error_text(ERROR_OUT_OF_MEMORY));
	int result = offer_all(&o);
	if (result < 0) {
		/* The new process does not read any more.  It may have sent the reason
		 * before, which the cut delivers. */
		fd_channel_cut(g->channel);
		if (g->phase != GIVING_SERVING)
			give_up(g, o.err.text);
	} else if (result > 0)
		give_up(g, WORKER_SILENT);
	if (result != 0)
		return;
	g->phase = GIVING_OFFERED;
	loop_touch_clock(g->d->site.loop);
	g->phase_until_us = giving_now(g) + decision_us(g);
	look_again(g, decision_us(g));
}

static void stop_on(struct giving *g)
{
	bool is_over = giving_now(g) >= g->phase_until_us;

	memset(&g->counts, 0, sizeof(g->counts));
	unsigned missed = workers_each(&g->d->site, stop_site, g);
	if (!is_over && (missed > 0 || g->counts.pending > 0 ||
			    (g->is_first && g->counts.busy > 0)))
		look_again(g, LOOK_US);
	else if (missed > 0)
		give_up(g, WORKER_SILENT);
	else
		offer(g);
}

/* ---- serving the rest ---- */

static void drop_rest(struct site *site)
{
	struct client *client, *after;

	list_for_safe (client, after, &site->login_clients, site_node)
		client_fatal(client, ERROR_DRAIN_TIMEOUT);
	list_for_safe (client, after, &site->clients, site_node)
		client_fatal(client, ERROR_DRAIN_TIMEOUT);
	list_for_safe (client, after, &site->cancel_clients, site_node)
		conn_doom_quietly(&client->conn, error_text(ERROR_DRAIN_TIMEOUT));
}

static void look_for_more(struct site *site, void *ctx)
{
	bool *has_more = ctx;

	*has_more = *has_more || handoff_has_more(site);
}

static void refuse_paused(struct site *site)
{
	catalog_refuse_paused(site->catalog);
}

static void serve_rest(struct giving *g)
{
	struct site *site = &g->d->site;
	bool has_more = false;
	bool is_over = giving_now(g) >= g->drain_until_us;
	size_t client_count = workers_client_count(site);

	/* no round begins during a reload, whose changes must not be put in force
	 * within one */
	if (g->channel && !reload_run_is_reading(site))
		(void)workers_each(site, look_for_more, &has_more);
	if (has_more && !is_over && site->shutdown == SHUTDOWN_NONE) {
		hold_still(g);
		return;
	}
	workers_all(site, refuse_paused);
	if (is_over && client_count > 0) {
		log_put(site->log, LEVEL_LOG | KIND_TAKEOVER, NULL,
		    "takeover_drain_timeout: closing %zu clients", client_count);
		workers_all(site, drop_rest);
	} else if (client_count == 0 && (is_over || !takeover_has_elder(g->d))) {
		log_put(site->log, LEVEL_LOG | KIND_TAKEOVER, NULL,
		    "client connections dropped, exiting");
		loop_stop(site->loop);
		return;
	}
	look_again(g, ROUND_US);
}

/* The new process has gone, or has taken nothing. */
static void without_channel(struct giving *g)
{
	fd_channel_free(&g->channel);
	g->is_cut = false;
	if (!g->d->site.catalog->is_leaving)
		giving_free(g);
	else
		serve_rest(g);
}

static void giving_due(struct deadline *due)
{
	struct giving *g = container_of(due, struct giving, due);

	if (g->is_cut) {
		without_channel(g);
		return;
	}
	switch (g->phase) {
	case GIVING_STOPPING:
		stop_on(g);
		break;
	case GIVING_OFFERED:
	case GIVING_DECIDED:
		break_off(g, TOO_LONG);
		break;
	case GIVING_SERVING:
		serve_rest(g);
		break;
	}
}

/* ---- what the new process says ---- */

static void failed(struct giving *g, const uint8_t *bytes, size_t len)
{
	char why[256];

	snprintf(why, sizeof(why), "it says: %.*s", len < 200 ? (int)len : 200,
	    (const char *)bytes);
	give_up(g, why);
}

static void giving_arrived(
    void *ctx, uint8_t kind, const uint8_t *bytes, size_t len, int fd)
{
	struct giving *g = ctx;

	if (kind == TAKEOVER_STRAY && fd >= 0) {
		startup_phase_admit(&g->d->site, fd, PASSED_BY_NEWER, bytes, len);
		return;
	}
	if (fd >= 0)
		close(fd);
	if (kind == TAKEOVER_READY && g->phase == GIVING_OFFERED)
		decide(g);
	else if (kind == TAKEOVER_ALIVE && g->phase == GIVING_DECIDED)
		commit(g);
	else if (kind == TAKEOVER_FAILED)
		failed(g, bytes, len);
	else
		give_up(g, "it sent an unexpected message");
}

static void giving_ended(void *ctx, const struct err *err)
{
	struct giving *g = ctx;

	if (g->phase == GIVING_SERVING)
		log_put(giving_log(g), LEVEL_DEBUG | KIND_TAKEOVER, NULL,
		    "process %d is gone", g->taker_pid);
	else
		give_up(g, err ? err->text : "it has ended");
	close_later(g);
}

static const struct fd_channel_ops giving_ops = {
    .arrived = giving_arrived,
    .ended = giving_ended,
};

/* ---- the verbs ---- */

static bool is_switching(const struct catalog *catalog)
{
	const struct database *db;
	size_t at = 0;

	while ((db = map_next(catalog->databases, &at)))
		if (db->is_switching)
			return true;
	return false;
}

static int refuse(const struct daemon *d, int format, struct err *err)
{
	const struct site *site = &d->site;

	/* Later versions know by the beginning of this text that they may ask for an
	 * older format. */
	if (format != RECORD_FORMAT)
		return err_set(err,
		    "takeover format %d is not known here, only %d: the two processes "
		    "are of different versions",
		    format, RECORD_FORMAT);
	if (d->giving)
		return err_set(err, "a takeover is under way");
	if (takeover_is_beginning(d) || d->draining)
		return err_set(err, "this process is still taking over another one");
	if (reload_run_is_reading(site))
		return err_set(err, "a RELOAD is under way");
	if (is_switching(site->catalog))
		return err_set(err, "a SWITCHOVER is under way");
	if (site->shutdown != SHUTDOWN_NONE)
		return err_set(err, "%s", error_text(ERROR_GOING_DOWN));
	if (site->catalog->suspended)
		return err_set(err, "%s", error_text(ERROR_ALREADY_PAUSED));
	return 0;
}

int takeover_give(
    struct site *site, struct client *console, int format, int *fd, struct err *err)
{
	struct daemon *d = site_daemon(site);
	struct giving *g;
	int ends[2];

	if (refuse(d, format, err) < 0 || sock_pair(ends, err) < 0)
		return -1;
	g = mem_zero(sizeof(*g));
	g->d = d;
	g->is_first = true;
	g->taker_pid = console->conn.peer_pid;
	g->channel = fd_channel_new(site->loop, ends[0], &giving_ops, g);
	deadline_init(&g->due, giving_due);
	d->giving = g;
	*fd = ends[1];
	log_put(site->log, LEVEL_LOG | KIND_TAKEOVER, NULL, "process %d takes over",
	    g->taker_pid);
	rebalance_interrupt(site);
	hold_still(g);
	return 0;
}

void takeover_interrupt(struct site *site, const char *why)
{
	struct giving *g = site_daemon(site)->giving;

	if (g)
		break_off(g, why);
}

void takeover_stop_giving(struct daemon *d)
{
	if (d->giving)
		giving_free(d->giving);
}

bool takeover_may_pass_to_newer(
    struct daemon *d, const struct client *client, const uint8_t *packet, size_t len)
{
	struct giving *g = d->giving;
	struct err ignored;

	return g && g->channel && !g->is_cut && g->phase == GIVING_SERVING &&
	       fd_channel_send(g->channel, TAKEOVER_STRAY, packet, len,
		   client->conn.stream.fd, 0, &ignored) == 0;
}

/* ---- cancel requests: each of the two processes knows only its own clients ---- */

/* A request that has come from another process goes on in the same direction only, so
 * that it cannot travel in a circle. */
bool takeover_may_pass_cancel(struct client *client, const uint8_t *packet, size_t len)
{
	struct daemon *d = site_daemon(client->conn.site);

	switch ((enum passed_from)client->passed_from) {
	case PASSED_BY_OLDER:
		return takeover_may_pass_to_newer(d, client, packet, len);
	case PASSED_BY_NEWER:
		return takeover_may_pass_to_older(d, client, packet, len);
	case PASSED_BY_NOBODY:
		break;
	}
	return takeover_may_pass_to_newer(d, client, packet, len) ||
	       takeover_may_pass_to_older(d, client, packet, len);
}
