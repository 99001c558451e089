/*
 * The new process of a takeover.  It checks what the old process sends and keeps it;
 * clients and servers are made of it only after GO was received and ALIVE sent.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time_us.h"
#include "daemon/fd_channel.h"
#include "daemon/process.h"
#include "daemon/takeover.h"
#include "daemon/takeover_unpack.h"
#include "handoff/handoff.h"
#include "login/listen.h"
#include "login/startup_phase.h"
#include "metrics/metrics.h"
#include "session/workers.h"

enum {
	SEND_PATIENCE_MS = 2000,
	DEATH_PATIENCE_MS = 1000, /* the system closes a dead process's descriptors */
	LATER_PATIENCE_MS = 100,  /* while clients are being served */
};

enum phase {
	TAKING_COLLECTING,
	TAKING_READY,  /* READY was sent */
	TAKING_WAITING /* ALIVE was sent: this process is up; DONE follows */
};

struct taking {
	struct daemon *d;
	struct fd_channel *channel;
	/* of the control site; NULL before the sender's first record */
	struct handoff *handoff;
	struct packed_record
	    *origin; /* the sender's first record; NULL: not received yet */
	struct list packed_records;
	struct deadline due; /* frees it, outside of the channel's calls */
	/* NULL, or the console's: the channel has failed before the old process has let
	 * go */
	struct watch *letting_go;
	struct err err;
	enum phase phase;
	struct unpacked_counts counts;
	int old_pid;
	int console;      /* of the old process, which would give up if it were closed
			     before it has let go; or -1 */
	int old_process;  /* descriptor that tells its end; -1: the system has none */
	bool is_first;    /* the first round is in progress, and takeover_take runs the
			     loop */
	bool is_held;     /* takeover_take still uses it */
	bool is_linked;   /* the server of the last client has to follow */
	bool is_paused;   /* the old process was paused */
	bool is_prepared; /* for READY */
	bool is_cut;      /* it could not be told READY or ALIVE */
	bool has_failed;
	bool has_ended; /* the connection has ended */
};

static struct log *taking_log(const struct taking *t)
{
	return t->d->site.log;
}

static void throw_away(struct taking *t)
{
	while (!list_is_empty(&t->packed_records)) {
		struct packed_record *packed = container_of(
		    list_first(&t->packed_records), struct packed_record, node);
		list_remove(&t->packed_records, &packed->node);
		packed_record_free(&packed);
	}
	t->is_linked = false;
}

static void close_console(struct taking *t)
{
	if (t->console >= 0)
		close(t->console);
	t->console = -1;
}

/* The old process has closed its sockets and removed its pidfile.  Older versions do
 * not look whether the pidfile is theirs. */
static void elder_has_let_go(struct taking *t)
{
	struct err err;

	close_console(t);
	listen_own(&t->d->site);
	metrics_review(&t->d->site);
	if (pidfile_restore(&t->d->pidfile, &err) < 0)
		log_warning(
		    taking_log(t), "%s; this process goes on without it", err.text);
}

static void free_soon(struct taking *t)
{
	deadline_set(t->d->site.loop, &t->due, loop_now(t->d->site.loop));
}

static void console_heard(void *ctx, int fd)
{
	struct taking *t = ctx;

	(void)fd;
	watch_free(&t->letting_go);
	elder_has_let_go(t);
	free_soon(t);
}

/* Nothing more arrives: frees the rest later.  If that is because this process cannot
 * read, the old one is only about to let go.  Its console ends behind that, or with
 * it. */
static void end_taking(struct taking *t)
{
	struct loop *loop = t->d->site.loop;

	throw_away(t);
	t->has_ended = true;
	if (!t->is_first && t->console >= 0) {
		t->letting_go =
		    watch_new(loop, t->console, WATCH_READ, console_heard, t);
		return;
	}
	if (!t->is_first)
		elder_has_let_go(t);
	free_soon(t);
}

static void give_back(struct taking *t)
{
	t->has_failed = true;
	end_taking(t);
	if (t->is_first)
		loop_stop(t->d->site.loop);
}

