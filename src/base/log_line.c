#include "base/log_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#include "base/json.h"
#include "base/text.h"

/* The most bytes of one field's text, of a number, and the room kept for the end of the
 * line. */
enum { FIELD_MOST = 4096, NUMBER_SIZE = 32, END_SIZE = 64 };

struct level {
	const char *name;
	int priority; /* priority of syslog and the journal */
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

const char *log_line_level(const struct log_line *line)
{
	return levels[log_level_of(line->what)].name;
}

int log_line_priority(const struct log_line *line)
{
	return levels[log_level_of(line->what)].priority;
}

/* ---- the time ---- */

void log_clock_set(struct log_clock *clock, long pid)
{
	tzset();
	clock->pid = pid;
	clock->second = -1;
}

static void put_ms(struct buf *b, struct timespec now)
{
	long ms = now.tv_nsec / 1000000;
	char digits[] = {
	    (char)('0' + ms / 100), (char)('0' + ms / 10 % 10), (char)('0' + ms % 10)};

	buf_put(b, digits, sizeof(digits));
}

static struct timespec read_clock(struct log_clock *clock)
{
	struct timespec now;
	char zone[NUMBER_SIZE];
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	if (now.tv_sec != clock->second) {
		time_t second = now.tv_sec;
		localtime_r(&second, &tm);
		strftime(clock->plain_time, sizeof(clock->plain_time),
		    "%Y-%m-%d %H:%M:%S.", &tm);
		strftime(clock->json_time, sizeof(clock->json_time),
		    "%Y-%m-%dT%H:%M:%S.", &tm);
		strftime(zone, sizeof(zone), "%Z", &tm);
		snprintf(clock->plain_zone, sizeof(clock->plain_zone), " %s [%ld] ",
		    zone, clock->pid);
		long minutes = tm.tm_gmtoff / 60,
		     away = minutes < 0 ? -minutes : minutes;
		snprintf(clock->json_zone, sizeof(clock->json_zone), "%c%02u:%02u",
		    minutes < 0 ? '-' : '+', (unsigned)(away / 60 % 100),
		    (unsigned)(away % 60));
		clock->second = second;
	}
	return now;
}

/* ---- plain ---- */

static void print_number(const struct log_field *f, char out[NUMBER_SIZE])
{
	switch (f->type) {
	case LOG_FIELD_NUMBER:
		snprintf(out, NUMBER_SIZE, "%" PRId64, f->number);
		break;
	case LOG_FIELD_MS:
		snprintf(out, NUMBER_SIZE, "%" PRIu64 ".%03u", f->us / 1000,
		    (unsigned)(f->us % 1000));
		break;
	case LOG_FIELD_HEX:
		snprintf(out, NUMBER_SIZE, "0x%" PRIx64, f->hex);
		break;
	case LOG_FIELD_TEXT:
		out[0] = '\0';
		break;
	}
}

/* Whether the value needs quotes, because a reader could not tell where it ends. */
static bool is_quoted(const char *text)
{
	if (!*text)
		return true;
	for (; *text; text++)
		if (*text == ' ' || text_hidden_len(text) || strchr("\"'=\\", *text))
			return true;
	return false;
}

/* How many bytes of a text still fit. */
static size_t text_most(const struct buf *b)
{
	size_t left = b->max - b->len;
	size_t most = left > END_SIZE ? left - END_SIZE : 0;

	return most < FIELD_MOST ? most : FIELD_MOST;
}

static bool has_room(const struct buf *b, const struct log_field *f)
{
	return b->max - b->len > strlen(f->name) + 2 * END_SIZE;
}

static void put_more(struct buf *b, const struct log_fields *more)
{
	char number[NUMBER_SIZE];

	for (size_t i = 0; i < more->count; i++) {
		const struct log_field *f = &more->at[i];
		bool is_text = f->type == LOG_FIELD_TEXT;
		if ((is_text && !f->text) || !has_room(b, f))
			continue;
		buf_put_u8(b, ' ');
		buf_put_text(b, f->name);
		buf_put_u8(b, '=');
		print_number(f, number);
		if (is_text && is_quoted(f->text))
			json_put_text(b, f->text, text_most(b));
		else
			buf_put(b, is_text ? f->text : number,
			    strnlen(is_text ? f->text : number, text_most(b)));
	}
}

/* Puts the message, with `mark` behind each newline (unless a tab stands there
 * already), then the fields and a newline. */
static void put_lines(struct buf *b, const struct log_line *line, const char *mark)
{
	const char *text = line->text, *end;

	while ((end = strchr(text, '\n'))) {
		buf_put(b, text, (size_t)(end - text) + 1);
		text = end + 1;
		if (*text == '\t')
			text++;
		buf_put_text(b, mark);
	}
	buf_put_text(b, text);
	put_more(b, &line->parts->more);
	buf_put_u8(b, '\n');
}

void log_line_put_plain(
    struct buf *b, struct log_clock *clock, const struct log_line *line)
{
	struct timespec now = read_clock(clock);

