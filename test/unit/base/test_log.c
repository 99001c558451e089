/*
 * The log, tested by what arrives in its outputs: stderr redirected to a file, a log
 * file, and syslog replaced by functions of this program.
 */
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

/* clang-format off: needs some of the headers above */
#include <cmocka.h>
/* clang-format on */

#include "base/crash_flush.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

/* What syslog was given; the code under test calls these functions instead of
 * libc's. */
static char syslog_said[4096];
static char syslog_ident[64];
static int syslog_facility, syslog_priority;

void openlog(const char *ident, int option, int facility)
{
	(void)option;
	snprintf(syslog_ident, sizeof(syslog_ident), "%s", ident);
	syslog_facility = facility;
}

void closelog(void)
{
	syslog_ident[0] = '\0';
}

static void __attribute__((format(printf, 2, 0)))
note(int priority, const char *fmt, va_list ap)
{
	vsnprintf(syslog_said, sizeof(syslog_said), fmt, ap);
	syslog_priority = priority;
}

#undef syslog /* syslog is a macro when libc checks formats at run time */
void __attribute__((format(printf, 2, 3))) syslog(int priority, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	note(priority, fmt, ap);
	va_end(ap);
}

/* The name of the function behind that macro. */
void __syslog_chk(int priority, int flag, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void __syslog_chk(int priority, int flag, const char *fmt, ...)
{
	va_list ap;

	(void)flag;
	va_start(ap, fmt);
	note(priority, fmt, ap);
	va_end(ap);
}

struct sinks {
	char folder[64], stderr_path[80], file_path[80];
	int old_stderr;
};

static int open_sinks(void **state)
{
	struct sinks *s = mem_zero(sizeof(*s));

	strcpy(s->folder, "/tmp/test_log.XXXXXX");
	if (!mkdtemp(s->folder))
		return -1;
	snprintf(s->stderr_path, sizeof(s->stderr_path), "%s/stderr", s->folder);
	snprintf(s->file_path, sizeof(s->file_path), "%s/file", s->folder);
	int fd = open(s->stderr_path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	s->old_stderr = dup(STDERR_FILENO);
	dup2(fd, STDERR_FILENO);
	close(fd);
	unsetenv("JOURNAL_STREAM");
	syslog_said[0] = '\0';
	*state = s;
	return 0;
}

static int close_sinks(void **state)
{
	struct sinks *s = *state;

	dup2(s->old_stderr, STDERR_FILENO);
	close(s->old_stderr);
	unlink(s->stderr_path);
	unlink(s->file_path);
	rmdir(s->folder);
	mem_free(s);
	return 0;
}

static void configure(struct log *log, const char *file, int verbose)
{
	struct log_config config = {.file = file};

	log_levels_set_all(&config.levels, verbose);
	log_configure(log, &config);
}

static void configure_json(struct log *log, const char *file)
{
	struct log_config config = {.file = file, .format = LOG_JSON};

	log_levels_set_all(&config.levels, 0);
	log_configure(log, &config);
}

static void expect_content(const char *path, const char *wanted)
{
	char *text = text_read_file(path, NULL, NULL);

	assert_string_equal(text ? text : "(no file)", wanted);
	mem_free(text);
}

#define STAMP                                                               \
	"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3} " \
	"[A-Z+0-9-]+ "                                                      \
	"\\[[0-9]+\\] "

/* The whole file matches an extended regular expression. */
static void expect_match(const char *path, const char *pattern)
{
	char *text = text_read_file(path, NULL, NULL);
	regex_t re;

	assert_non_null(text);
	assert_int_equal(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
	if (regexec(&re, text, 0, NULL, 0))
		fail_msg("'%s' does not match '%s'", text, pattern);
	regfree(&re);
	mem_free(text);
}

static void line_format(void **state)
{
	struct sinks *s = *state;
	struct log *log = log_new();

	log_info(log, "hello %d", 1);
	log_put(log, LEVEL_WARNING, "C-0x1: db/user@unix:1", "two\nlines \t\n\n");
	log_error(log, "%s", "");
	log_fatal(log, "end");
	log_put(log, LEVEL_LOG, "", "no tag");
	expect_match(s->stderr_path,
	    "^" STAMP "LOG hello 1\n" STAMP
	    "WARNING C-0x1: db/user@unix:1 two\n\tlines\n" STAMP "ERROR \n" STAMP
	    "FATAL end\n" STAMP "LOG no tag\n$");
	log_free(&log);
	assert_null(log);
	log_free(&log);
}

static void stamp_is_local_time_and_own_pid(void **state)
{
	struct sinks *s = *state;
	char wanted[64];

	setenv("TZ", "XYZ-3", 1);
	struct log *log = log_new();
	time_t before = time(NULL);
	struct tm tm;
	log_info(log, "x");
	time_t after = time(NULL);
	localtime_r(&before, &tm);
	/* The time is compared by the minute, and only if the minute did not change. */
	if (before / 60 == after / 60) {
		strftime(wanted, sizeof(wanted), "^%Y-%m-%d %H:%M:", &tm);
		expect_match(s->stderr_path, wanted);
	}
	snprintf(wanted, sizeof(wanted), " XYZ \\[%ld\\] LOG x\n$", (long)getpid());
	expect_match(s->stderr_path, wanted);
	log_free(&log);
	unsetenv("TZ");
	tzset();
}

static void long_lines_are_cut(void **state)
{
	struct sinks *s = *state;
	struct log *log = log_new();
	char big[10000];

	memset(big, '\n', sizeof(big) - 1);
	for (size_t i = 0; i < sizeof(big); i += 5)
		big[i] = 'x';
	big[sizeof(big) - 1] = '\0';
	log_put_lines(log, LEVEL_LOG, big);
	log_info(log, "next");
	char *text = text_read_file(s->stderr_path, NULL, NULL);
	assert_non_null(strstr(text, "\tx\n"));
	assert_non_null(strstr(text, " LOG next\n"));
	assert_in_range(strlen(text), 2000, 6000);
	size_t before = strlen(text);
	mem_free(text);
	log_put(log, LEVEL_LOG, big, "%s", big);
	log_put(log, LEVEL_LOG, NULL, "%s", big);
	text = text_read_file(s->stderr_path, NULL, NULL);
	assert_in_range(strlen(text + before), 4000, 4300);
	const char *end = strchr(text + before, '\n');
	assert_memory_equal(end - 3, "...", 3);
	assert_non_null(strstr(end, " LOG x\\n\\n\\n\\n"));
	end = strchr(end + 1, '\n');
	assert_memory_equal(end - 3, "...\n", 5);
	mem_free(text);
	log_free(&log);
}

/* What is inserted into a message cannot end its line, nor can the tag. */
static void names_stay_on_their_line(void **state)
{
	struct sinks *s = *state;
	struct log *log = log_new();

	log_put(log, LEVEL_LOG, "C-0x1: a\nb/c", "x %s %d\ny", "d\n\te\x1b", 5);
	expect_match(s->stderr_path,
	    "^" STAMP "LOG C-0x1: a\\\\nb/c x d\\\\n\\\\te\\\\x1b 5\n\ty\n$");
	log_free(&log);
}

static void words_have_an_end(void **state)
{
	char out[LOG_WORD], big[1000];

	(void)state;
	assert_string_equal(log_word(out, "o'b=\\ck"), "o'b=\\ck");
	assert_string_equal(log_word(out, "\xc3\xa4"), "\xc3\xa4");
	assert_string_equal(log_word(out, ""), "\"\"");
	assert_string_equal(log_word(out, "a b"), "\"a b\"");
	assert_string_equal(log_word(out, "a\n"), "\"a\\n\"");
	assert_string_equal(log_word(out, "\"a"), "\"\\\"a\"");
	memset(big, '\n', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	assert_string_equal(log_word(out, big) + LOG_WORD - 4, "n\"");
}

static void levels(void **state)
{
	struct sinks *s = *state;
	struct log *log = log_new();

	assert_true(log_is_on(log, LEVEL_LOG));
	assert_false(log_is_on(log, LEVEL_DEBUG));
	log_debug(log, "unseen");
	log_put(log, LEVEL_NOISE, NULL, "unseen");
	expect_content(s->stderr_path, "");
	configure(log, NULL, 1);
	assert_true(log_is_on(log, LEVEL_DEBUG));
	assert_false(log_is_on(log, LEVEL_NOISE));
	configure(log, NULL, 2);
	assert_true(log_is_on(log, LEVEL_NOISE));
	configure(log, NULL, 1);
	assert_true(log_is_on(log, LEVEL_DEBUG));
	assert_false(log_is_on(log, LEVEL_NOISE));
	log_debug(log, "seen");
	expect_match(s->stderr_path, "^" STAMP "DEBUG seen\n$");
	log_free(&log);
}

static void file_is_lazy_appended_and_reopened(void **state)
{
	struct sinks *s = *state;
	struct log *log = log_new();
	char moved[96];

	configure(log, s->file_path, 0);
	log_quiet(log, true);
	expect_content(s->file_path, "(no file)");
	log_info(log, "one");
	expect_match(s->file_path, "^" STAMP "LOG one\n$");
	snprintf(moved, sizeof(moved), "%s.1", s->file_path);
	assert_int_equal(rename(s->file_path, moved), 0);
	log_info(log, "two");
	expect_match(moved, "^" STAMP "LOG one\n" STAMP "LOG two\n$");
	configure(log, s->file_path, 0);
	log_info(log, "three");
	expect_match(s->file_path, "^" STAMP "LOG three\n$");
	configure(log, s->file_path, 0);
	log_info(log, "four");
	expect_match(s->file_path, "^" STAMP "LOG three\n" STAMP "LOG four\n$");
	unlink(moved);

	configure(log, "", 0);
	log_info(log, "nowhere");
	configure(log, "/dev/null", 0);
	log_info(log, "nowhere");
	expect_content(s->stderr_path, "");
	log_free(&log);
}

/* The largest size of a file, which stands for the space on a disk. */
static void limit_files(rlim_t most)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = most;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void lines_that_the_file_does_not_get_are_told_and_counted(void **state)
{
	struct sinks *s = *state;
	struct log *log = log_new();
	char why[64], expected[256];
	struct stat st;

	signal(SIGXFSZ, SIG_IGN);
	configure(log, s->file_path, 0);
	log_quiet(log, true);
	log_info(log, "before");
	assert_int_equal(log_lost_count(log), 0);
	assert_string_equal(log_file_error(log, why, sizeof(why)), "");

	/* the file can take only a part of the next line */
	assert_int_equal(stat(s->file_path, &st), 0);
	limit_files((rlim_t)st.st_size + 10);
	syslog_said[0] = '\0';
	log_info(log, "cut");
	assert_string_equal(log_file_error(log, why, sizeof(why)), strerror(EFBIG));
	snprintf(expected, sizeof(expected),
	    "cannot write to logfile '%s': %s; its lines are lost until it can be "
	    "written again",
	    s->file_path, strerror(EFBIG));
	assert_string_equal(syslog_said, expected);
	assert_int_equal(syslog_priority, LOG_ERR);
	syslog_said[0] = '\0';
	log_info(log, "lost");
	assert_string_equal(syslog_said, "");
	assert_int_equal(log_lost_count(log), 2);

	limit_files(RLIM_INFINITY);
	log_info(log, "after");
	log_info(log, "later");
	assert_string_equal(log_file_error(log, why, sizeof(why)), "");
	assert_int_equal(log_lost_count(log), 2);
	expect_match(s->file_path, "^" STAMP "LOG before\n.{10}\n" STAMP
				   "WARNING 2 lines of the log were lost: File too "
				   "large\n" STAMP "LOG after\n" STAMP "LOG later\n$");
	log_free(&log);
}

static void file_that_cannot_be_opened_ends_the_process(void **state)
{
	struct sinks *s = *state;
	int status;

	pid_t pid = fork();
	if (!pid) {
		struct log *log = log_new();
		configure(log, "/nonexistent/x", 0);
		log_quiet(log, true);
		log_info(log, "x");
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	expect_match(s->stderr_path,
	    "^" STAMP
	    "FATAL Cannot open logfile: '/nonexistent/x': No such file or directory\n");
}

static void syslog_gets_messages_up_to_log(void **state)
{
	static const int priorities[] = {LOG_CRIT, LOG_ERR, LOG_WARNING, LOG_INFO};
	struct log *log = log_new();
	struct log_config config = {
	    .syslog = true, .syslog_ident = "pooler", .syslog_facility = "local3"};

	(void)state;
	log_levels_set_all(&config.levels, 2);
	log_configure(log, &config);
	for (int level = LEVEL_FATAL; level <= LEVEL_LOG; level++) {
		log_put(log, (enum log_level)level, "tag", "100%% a\nb %d\n", level);
		char wanted[64];
		snprintf(wanted, sizeof(wanted), "tag 100%% a\n\tb %d", level);
		assert_string_equal(syslog_said, wanted);
		assert_int_equal(syslog_priority, priorities[level]);
	}
	assert_string_equal(syslog_ident, "pooler");
	assert_int_equal(syslog_facility, LOG_LOCAL3);
	syslog_said[0] = '\0';
	log_debug(log, "x");
	assert_string_equal(syslog_said, "");

	config.syslog_facility = "kitchen";
	config.syslog_ident = NULL;
	log_configure(log, &config);
	log_info(log, "x");
	assert_int_equal(syslog_facility, LOG_DAEMON);
	assert_string_equal(syslog_ident, "pgbouncer");
	config.syslog = false;
	log_configure(log, &config);
	log_info(log, "y");
	assert_string_equal(syslog_said, "x");
	log_free(&log);
}

static void journal_gets_priorities(void **state)
{
	struct sinks *s = *state;
	char stream[64];
	struct stat st;

	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev,
	    (uintmax_t)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	struct log *log = log_new();
	configure(log, s->file_path, 2);
	log_fatal(log, "a");
	log_put(log, LEVEL_WARNING, "tag", "b\nc");
	log_info(log, "d");
	log_put(log, LEVEL_NOISE, NULL, "e");
	expect_content(s->stderr_path, "<2>a\n<4>tag b\n<4>\tc\n<6>d\n<7>e\n");
	expect_match(s->file_path, "^" STAMP "FATAL a\n");
	log_free(&log);

	setenv("JOURNAL_STREAM", "1:1", 1);
	log = log_new();
	log_info(log, "f");
	expect_match(s->stderr_path, STAMP "LOG f\n$");
	log_free(&log);
	unsetenv("JOURNAL_STREAM");
}

static void errno_survives(void **state)
{
	struct sinks *s = *state;
	struct log *log = log_new();

	configure(log, s->file_path, 0);
	errno = ENOENT;
	log_put(log, LEVEL_LOG, "tag", "%m");
	assert_int_equal(errno, ENOENT);
	expect_match(s->stderr_path, "LOG tag No such file or directory\n$");
	log_free(&log);
}

static void take_line(
    void *ctx, enum log_level level, const char *tag, const char *text)
{
	(void)level;
	snprintf(ctx, 64, "%s|%s", tag ? tag : "", text);
}

static void lines_go_elsewhere(void **state)
{
	struct sinks *s = *state;
	char taken[64] = "";
	struct log *log = log_new();

	log_divert(log, take_line, taken);
	log_put(log, LEVEL_WARNING, "tag", "%d ", 1);
	assert_string_equal(taken, "tag|1");
	log_info(log, "two");
	assert_string_equal(taken, "|two");
	log_put(log, LEVEL_LOG, "tag", "%s", "");
	assert_string_equal(taken, "tag|");
	log_debug(log, "not told");
	assert_string_equal(taken, "tag|");
	log_free(&log);
	expect_content(s->stderr_path, "");
}

/* ---- fields and JSON ---- */

static const struct log_field source[] = {
    {"side", LOG_FIELD_TEXT, {.text = "client"}},
    {"ptr", LOG_FIELD_HEX, {.hex = 0xab}},
    {"database", LOG_FIELD_TEXT, {.text = NULL}},
    {"user", LOG_FIELD_TEXT, {.text = "o\"x\xff"}},
    {"port", LOG_FIELD_NUMBER, {.number = 6432}},
};
static const struct log_field more[] = {
    {"wait_ms", LOG_FIELD_MS, {.us = 12045}},
    {"query", LOG_FIELD_TEXT, {.text = "select\n1"}},
    {"plain", LOG_FIELD_TEXT, {.text = "word"}},
    {"absent", LOG_FIELD_TEXT, {.text = NULL}},
    {"delta", LOG_FIELD_NUMBER, {.number = -3}},
};
static const struct log_parts parts = {
    .tag = "C-0xab: db/o@here:1",
    .source = {source, sizeof(source) / sizeof(source[0])},
    .more = {more, sizeof(more) / sizeof(more[0])},
};

static void __attribute__((format(printf, 4, 5))) put_with(
    struct log *log, unsigned what, const struct log_parts *with, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_put_parts(log, what, with, fmt, ap);
	va_end(ap);
}

static void fields_stand_behind_the_message(void **state)
{
	struct sinks *s = *state;
	struct log *log = log_new();

	put_with(log, LEVEL_LOG, &parts, "slow %d\nvery", 1);
	expect_match(s->stderr_path,
	    "^" STAMP "LOG C-0xab: db/o@here:1 slow 1\n\tvery wait_ms=12\\.045 "
	    "query=\"select\\\\n1\" plain=word delta=-3\n$");
	log_free(&log);
}

#define JSON_STAMP(level)                                                              \
	"\\{\"time\":\"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{" \
	"3}"                                                                           \
	"[+-][0-9]{2}:[0-9]{2}\",\"level\":\"" level "\",\"pid\":[0-9]+,"

static void json_has_members(void **state)
{
	struct sinks *s = *state;
	struct log *log = log_new();
	struct log *other = log_for_worker(log, 3);

	configure_json(log, s->file_path);
	assert_true(log_is_json(other));
	put_with(log, LEVEL_WARNING | KIND_DNS, &parts, "a\tb\n\x01\n");
	log_info(other, "plain %s", "\xc3\xa4\xe2\x80\xa8\xe2\x82");
	expect_match(s->file_path,
	    "^" JSON_STAMP(
		"WARNING") "\"kind\":\"dns\",\"side\":\"client\","
			   "\"ptr\":\"0xab\",\"user\":\"o\\\\\"x\\\\ufffd\",\"port\":"
			   "6432,"
			   "\"message\":\"a\\\\tb\\\\n\\\\u0001\",\"wait_ms\":12\\.045,"
			   "\"query\":\"select\\\\n1\",\"plain\":\"word\",\"delta\":-"
			   "3\\}\n" JSON_STAMP(
			       "LOG") "\"worker\":3,\"kind\":\"general\","
				      "\"message\":\"plain "
				      "\xc3\xa4\\\\u2028\\\\ufffd\\\\ufffd\"\\}\n$");
	log_free(&log);
	log_info(other, "still there");
	expect_match(s->file_path, "\"still there\"\\}\n$");
	log_free(&other);
}

/* A line is complete JSON whatever the message contains. */
static void long_json_lines_are_whole(void **state)
{
	struct sinks *s = *state;
	struct log *log = log_new();
	struct log_field many[16];
	struct log_parts long_parts = {
	    .source = {many, 4}, .more = {many, sizeof(many) / sizeof(many[0])}};
	char big[9000];

	memset(big, '\x01', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++)
		many[i] = log_field_text("big", big);
	configure_json(log, s->file_path);
	log_quiet(log, true);
	put_with(log, LEVEL_LOG, &long_parts, "%s", big);
	configure(log, s->file_path, 0);
	put_with(log, LEVEL_LOG, &long_parts, "%s", big);
	log_info(log, "next");
	char *text = text_read_file(s->file_path, NULL, NULL);
	assert_memory_equal(text, "{\"time\":", 8);
	char *end = strchr(text, '\n');
	assert_memory_equal(end - 2, "\"}\n", 3);
	assert_in_range(end - text, 20000, 32768);
	end = strchr(end + 1, '\n');
	assert_memory_equal(end - 1, "\"\n", 2);
	assert_non_null(strstr(end, " LOG next\n"));
	mem_free(text);
	log_free(&log);
}

static void json_goes_to_syslog_and_journal(void **state)
{
	struct sinks *s = *state;
	char stream[64];
	struct stat st;
	struct log_config config = {.syslog = true, .format = LOG_JSON};

	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev,
	    (uintmax_t)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	struct log *log = log_new();
	log_levels_set_all(&config.levels, 0);
	log_configure(log, &config);
	log_warning(log, "two\nlines");
	assert_non_null(strstr(syslog_said, ",\"message\":\"two\\nlines\"}"));
	assert_null(strchr(syslog_said, '\n'));
	expect_match(
	    s->stderr_path, "^<4>" JSON_STAMP("WARNING") ".*two\\\\nlines\"\\}\n$");
	log_free(&log);
	unsetenv("JOURNAL_STREAM");
}

static void kinds_have_levels(void **state)
{
	struct sinks *s = *state;
	struct log *log = log_new();
	struct log_config config = {.file = NULL};
	struct err err;

	log_levels_set_all(&config.levels, 0);
	assert_int_equal(
	    log_levels_parse(&config.levels, "dns:debug, stats : off", &err), 0);
	log_configure(log, &config);
	assert_true(log_is_on(log, LEVEL_DEBUG | KIND_DNS));
	assert_false(log_is_on(log, LEVEL_NOISE | KIND_DNS));
	assert_false(log_is_on(log, LEVEL_DEBUG));
	log_put(log, LEVEL_DEBUG | KIND_DNS, NULL, "seen");
	log_put(log, LEVEL_ERROR | KIND_STATS, NULL, "unseen");
	log_put(log, LEVEL_FATAL | KIND_STATS, NULL, "last");
	expect_match(s->stderr_path, "^" STAMP "DEBUG seen\n" STAMP "FATAL last\n$");
	log_free(&log);
}

/* ---- lines that wait ---- */

static void lines_wait_for_the_end_of_a_turn(void **state)
{
	struct sinks *s = *state;
	struct log *log = log_new();
	struct log *other = log_for_worker(log, 0);

	configure(log, s->file_path, 0);
	log_hold(log);
	log_info(log, "one");
	log_info(log, "two");
	expect_content(s->stderr_path, "");
	log_flush(log);
	expect_match(s->stderr_path, "^" STAMP "LOG one\n" STAMP "LOG two\n$");
	expect_match(s->file_path, "^" STAMP "LOG one\n" STAMP "LOG two\n$");
	log_info(log, "three");
	/* a line that may not be held back also writes the held ones */
	log_info(other, "four");
	expect_match(s->file_path, "three\n.*four\n$");
	log_info(log, "five");
	log_fatal(log, "six");
	expect_match(s->file_path, "six\n$");
	log_info(log, "seven");
	configure(log, "", 0);
	expect_match(s->file_path, "seven\n$");
	log_info(log, "eight");
	log_free(&log);
	expect_match(s->stderr_path, "eight\n$");
	log_free(&other);
}

static void much_does_not_wait(void **state)
{
	struct sinks *s = *state;
	struct log *log = log_new();
	struct stat st = {.st_size = 0};

	configure(log, s->file_path, 0);
	log_quiet(log, true);
	log_hold(log);
	for (int i = 0; i < 1000; i++)
		log_info(log, "line %d of many that are said in one turn", i);
	assert_int_equal(stat(s->file_path, &st), 0);
	assert_true(st.st_size > 30000);
	log_free(&log);
	char *text = text_read_file(s->file_path, NULL, NULL), *at = text;
	for (int i = 0; i < 1000; i++) {
		char wanted[64];
		snprintf(wanted, sizeof(wanted), "LOG line %d of many", i);
		at = strstr(at, wanted);
		assert_non_null(at);
	}
	mem_free(text);
}

/* Held lines are in the log after the process has died in this way. */
static void dies_by(struct sinks *s, void (*die)(void), int signo)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct log *log = log_new();
		for (int i = 1; i < NSIG; i++)
			signal(i, SIG_DFL);
		configure(log, s->file_path, 0);
		log_quiet(log, true);
		log_hold(log);
		log_info(log, "last words");
		die();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (signo)
		assert_int_equal(WTERMSIG(status), signo);
	else
		assert_int_equal(WEXITSTATUS(status), 1);
	expect_match(s->file_path, "^" STAMP "LOG last words\n$");
	unlink(s->file_path);
}

static void die_of_abort(void)
{
	abort();
}
static void die_of_a_kill(void)
{
	kill(getpid(), SIGABRT);
}
static void die_of_segv(void)
{
	raise(SIGSEGV);
}
/* Dies as a process without memory does. */
static void die_of_no_memory(void)
{
	crash_flush_say();
	_exit(1);
}

static void a_fault_loses_nothing(void **state)
{
	dies_by(*state, die_of_abort, SIGABRT);
	dies_by(*state, die_of_a_kill, SIGABRT);
	dies_by(*state, die_of_segv, SIGSEGV);
	dies_by(*state, die_of_no_memory, 0);
}

#define WITH_SINKS(test) cmocka_unit_test_setup_teardown(test, open_sinks, close_sinks)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    WITH_SINKS(line_format),
	    WITH_SINKS(stamp_is_local_time_and_own_pid),
	    WITH_SINKS(long_lines_are_cut),
	    WITH_SINKS(names_stay_on_their_line),
	    cmocka_unit_test(words_have_an_end),
	    WITH_SINKS(levels),
	    WITH_SINKS(file_is_lazy_appended_and_reopened),
	    WITH_SINKS(lines_that_the_file_does_not_get_are_told_and_counted),
	    WITH_SINKS(file_that_cannot_be_opened_ends_the_process),
	    WITH_SINKS(syslog_gets_messages_up_to_log),
	    WITH_SINKS(journal_gets_priorities),
	    WITH_SINKS(errno_survives),
	    WITH_SINKS(lines_go_elsewhere),
	    WITH_SINKS(fields_stand_behind_the_message),
	    WITH_SINKS(json_has_members),
	    WITH_SINKS(long_json_lines_are_whole),
	    WITH_SINKS(json_goes_to_syslog_and_journal),
	    WITH_SINKS(kinds_have_levels),
	    WITH_SINKS(lines_wait_for_the_end_of_a_turn),
	    WITH_SINKS(much_does_not_wait),
	    WITH_SINKS(a_fault_loses_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