/* The old process takes no more frames.  If it was killed, the connection has ended. If
 * it cannot read, it gives up and says so: it could not if this process ended the
 * connection first, and would be taken for dead if it ended soon after that.  Only if
 * it stands still the connection is cut. */
static void hang_up(struct taking *t)
{
	t->is_cut = true;
	deadline_set(t->d->site.loop, &t->due,
	    loop_now(t->d->site.loop) + SEND_PATIENCE_MS * UINT64_C(1000));
}

/* What was sent cannot be taken over: tells the old process, which continues. */
static void fail(struct taking *t)
{
	struct err ignored;

	if (t->has_failed)
		return;
	(void)fd_channel_send(t->channel, TAKEOVER_FAILED, t->err.text,
	    strlen(t->err.text), -1, SEND_PATIENCE_MS, &ignored);
	if (!t->is_first)
		log_put(taking_log(t), LEVEL_WARNING | KIND_TAKEOVER, NULL,
		    "clients of process %d stay there: %s", t->old_pid, t->err.text);
	give_back(t);
}

/* ---- unpacking ---- */

static void pause_site(struct site *site)
{
	site->catalog->paused = true;
}

static void hold_site(struct site *site)
{
	site->catalog->is_offered = true;
}

/* A salt that is another one after a restart would tell that its user does not exist.
 */
static void take_secret(struct site *site, void *ctx)
{
	memmove(site->mock_secret, ctx, sizeof(site->mock_secret));
}

static void release_site(struct site *site)
{
	handoff_keep(site);
	catalog_schedule_all(site->catalog, NULL);
}

/* In the first round, workers must not start before all servers have been unpacked and
 * counted, otherwise they would open new ones.  In later rounds the workers are serving
 * clients already and go on. */
static void unpack_all(struct taking *t)
{
	struct site *site = &t->d->site;

	if (t->is_first)
		(void)workers_each(site, take_secret, site->mock_secret);
	if (t->is_paused)
		workers_all(site, pause_site);
	t->is_paused = false;
	if (t->handoff)
		takeover_unpack(
		    site, t->handoff, &t->packed_records, t->origin, &t->counts);
	if (t->is_first)
		workers_all(site, release_site);
	listen_start(site);
}

/* From here on this process is up: takeover_take returns. */
static void finish_first(struct taking *t)
{
	if (!t->is_first)
		return;
	t->is_first = false;
	loop_stop(t->d->site.loop);
}

/* ---- what the old process says ---- */

/* Accepts: after ALIVE the old process cannot take anything back. */
static void go(struct taking *t)
{
	if (fd_channel_send(t->channel, TAKEOVER_ALIVE, NULL, 0, -1, 0, &t->err) < 0) {
		hang_up(t);
		return;
	}
	t->phase = TAKING_WAITING;
	unpack_all(t);
	finish_first(t);
}

/* Does what may fail before the old process is asked to decide. */
static int prepare(struct taking *t)
{
	struct daemon *d = t->d;

	if (!t->is_first)
		return 0;
	t->is_prepared = true;
	if (pidfile_check(&d->pidfile, t->old_pid, 0, taking_log(t), &t->err) < 0)
		return -1;
	int result = listen_open(&d->site, 0, &t->err);
	listen_stop(&d->site);
	return result;
}

static void ready(struct taking *t)
{
	if (!t->handoff || t->is_linked) {
		err_set(&t->err, "what came was not whole");
		fail(t);
	} else if (prepare(t) < 0) {
		fail(t);
	} else if (fd_channel_send(t->channel, TAKEOVER_READY, NULL, 0, -1,
		       SEND_PATIENCE_MS, &t->err) < 0) {
		hang_up(t);
	} else {
		t->phase = TAKING_READY;
	}
}

static int begin(struct taking *t, const struct record_origin *origin)
{
	t->handoff = handoff_new(&t->d->site, origin, &t->err);
	t->old_pid = origin->pid;
	if (t->old_process < 0)
		t->old_process = process_open(t->old_pid);
	t->is_paused = origin->is_paused;
	if (origin->mock_secret.len == sizeof(t->d->site.mock_secret))
		take_secret(&t->d->site, (void *)(uintptr_t)origin->mock_secret.at);
	return t->handoff ? 0 : -1;
}

