/*
 * Writes lines of the log to stderr (or the journal behind it), a file and syslog.  The
 * lines of one turn of a thread's loop are collected and written with one write per
 * output.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crash_flush.h"
#include "base/json.h"
#include "base/log_line.h"
#include "base/mem.h"
#include "base/text.h"

/* The limit of held bytes, and the amount from which on lines are written at once. */
enum { HELD_MOST = 64 * 1024, HELD_ENOUGH = HELD_MOST - LOG_LINE_MOST };

/* An output, and whole lines that are not yet written to it. */
struct sink {
	struct buf held;
	int fd; /* of the file; -1 before the first line */
	/* the last write was incomplete, so the output ends within a line */
	bool is_cut;
	int error;     /* why the last write failed; 0: it did not */
	uint64_t lost; /* lines since then that could not be written */
};

/* What the logs of all threads share. */
struct shared {
	struct log_threshold threshold;
	pthread_mutex_t lock; /* protects everything below */
	unsigned users;
	atomic_bool has_held;
	struct sink err, file;
	/* lines that the file did not get, and the reason while it gets none */
	atomic_ullong lost_count;
	atomic_int error;
	char *path, *syslog_ident;
	/* allocated at the start, so that "out of memory" can still be logged */
	struct buf line, note;
	struct log_warning warnings[LOG_WARNINGS]; /* a ring */
	size_t warning_count;                      /* of all so far */
	struct log_clock clock;
	int facility;
	bool to_syslog, syslog_open;
	bool quiet;
	bool journal;      /* stderr is the stream of systemd's journal */
	log_take_fn *take; /* receives lines instead of stderr; NULL: none */
	void *take_ctx;
};

struct log {
	/* must be the first member, see log_is_on */
	const struct log_threshold *threshold;
	struct shared *shared;
	struct crash_flush *crash_flush;
	int worker; /* number of the worker; -1: none */
	bool holds; /* lines of this thread may wait for log_flush */
};

struct facility {
	const char *name;
	int value;
};

static const struct facility facilities[] = {
    {"auth", LOG_AUTH},
    {"authpriv", LOG_AUTHPRIV},
    {"daemon", LOG_DAEMON},
    {"user", LOG_USER},
    {"local0", LOG_LOCAL0},
    {"local1", LOG_LOCAL1},
    {"local2", LOG_LOCAL2},
    {"local3", LOG_LOCAL3},
    {"local4", LOG_LOCAL4},
    {"local5", LOG_LOCAL5},
    {"local6", LOG_LOCAL6},
    {"local7", LOG_LOCAL7},
};

static int facility_by_name(const char *name)
{
	for (size_t i = 0; name && i < sizeof(facilities) / sizeof(facilities[0]);
	     i++) {
		if (strcmp(facilities[i].name, name) == 0)
			return facilities[i].value;
	}
	return LOG_DAEMON;
}

/* The journal puts the device and inode of its stream into the environment; comparing
 * them notices a stderr that was redirected since. */
