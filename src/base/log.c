/*
 * Lines of log to stderr (or the journal behind it), a file and syslog.  Every line
 * leaves with one write per sink; nothing is held back in a buffer.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"

/* A line is larger than its message by the stamp and by what stands behind newlines. */
enum { MESSAGE_MOST = 2048, LINE_MOST = 128 + 5 * MESSAGE_MOST };

/* Room for "YYYY-MM-DD HH:MM:SS.", and for " ZONE [PID] ". */
enum { STAMP_SECONDS_SIZE = 32, ZONE_SIZE = 32, ZONE_AND_PID_SIZE = 64 };

struct log {
	struct log_threshold threshold; /* first: see log_is_on */
	pthread_mutex_t lock; /* recursive: what fails to be logged is logged */
	char *file, *syslog_ident;
	struct buf line; /* has its memory from the start: lines about none come out */
	long pid;
	int fd; /* of the file; -1 until the first line */
	int facility;
	bool to_syslog, syslog_open;
	bool quiet;
	bool journal;      /* stderr is the journal's stream */
	log_take_fn *take; /* NULL: lines go to stderr */
	void *take_ctx;
	/* The stamp of stamp_second. */
	time_t stamp_second;
	char stamp[STAMP_SECONDS_SIZE];
	char behind_stamp[ZONE_AND_PID_SIZE];
};

struct level {
	const char *name;
	int priority; /* for syslog and the journal */
};

static const struct level levels[] = {
    [LEVEL_FATAL] = {"FATAL", LOG_CRIT},
    [LEVEL_ERROR] = {"ERROR", LOG_ERR},
    [LEVEL_WARNING] = {"WARNING", LOG_WARNING},
    [LEVEL_LOG] = {"LOG", LOG_INFO},
    [LEVEL_DEBUG] = {"DEBUG", LOG_INFO},
    [LEVEL_NOISE] = {"NOISE", LOG_DEBUG},
    [LEVEL_TRACE] = {"NOISE", LOG_DEBUG},
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

/* The journal names the device and inode of the stream it gave us, so that a stderr
 * that was redirected since is told apart. */
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

static void log_lock_init(struct log *log)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&log->lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
}

struct log *log_new(void)
{
	struct log *log = mem_zero(sizeof(*log));

	log->fd = -1;
	buf_init(&log->line, LINE_MOST);
	(void)buf_room(&log->line, LINE_MOST);
	log_lock_init(log);
	log->stamp_second = -1;
	log->pid = (long)getpid();
	log->facility = LOG_DAEMON;
	log->journal = is_journal_stream(STDERR_FILENO);
	tzset();
	return log;
}

static void close_syslog(struct log *log)
{
	if (log->syslog_open)
		closelog();
	log->syslog_open = false;
}

void log_free(struct log **logp)
{
	struct log *log = *logp;

	if (!log)
		return;
	if (log->fd >= 0)
		close(log->fd);
	close_syslog(log);
	mem_free(log->file);
	mem_free(log->syslog_ident);
	buf_done(&log->line);
	pthread_mutex_destroy(&log->lock);
	mem_free(log);
	*logp = NULL;
}

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

/* Closes the file in use when another one can be opened, or when none is wanted. */
static void change_file(struct log *log, const char *path)
{
	bool is_running = log->fd >= 0 && path && *path;
	int fd = is_running ? open_for_append(path) : -1;

	if (is_running && fd < 0) {
		log_error(log, "cannot open logfile '%s': %s, going on with '%s'", path,
		    strerror(errno), log->file);
		return;
	}
	if (log->fd >= 0)
		close(log->fd);
	log->fd = fd;
	replace_text(&log->file, path);
}

void log_configure(struct log *log, const struct log_config *config)
{
	pthread_mutex_lock(&log->lock);
	change_file(log, config->file);
	close_syslog(log);
	replace_text(&log->syslog_ident, config->syslog_ident);
	log->to_syslog = config->syslog;
	log->facility = facility_by_name(config->syslog_facility);
	/* less than nothing would hide errors */
	log->threshold.verbose = config->verbose > 0 ? config->verbose : 0;
	log->stamp_second = -1;
	tzset();
	pthread_mutex_unlock(&log->lock);
}

void log_forked(struct log *log)
{
	log->pid = (long)getpid();
	log->stamp_second = -1;
}

void log_quiet(struct log *log)
{
	log->quiet = true;
}

void log_divert(struct log *log, log_take_fn *take, void *ctx)
{
	log->take = take;
	log->take_ctx = ctx;
}

/* What the lines of one second have in common. */
static void new_second(struct log *log, time_t second)
{
	char zone[ZONE_SIZE];
	struct tm tm;

	localtime_r(&second, &tm);
	strftime(log->stamp, sizeof(log->stamp), "%Y-%m-%d %H:%M:%S.", &tm);
	strftime(zone, sizeof(zone), "%Z", &tm);
	snprintf(
	    log->behind_stamp, sizeof(log->behind_stamp), " %s [%ld] ", zone, log->pid);
	log->stamp_second = second;
}