static int look(struct taking *t, const struct record *record, int fd)
{
	bool has_descriptor = record->kind == RECORD_CLIENT ||
			      record->kind == RECORD_SERVER ||
			      record->kind == RECORD_LISTENER;

	if (has_descriptor != (fd >= 0))
		return err_set(&t->err, "a record without its descriptor");
	if (record->kind == RECORD_ORIGIN && t->handoff)
		return err_set(&t->err, "it begins twice");
	if (record->kind == RECORD_ORIGIN)
		return begin(t, &record->origin);
	if (!t->handoff)
		return err_set(&t->err, "it has no beginning");
	/* a linked server must come directly after its client */
	if ((record->kind == RECORD_SERVER && record->server.is_linked) != t->is_linked)
		return err_set(&t->err, "a client without its server");
	t->is_linked = record->kind == RECORD_CLIENT && record->client.is_linked;
	return handoff_check(t->handoff, record, &t->err);
}

static void lay_aside(
    struct taking *t, const struct record *record, struct packed_record *packed)
{
	if (record->kind == RECORD_ORIGIN) {
		t->origin = packed;
		return;
	}
	packed->is_linked =
	    record->kind == RECORD_CLIENT ? record->client.is_linked : false;
	list_push_back(&t->packed_records, &packed->node);
}

static void collect(
    struct taking *t, enum record_kind kind, const uint8_t *bytes, size_t len, int fd)
{
	struct arena *arena = arena_new();
	struct record record;
	int result = record_decode(&record, kind, bytes, len, arena);

	if (result < 0)
		err_set(&t->err, "what came cannot be read (%c, %zu bytes)", kind, len);
	else
		result = look(t, &record, fd);
	if (result < 0) {
		if (fd >= 0)
			close(fd);
		fail(t);
	} else if (kind == RECORD_LISTENER) {
		listen_take(&t->d->site, fd, record.listener.is_unix);
	} else {
		lay_aside(t, &record, packed_record_new(kind, bytes, len, fd));
	}
	mem_wipe(&record, sizeof(record));
	arena_free(&arena);
}

static void taking_arrived(
    void *ctx, uint8_t kind, const uint8_t *bytes, size_t len, int fd)
{
	struct taking *t = ctx;

	if (t->has_failed) {
		if (fd >= 0)
			close(fd);
	} else if (kind >= 'A' && kind <= 'Z' && t->phase == TAKING_COLLECTING) {
		collect(t, (enum record_kind)kind, bytes, len, fd);
	} else if (kind == TAKEOVER_STRAY && fd >= 0) {
		startup_phase_admit(&t->d->site, fd, PASSED_BY_OLDER, bytes, len);
	} else if (kind == TAKEOVER_END && t->phase == TAKING_COLLECTING) {
		ready(t);
	} else if (kind == TAKEOVER_GO && t->phase == TAKING_READY) {
		go(t);
	} else if (kind == TAKEOVER_GIVEN_UP) {
		err_set(&t->err, "the running process has given up: %.*s",
		    len < 200 ? (int)len : 200, (const char *)bytes);
		give_back(t);
	} else if (kind == TAKEOVER_DONE && t->phase == TAKING_WAITING) {
		t->phase = TAKING_COLLECTING;
		elder_has_let_go(t);
	} else {
		if (fd >= 0)
			close(fd);
		err_set(&t->err, "unexpected message");
		fail(t);
	}
}

/* ---- the end of the old process ---- */

/* The server of the last client has not come. */
static void drop_half(struct taking *t)
{
	struct packed_record *packed;

	if (!t->is_linked)
		return;
	packed =
	    container_of(list_last(&t->packed_records), struct packed_record, node);
	list_remove(&t->packed_records, &packed->node);
	packed_record_free(&packed);
	t->is_linked = false;
}

/* Opens the listening sockets, and checks the pidfile, if the old process was killed
 * before READY.  -1 and err: that failed, and nobody has been taken over either. */