	buf_put_text(b, clock->plain_time);
	put_ms(b, now);
	buf_put_text(b, clock->plain_zone);
	buf_put_text(b, levels[log_level_of(line->what)].name);
	buf_put_u8(b, ' ');
	put_lines(b, line, "\t");
}

void log_line_put_bare(struct buf *b, const struct log_line *line)
{
	put_lines(b, line, "\t");
}

void log_line_put_journal(
    struct buf *b, struct log_clock *clock, const struct log_line *line, bool is_json)
{
	char mark[8];

	snprintf(mark, sizeof(mark), "<%d>\t", log_line_priority(line));
	buf_put(b, mark, strlen(mark) - 1);
	if (is_json)
		log_line_put_json(b, clock, line);
	else
		put_lines(b, line, mark);
}

/* ---- JSON ---- */

/* Puts a comma and the name of a JSON member, which must not be the first one. */
static void put_name(struct buf *b, const char *name)
{
	buf_put_text(b, ",\"");
	buf_put_text(b, name);
	buf_put_text(b, "\":");
}

static void put_number(struct buf *b, const char *name, long number)
{
	char text[NUMBER_SIZE];

	put_name(b, name);
	text_append_number(text, text + sizeof(text), (uint64_t)number);
	buf_put_text(b, text);
}

static void put_word(struct buf *b, const char *name, const char *word)
{
	put_name(b, name);
	buf_put_u8(b, '"');
	buf_put_text(b, word);
	buf_put_u8(b, '"');
}

static void put_members(struct buf *b, const struct log_fields *fields)
{
	char number[NUMBER_SIZE];

	for (size_t i = 0; i < fields->count; i++) {
		const struct log_field *f = &fields->at[i];
		if ((f->type == LOG_FIELD_TEXT && !f->text) || !has_room(b, f))
			continue;
		print_number(f, number);
		if (f->type == LOG_FIELD_HEX) {
			put_word(b, f->name, number);
			continue;
		}
		put_name(b, f->name);
		if (f->type == LOG_FIELD_TEXT)
			json_put_text(b, f->text, text_most(b));
		else
			buf_put_text(b, number);
	}
}

void log_line_put_json(
    struct buf *b, struct log_clock *clock, const struct log_line *line)
{
	struct timespec now = read_clock(clock);

	buf_put_text(b, "{\"time\":\"");
	buf_put_text(b, clock->json_time);
	put_ms(b, now);
	buf_put_text(b, clock->json_zone);
	buf_put_u8(b, '"');
	put_word(b, "level", levels[log_level_of(line->what)].name);
	put_number(b, "pid", clock->pid);
	if (line->worker >= 0)
		put_number(b, "worker", line->worker);
	put_word(b, "kind", log_kind_name(line->what));
	put_members(b, &line->parts->source);
	put_name(b, "message");
	json_put_text(b, line->text, b->max - b->len - END_SIZE);
	put_members(b, &line->parts->more);
	buf_put_text(b, "}\n");
}