/* The first columns of a line: time, zone and process. */
static void put_stamp(struct log *log, struct buf *b)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (now.tv_sec != log->stamp_second)
		new_second(log, now.tv_sec);
	long ms = now.tv_nsec / 1000000;
	char digits[] = {
	    (char)('0' + ms / 100), (char)('0' + ms / 10 % 10), (char)('0' + ms % 10)};
	buf_put_text(b, log->stamp);
	buf_put(b, digits, sizeof(digits));
	buf_put_text(b, log->behind_stamp);
}

/* text with a newline behind it, and with `mark` put behind every newline (a tab that
 * stands there already is not doubled). */
static void put_lines(struct buf *b, const char *text, const char *mark)
{
	for (;;) {
		const char *end = strchr(text, '\n');
		buf_put(b, text, end ? (size_t)(end - text) : strlen(text));
		buf_put_u8(b, '\n');
		if (!end)
			return;
		text = end + 1;
		if (*text == '\t')
			text++;
		buf_put_text(b, mark);
	}
}

static void write_line(int fd, const struct buf *line)
{
	ssize_t written;

	if (line->failed)
		return;
	/* When the log cannot be written, there is nowhere to report it. */
	do {
		written = write(fd, line->bytes, line->len);
	} while (written < 0 && errno == EINTR);
}

static void make_line(struct log *log, enum log_level level, const char *text)
{
	struct buf *line = &log->line;

	buf_clear(line);
	put_stamp(log, line);
	buf_put_text(line, levels[level].name);
	buf_put_u8(line, ' ');
	put_lines(line, text, "\t");
}

/* Each line of the stream is an entry of its own and begins with its priority. */
static void make_journal_line(struct log *log, enum log_level level, const char *text)
{
	struct buf *line = &log->line;
	char mark[8];

	buf_clear(line);
	snprintf(mark, sizeof(mark), "<%d>\t", levels[level].priority);
	buf_put(line, mark, strlen(mark) - 1);
	put_lines(line, text, mark);
}

/* log->line is this line as files have it: false before, true behind. */
static void need_line(
    struct log *log, enum log_level level, const char *text, bool *is_made)
{
	if (!*is_made)
		make_line(log, level, text);
	*is_made = true;
}

static void put_stderr(
    struct log *log, enum log_level level, const char *text, bool *is_made)
{
	if (log->journal)
		make_journal_line(log, level, text);
	else
		need_line(log, level, text, is_made);
	write_line(STDERR_FILENO, &log->line);
}

/* A log file that cannot be opened ends the process: without it nobody would notice. */
static void open_file(struct log *log)
{
	log->fd = open_for_append(log->file);
	if (log->fd >= 0)
		return;
	char reason[MESSAGE_MOST];
	bool is_made = false;
	snprintf(reason, sizeof(reason), "Cannot open logfile: '%s': %s", log->file,
	    strerror(errno));
	put_stderr(log, LEVEL_FATAL, reason, &is_made);
	exit(1);
}

static void put_file(
    struct log *log, enum log_level level, const char *text, bool *is_made)
{
	if (log->fd < 0)
		open_file(log);
	need_line(log, level, text, is_made);
	write_line(log->fd, &log->line);
}

static void put_syslog(struct log *log, enum log_level level, const char *text)
{
	if (!log->syslog_open) {
		openlog(log->syslog_ident ? log->syslog_ident : "pgbouncer", LOG_PID,
		    log->facility);
		log->syslog_open = true;
	}
	buf_clear(&log->line);
	put_lines(&log->line, text, "\t");
	if (!log->line.failed)
		syslog(levels[level].priority, "%.*s", (int)log->line.len - 1,
		    (const char *)log->line.bytes);
}

/* Tag and message, cut at the maximum and without white space at the end. */
static void __attribute__((format(printf, 4, 0)))
compose(char *text, size_t size, const char *tag, const char *fmt, va_list ap)
{
	const char *most = text + size;
	char *end = text;

	if (tag && *tag)
		end = text_append(text_append(text, most, tag), most, " ");
	end = text_vprint(end, most, fmt, ap);
	while (end > text && strchr(" \t\n\v\f\r", end[-1]))
		end--;
	*end = '\0';
}

static const char *behind_tag(const char *text, const char *tag)
{
	size_t len = tag ? strlen(tag) : 0;

	return len && text[len] ? text + len + 1 : text + len;
}

void log_putv(
    struct log *log, enum log_level level, const char *tag, const char *fmt, va_list ap)
{
	char text[MESSAGE_MOST];
	int saved_errno = errno;
	bool is_made = false;

	if (!log_is_on(log, level))
		return;
	compose(text, sizeof(text), tag, fmt, ap);
	pthread_mutex_lock(&log->lock);
	if (log->take)
		log->take(log->take_ctx, level, tag, behind_tag(text, tag));
	else if (!log->quiet)
		put_stderr(log, level, text, &is_made);
	if (log->file)
		put_file(log, level, text, &is_made);
	if (log->to_syslog && level <= LEVEL_LOG)
		put_syslog(log, level, text);
	pthread_mutex_unlock(&log->lock);
	errno = saved_errno;
}

void log_put(
    struct log *log, enum log_level level, const char *tag, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_putv(log, level, tag, fmt, ap);
	va_end(ap);
}