static int prepare_alone(struct taking *t)
{
	struct daemon *d = t->d;
	struct err why;

	if (pidfile_check(
		&d->pidfile, t->old_pid, LISTEN_PATIENCE_MS, taking_log(t), &why) < 0) {
		log_warning(
		    taking_log(t), "%s; this process goes on without it", why.text);
		pidfile_remove(&d->pidfile);
	}
	if (listen_open(&d->site, LISTEN_PATIENCE_MS, &why) == 0)
		return 0;
	if (list_is_empty(&t->packed_records))
		return err_set(&t->err,
		    "the running process has ended before it had handed over "
		    "everything, and then: %s",
		    why.text);
	log_error(taking_log(t),
	    "%s; this process serves those whom it has taken over: restart it when "
	    "that is mended",
	    why.text);
	return 0;
}

/* The old process was killed.  This process takes over what has come, because nobody
 * else can serve the clients. */
static void go_on_alone(struct taking *t)
{
	log_put(taking_log(t), LEVEL_WARNING | KIND_TAKEOVER, NULL,
	    "process %d ended in the middle of the takeover; going on with what it had "
	    "handed over",
	    t->old_pid);
	drop_half(t);
	if (t->is_first && !t->is_prepared && prepare_alone(t) < 0) {
		t->has_failed = true;
		loop_stop(t->d->site.loop);
		return;
	}
	unpack_all(t);
	finish_first(t);
}

/* True: the descriptor has something to tell.  Signals, as that of a RELOAD, do not end
 * the wait. */
static bool await_news(const struct taking *t, struct pollfd watch, int patience_ms)
{
	struct loop *loop = t->d->site.loop;
	int count;

	loop_touch_clock(loop);
	uint64_t now = loop_now(loop), end = now + (uint64_t)patience_ms * 1000;
	do {
		count = poll(&watch, 1, (int)((end - now) / 1000));
		loop_touch_clock(loop);
		now = time_earlier(loop_now(loop), end);
	} while (count < 0 && errno == EINTR);
	return count > 0;
}

/* An old process that gives up because this one does not read cannot say so here; it
 * says it at the console, which it keeps open.  In later rounds there is no console: if
 * this process could not read, the old one may have gone on with its clients before it
 * ended.  Whoever went on beside it, or with what was true before it went on, would
 * spoil what its clients do. */