static bool is_journal_stream(int fd)
{
	const char *said = getenv("JOURNAL_STREAM");
	char is[64];
	struct stat st;

	if (!said || fstat(fd, &st))
		return false;
	snprintf(is, sizeof(is), "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	return strcmp(said, is) == 0;
}

/* ---- what is held back ---- */

/* Returns the number of bytes written; errno says why there are not more. */
static size_t write_all(int fd, const uint8_t *bytes, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = write(fd, bytes + done, len - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

static void sink_init(struct sink *sink, int fd)
{
	sink->fd = fd;
	buf_init(&sink->held, HELD_MOST);
	(void)buf_room(&sink->held, HELD_MOST);
}

static uint64_t count_lines(const uint8_t *bytes, size_t len)
{
	uint64_t count = 0;

	for (size_t i = 0; i < len; i++)
		count += bytes[i] == '\n';
	return count;
}

/* Writes what is held.  Lines that cannot be written are lost and counted; the next one
 * then starts on a new line. */
static void sink_write(struct sink *sink)
{
	struct buf *held = &sink->held;

	if (!held->len)
		return;
	if (sink->is_cut)
		(void)write_all(sink->fd, (const uint8_t *)"\n", 1);
	size_t done = write_all(sink->fd, held->bytes, held->len);
	sink->error = done < held->len ? errno : 0;
	sink->lost += count_lines(held->bytes + done, held->len - done);
	if (done > 0)
		sink->is_cut = held->bytes[done - 1] != '\n';
	buf_clear(held);
}

static void sink_put(struct sink *sink, const struct buf *line)
{
	if (!line->failed)
		buf_put(&sink->held, line->bytes, line->len);
}

static void open_syslog(struct shared *s)
{
	if (!s->syslog_open)
		openlog(s->syslog_ident ? s->syslog_ident : "pgbouncer", LOG_PID,
		    s->facility);
	s->syslog_open = true;
}

/* ---- lines that the file does not get ---- */

/* Builds a line of the log itself in s->note. */
static void __attribute__((format(printf, 3, 4)))
make_note(struct shared *s, enum log_level level, const char *fmt, ...)
{
	static const struct log_parts nothing;
	char text[LOG_MESSAGE_MOST];
	struct log_line line = {
	    .what = level, .worker = -1, .text = text, .parts = &nothing};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	buf_clear(&s->note);
	if (s->threshold.is_json)
		log_line_put_json(&s->note, &s->clock, &line);
	else
		log_line_put_plain(&s->note, &s->clock, &line);
}

static void file_write(struct shared *s)
{
	struct sink *file = &s->file;
	bool was_losing = file->lost > 0;

	if (was_losing && file->held.len > 0) {
		/* the file could be written again: it tells how many lines it lacks */
		make_note(s, LEVEL_WARNING, "%" PRIu64 " line%s of the log %s lost: %s",
		    s->file.lost, s->file.lost == 1 ? "" : "s",
		    s->file.lost == 1 ? "was" : "were", strerror(s->file.error));
		if (s->file.is_cut)
			(void)write_all(s->file.fd, (const uint8_t *)"\n", 1);
		size_t done = write_all(s->file.fd, s->note.bytes, s->note.len);
		if (done > 0)
			s->file.is_cut = done < s->note.len;
		if (done == s->note.len)
			s->file.lost = 0;
	}
	uint64_t before = file->lost;
	sink_write(file);
	atomic_fetch_add_explicit(
	    &s->lost_count, file->lost - before, memory_order_relaxed);
	atomic_store_explicit(
	    &s->error, file->lost ? file->error : 0, memory_order_relaxed);
	if (file->lost && !was_losing) {
		/* tells once, where it can be told, that the file gets no lines: on
		 * stderr, or where nobody reads that, in syslog */
		static const char fmt[] = "cannot write to logfile '%s': %s; its lines "
					  "are lost until it can be written again";
		const char *why = strerror(s->file.error);

		make_note(s, LEVEL_ERROR, fmt, s->path, why);
		if (!s->quiet && !s->take)
			(void)write_all(s->err.fd, s->note.bytes, s->note.len);
		if (s->quiet || s->to_syslog) {
			open_syslog(s);
			syslog(LOG_ERR, fmt, s->path, why);
		}
	}
}

static void write_held(struct shared *s)
{
	sink_write(&s->err);
	file_write(s);
	atomic_store_explicit(&s->has_held, false, memory_order_relaxed);
}

/* Writes the held lines from a signal handler, so it takes no lock. */
static void say_held(void *ctx)
{
	const struct log *log = ctx;
	const struct shared *s = log->shared;

	(void)write_all(s->err.fd, s->err.held.bytes, s->err.held.len);
	if (s->file.fd >= 0)
		(void)write_all(s->file.fd, s->file.held.bytes, s->file.held.len);
}

void log_hold(struct log *log)
{
	log->crash_flush = crash_flush_begin(say_held, log);
	/* without last words, a crash would lose the lines that led to it */
	log->holds = log->crash_flush;
}

void log_flush(struct log *log)
{
	struct shared *s = log->shared;

	if (!atomic_load_explicit(&s->has_held, memory_order_relaxed))
		return;
	pthread_mutex_lock(&s->lock);
	write_held(s);
	pthread_mutex_unlock(&s->lock);
}

void log_release(struct log *log)
{
	log_flush(log);
	log->holds = false;
	crash_flush_end(&log->crash_flush);
}

/* ---- making ---- */

static void set_levels(struct shared *s, const struct log_levels *levels)
{
	for (int i = 0; i < LOG_KINDS; i++)
		atomic_store_explicit(
		    &s->threshold.most[i], levels->most[i], memory_order_relaxed);
}

static struct log *new_log(struct shared *s, int worker)
{
	struct log *log = mem_zero(sizeof(*log));

	pthread_mutex_lock(&s->lock);
	s->users++;
	pthread_mutex_unlock(&s->lock);
	log->threshold = &s->threshold;
	log->shared = s;
	log->worker = worker;
	return log;
}

struct log *log_new(void)
{
	struct shared *s = mem_zero(sizeof(*s));
	struct log_levels levels;

	sink_init(&s->err, STDERR_FILENO);
	sink_init(&s->file, -1);
	buf_init(&s->line, LOG_LINE_MOST);
	(void)buf_room(&s->line, LOG_LINE_MOST);
	buf_init(&s->note, LOG_LINE_MOST);
	(void)buf_room(&s->note, LOG_LINE_MOST);
	pthread_mutex_init(&s->lock, NULL);
	log_clock_set(&s->clock, (long)getpid());
	s->facility = LOG_DAEMON;
	s->journal = is_journal_stream(STDERR_FILENO);
	log_levels_set_all(&levels, 0);
	set_levels(s, &levels);
	return new_log(s, -1);
}

struct log *log_for_worker(struct log *log, unsigned worker)
{
	return new_log(log->shared, (int)worker);
}

static void close_syslog(struct shared *s)
{
	if (s->syslog_open)
		closelog();
	s->syslog_open = false;
}

void log_free(struct log **logp)
{
	struct log *log = *logp;
	struct shared *s;

	if (!log)
		return;
	*logp = NULL;
	log_release(log);
	s = log->shared;
	mem_free(log);
	pthread_mutex_lock(&s->lock);
	bool is_last = --s->users == 0;
	pthread_mutex_unlock(&s->lock);
	if (is_last) {
		write_held(s);
		if (s->file.fd >= 0)
			close(s->file.fd);
		close_syslog(s);
		mem_free(s->path);
		mem_free(s->syslog_ident);
		buf_done(&s->line);
		buf_done(&s->note);
		buf_done(&s->err.held);
		buf_done(&s->file.held);
		pthread_mutex_destroy(&s->lock);
		mem_free(s);
	}
}

/* ---- configuration ---- */

static void replace_text(char **old, const char *text)
{
	char *copy = text && *text ? mem_strdup(text) : NULL;

	mem_free(*old);
	*old = copy;
}

static int open_for_append(const char *path)
{
	return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
}

int log_check_file(const char *path, struct err *err)
{
	int fd;

	if (!path || !*path)
		return 0;
	fd = open_for_append(path);
	if (fd < 0)
		return err_set(
		    err, "cannot open logfile '%s': %s", path, strerror(errno));
	close(fd);
	return 0;
}

/* Opens the new file, if any, and closes the old one.  On failure returns -1 and err,
 * and keeps the old file. */
static int change_file(struct shared *s, const char *path, struct err *err)
{
	bool is_running = s->file.fd >= 0 && path && *path;
	int fd = is_running ? open_for_append(path) : -1;

	if (is_running && fd < 0)
		return err_set(err, "cannot open logfile '%s': %s, going on with '%s'",
		    path, strerror(errno), s->path);
	if (s->file.fd >= 0)
		close(s->file.fd);
	s->file.fd = fd;
	s->file.is_cut = false;
	s->file.lost = 0;
	atomic_store_explicit(&s->error, 0, memory_order_relaxed);
	replace_text(&s->path, path);
	return 0;
}

void log_configure(struct log *log, const struct log_config *config)
{
	struct shared *s = log->shared;
	struct err err;

	pthread_mutex_lock(&s->lock);
	/* lines from before the change belong to the old file */
	write_held(s);
	int rc = change_file(s, config->file, &err);
	close_syslog(s);
	replace_text(&s->syslog_ident, config->syslog_ident);
	s->to_syslog = config->syslog;
	s->facility = facility_by_name(config->syslog_facility);
	set_levels(s, &config->levels);
	atomic_store_explicit(
	    &s->threshold.is_json, config->format == LOG_JSON, memory_order_relaxed);
	log_clock_set(&s->clock, s->clock.pid);
	pthread_mutex_unlock(&s->lock);
	if (rc < 0)
		log_error(log, "%s", err.text);
}

void log_forked(struct log *log)
{
	log_clock_set(&log->shared->clock, (long)getpid());
}

void log_quiet(struct log *log, bool is_quiet)
{
	pthread_mutex_lock(&log->shared->lock);
	log->shared->quiet = is_quiet;
	pthread_mutex_unlock(&log->shared->lock);
}

bool log_has_journal(const struct log *log)
{
	return log->shared->journal;
}

uint64_t log_lost_count(const struct log *log)
{
	return atomic_load_explicit(&log->shared->lost_count, memory_order_relaxed);
}

const char *log_file_error(const struct log *log, char *room, size_t size)
{
	int error = atomic_load_explicit(&log->shared->error, memory_order_relaxed);

	snprintf(room, size, "%s", error ? strerror(error) : "");
	return room;
}

size_t log_last_warnings(const struct log *log, struct log_warning out[LOG_WARNINGS])
{
	struct shared *s = log->shared;
	size_t count;

	pthread_mutex_lock(&s->lock);
	count = s->warning_count < LOG_WARNINGS ? s->warning_count : LOG_WARNINGS;
	for (size_t i = 0; i < count; i++)
		out[i] = s->warnings[(s->warning_count - 1 - i) % LOG_WARNINGS];
	pthread_mutex_unlock(&s->lock);
	return count;
}

void log_divert(struct log *log, log_take_fn *take, void *ctx)
{
	log->shared->take = take;
	log->shared->take_ctx = ctx;
}

/* ---- one line ---- */

/* Builds the line in s->line: plain or JSON as the file gets it, unless it is already
 * there. */
static void need_line(struct shared *s, const struct log_line *line, bool *is_made)
{
	if (*is_made)
		return;
	buf_clear(&s->line);
	if (s->threshold.is_json)
		log_line_put_json(&s->line, &s->clock, line);
	else
		log_line_put_plain(&s->line, &s->clock, line);
	*is_made = true;
}

static void put_stderr(struct shared *s, const struct log_line *line, bool *is_made)
{
	if (s->journal) {
		buf_clear(&s->line);
		log_line_put_journal(&s->line, &s->clock, line, s->threshold.is_json);
	} else {
		need_line(s, line, is_made);
	}
	sink_put(&s->err, &s->line);
	if (s->err.held.len > HELD_ENOUGH)
		sink_write(&s->err);
}

/* Exits when the log file cannot be opened, because nobody would notice a missing
 * log. */
static void open_file(struct shared *s)
{
	static const struct log_parts nothing;
	char reason[LOG_MESSAGE_MOST];
	struct log_line line = {
	    .what = LEVEL_FATAL, .worker = -1, .text = reason, .parts = &nothing};
	bool is_made = false;

	s->file.fd = open_for_append(s->path);
	if (s->file.fd >= 0)
		return;
	snprintf(reason, sizeof(reason), "Cannot open logfile: '%s': %s", s->path,
	    strerror(errno));
	put_stderr(s, &line, &is_made);
	sink_write(&s->err);
	exit(1);
}

void log_open(struct log *log)
{
	struct shared *s = log->shared;

	pthread_mutex_lock(&s->lock);
	if (s->path && s->file.fd < 0)
		open_file(s);
	pthread_mutex_unlock(&s->lock);
}

/* Joins tag and message and cuts them at the maximum.  Returns the beginning of the
 * message. */
static const char *__attribute__((format(printf, 4, 0)))
compose(char text[LOG_MESSAGE_MOST], const struct log_parts *parts, bool is_json,
    const char *fmt, va_list ap)
{
	const char *most = text + LOG_MESSAGE_MOST;
	char *message = text, *end;

	if (!is_json && parts->tag && *parts->tag)
		message =
		    text_append(text_append_escaped(text, most, parts->tag), most, " ");
	/* JSON has escapes of its own */
	if (is_json || parts->has_lines)
		end = text_vprint(message, most, fmt, ap);
	else
		end = text_vprint_escaped(message, most, fmt, ap);
	/* Removes white space at the end of the message.  A message that was cut ends
	 * with dots, so that no line ends with a part of what a stranger has sent. */
	static const char cut[] = "...";
	if (end >= most - 1)
		memcpy(end - strlen(cut), cut, strlen(cut));
	while (end > text && strchr(" \t\n\v\f\r", end[-1]))
		end--;
	*end = '\0';
	return message;
}

/* Writes the line to all outputs. */
static void put_line(
    struct shared *s, const struct log_line *line, const char *tag, const char *message)
{
	bool is_made = false;

	if (s->take)
		s->take(s->take_ctx, log_level_of(line->what), tag, message);
	else if (!s->quiet)
		put_stderr(s, line, &is_made);
	if (s->path) {
		if (s->file.fd < 0)
			open_file(s);
		need_line(s, line, &is_made);
		sink_put(&s->file, &s->line);
		if (s->file.held.len > HELD_ENOUGH)
			file_write(s);
	}
	if (s->to_syslog && log_level_of(line->what) <= LEVEL_LOG) {
		/* syslog gets a separate message for each line of a text */
		struct buf *text = &s->line;
		open_syslog(s);
		buf_clear(text);
		if (s->threshold.is_json)
			log_line_put_json(text, &s->clock, line);
		else
			log_line_put_bare(text, line);
		if (!text->failed)
			syslog(log_line_priority(line), "%.*s", (int)text->len - 1,
			    (const char *)text->bytes);
	}
}

void log_put_parts(struct log *log, unsigned what, const struct log_parts *parts,
    const char *fmt, va_list ap)
{
	struct shared *s = log->shared;
	char text[LOG_MESSAGE_MOST];
	struct log_line line = {what, log->worker, text, parts};
	int saved_errno = errno;

	if (!log_is_on(log, what))
		return;
	bool is_json = log_is_json(log);
	const char *message = compose(text, parts, is_json, fmt, ap);
	pthread_mutex_lock(&s->lock);
	if (log_level_of(what) <= LEVEL_WARNING) {
		struct log_warning *w = &s->warnings[s->warning_count++ % LOG_WARNINGS];

		w->at_s = time(NULL);
		w->level = log_line_level(&line);
		snprintf(w->text, sizeof(w->text), "%s", line.text);
	}
	put_line(s, &line, is_json ? NULL : parts->tag, message);
	if (!log->holds || log_level_of(what) == LEVEL_FATAL)
		write_held(s);
	else
		atomic_store_explicit(&s->has_held, true, memory_order_relaxed);
	pthread_mutex_unlock(&s->lock);
	errno = saved_errno;
}

void log_putv(
    struct log *log, unsigned what, const char *tag, const char *fmt, va_list ap)
{
	struct log_parts parts = {.tag = tag};

	log_put_parts(log, what, &parts, fmt, ap);
}

void log_put(struct log *log, unsigned what, const char *tag, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_putv(log, what, tag, fmt, ap);
	va_end(ap);
}

static void __attribute__((format(printf, 4, 5))) put_parts(
    struct log *log, unsigned what, const struct log_parts *parts, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_put_parts(log, what, parts, fmt, ap);
	va_end(ap);
}

void log_put_lines(struct log *log, unsigned what, const char *text)
{
	put_parts(log, what, &(struct log_parts){.has_lines = true}, "%s", text);
}

static bool is_one_word(const char *name)
{
	if (!*name || *name == '"')
		return false;
	while (*name && *name != ' ' && !text_hidden_len(name))
		name++;
	return !*name;
}

const char *log_word(char out[LOG_WORD], const char *name)
{
	struct buf quoted;

	if (is_one_word(name))
		return name;
	buf_init(&quoted, LOG_WORD);
	json_put_text(&quoted, name, LOG_WORD - 3);
	snprintf(out, LOG_WORD, "%s", buf_text(&quoted));
	buf_done(&quoted);
	return out;
}