static bool await_end_of_elder(const struct taking *t)
{
	const struct pollfd console = {t->console, POLLIN | POLLRDHUP, 0};
	const struct pollfd process = {t->old_process, POLLIN, 0};
	char notice;

	if (!t->is_first)
		return !fd_channel_is_deaf(t->channel) &&
		       await_news(t, process, LATER_PATIENCE_MS);
	return await_news(t, console, DEATH_PATIENCE_MS) &&
	       recv(t->console, &notice, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
}

/* The connection has ended without GIVEN_UP. */
static void old_has_ended(struct taking *t)
{
	if (t->phase == TAKING_WAITING ||
	    (!t->is_first && list_is_empty(&t->packed_records)))
		return;
	if (await_end_of_elder(t)) {
		go_on_alone(t);
		return;
	}
	t->has_failed = true;
	err_set(&t->err,
	    "the running process has ended before it had handed over everything");
	if (t->is_first)
		loop_stop(t->d->site.loop);
}

static void taking_ended(void *ctx, const struct err *err)
{
	struct taking *t = ctx;

	if (err && !t->has_failed) {
		t->err = *err;
		fail(t);
	} else if (!t->has_failed) {
		old_has_ended(t);
	}
	end_taking(t);
}

static const struct fd_channel_ops taking_ops = {
    .arrived = taking_arrived,
    .ended = taking_ended,
};

/* ---- begin and end ---- */

/* The old process has closed the descriptors that it handed over. */
static void note_unshared(struct site *site)
{
	loop_note_shared(site->loop, false);
}

static void taking_free(struct taking *t)
{
	t->d->taking = NULL;
	deadline_clear(t->d->site.loop, &t->due);
	throw_away(t);
	handoff_free(&t->handoff);
	fd_channel_free(&t->channel);
	packed_record_free(&t->origin);
	workers_all(&t->d->site, note_unshared);
	watch_free(&t->letting_go);
	close_console(t);
	if (t->old_process >= 0)
		close(t->old_process);
	mem_free(t);
}

static void taking_due(struct deadline *due)
{
	struct taking *t = container_of(due, struct taking, due);

	if (t->is_cut && !t->has_ended) {
		fd_channel_cut(t->channel);
		taking_ended(t, NULL);
	} else if (!t->is_held) {
		taking_free(t);
	}
}

static struct taking *taking_new(struct daemon *d, const struct takeover_terms *terms)
{
	struct taking *t = mem_zero(sizeof(*t));

	t->d = d;
	t->console = terms->console;
	t->old_pid = terms->pid;
	t->old_process = -1;
	t->is_first = t->is_held = true;
	list_init(&t->packed_records);
	deadline_init(&t->due, taking_due);
	t->channel = fd_channel_new(d->site.loop, terms->fd, &taking_ops, t);
	return t;
}

void takeover_hold_pools(struct daemon *d)
{
	workers_all(&d->site, hold_site);
}

/* Nobody has answered.  If nobody listens any more either, the old process was killed,
 * and this one starts as usual.  -1: it still listens, or the start fails. */
static int start_alone(
    struct daemon *d, const struct takeover_terms *terms, struct err *err)
{
	struct site *site = &d->site;

	if (!terms->has_gone ||
	    listen_is_in_use(site, site_settings(site), LISTEN_PATIENCE_MS))
		return -1;
	log_put(site->log, LEVEL_WARNING | KIND_TAKEOVER, NULL,
	    "%s; it has ended, and this process starts as usual", err->text);
	if (pidfile_check(&d->pidfile, terms->pid, LISTEN_PATIENCE_MS, site->log, err) <
		0 ||
	    listen_open(site, LISTEN_PATIENCE_MS, err) < 0)
		return -1;
	workers_all(site, release_site);
	return 0;
}

int takeover_take(struct daemon *d, struct err *err)
{
	struct taking *t;
	struct takeover_terms terms;

	log_put(d->site.log, LEVEL_LOG | KIND_TAKEOVER, NULL,
	    "takeover_init: launching connection");
	if (takeover_ask(site_settings(&d->site), &terms, err) < 0)
		return start_alone(d, &terms, err);
	if (terms.fd < 0) {
		if (takeover_drain(d, &terms, err) < 0)
			return -1;
		workers_all(&d->site, release_site);
		return 0;
	}
	t = d->taking = taking_new(d, &terms);
	while (t->is_first && !t->has_failed && !d->is_cut_short)
		loop_run(d->site.loop);
	if (d->is_cut_short)
		err_set(&t->err, "takeover was in progress, going down immediately");
	if (t->has_failed || d->is_cut_short) {
		*err = t->err;
		return -1;
	}
	log_put(taking_log(t), LEVEL_LOG | KIND_TAKEOVER, NULL,
	    "took over %zu clients and %zu idle servers from process %d",
	    t->counts.clients, t->counts.servers, t->old_pid);
	t->is_held = false; /* it is freed if the old process has ended meanwhile */
	if (t->has_ended && !t->letting_go)
		free_soon(t);
	return 0;
}

bool takeover_is_beginning(const struct daemon *d)
{
	return d->taking && d->taking->is_first;
}

void takeover_stop_taking(struct daemon *d)
{
	if (d->taking)
		taking_free(d->taking);
}

bool takeover_has_elder(const struct daemon *d)
{
	return d->taking || d->draining;
}

bool takeover_may_pass_to_older(
    struct daemon *d, const struct client *client, const uint8_t *packet, size_t len)
{
	struct taking *t = d->taking;
	struct err ignored;

	return t && !t->has_failed &&
	       fd_channel_send(t->channel, TAKEOVER_STRAY, packet, len,
		   client->conn.stream.fd, 0, &ignored) == 0;
}
