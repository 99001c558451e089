/*
 * Reads the lines of HBA and ident files and of the files they include.  It does not
 * know what the lines mean.  A fault affects one line (or one included file); the rest
 * is still read.
 */
#include "auth/rule_file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

/* \r is a blank, for files from other systems. */
static const struct token_rules token_rules = {
    .blanks = " \t\r\v\f",
    .quotes = "\"",
    .singles = ",",
    .comment = "#",
    .inner_quotes = true,
};

enum include_kind { INCLUDE_NONE, INCLUDE_FILE, INCLUDE_IF_EXISTS, INCLUDE_DIR };

void rule_file_init(struct rule_file *f, const char *path, const char *text, size_t len)
{
	*f = (struct rule_file){
	    .path = path, .at = text, .end = text + len, .next_line = 1};
	buf_init(&f->text, 0);
	tokenizer_init(&f->tokens, &token_rules, "", 0);
}

void rule_file_done(struct rule_file *f)
{
	tokenizer_done(&f->tokens);
	buf_wipe_done(&f->text);
}

static void restart_tokens(struct rule_file *f)
{
	tokenizer_done(&f->tokens);
	tokenizer_init(
	    &f->tokens, &token_rules, (const char *)f->text.bytes, f->text.len);
	tokenizer_next(&f->tokens);
}

/* Reads one line of the text, without its end. */
static void take_physical_line(struct rule_file *f)
{
	const char *eol = memchr(f->at, '\n', (size_t)(f->end - f->at));
	const char *end = eol ? eol : f->end;

	while (end > f->at && end[-1] == '\r')
		end--;
	buf_put(&f->text, f->at, (size_t)(end - f->at));
	f->at = eol ? eol + 1 : f->end;
	f->next_line++;
}

/* A comment ends with its line even if that ends with a backslash, as in PgBouncer: it
 * must not swallow the next rule. */
static bool is_continued(const struct buf *line)
{
	bool is_quoted = false;

	for (size_t i = 0; i < line->len; i++) {
		if (line->bytes[i] == '"')
			is_quoted = !is_quoted;
		else if (line->bytes[i] == '#' && !is_quoted)
			return false;
	}
	return line->len && line->bytes[line->len - 1] == '\\';
}

bool rule_file_next(struct rule_file *f)
{
	if (f->at == f->end)
		return false;
	buf_clear(&f->text);
	f->line = f->next_line;
	take_physical_line(f);
	while (is_continued(&f->text)) {
		f->text.len--;
		if (f->at == f->end)
			break;
		take_physical_line(f);
	}
	restart_tokens(f);
	return true;
}

int rule_file_check(
    const struct rule_file *f, const struct rule_file *rule, struct err *err)
{
	if (f->text.failed)
		return rule_file_error(
		    rule, err, "%s", error_text(ERROR_OUT_OF_MEMORY));
	/* what stands behind it would be lost, which may be who is rejected */
	if (f->text.len && memchr(f->text.bytes, '\0', f->text.len))
		return rule_file_error(rule, err,
		    "a NUL byte in %.200s:%u; write that line again", f->path, f->line);
	return 0;
}

/* Makes a path relative to the file that contains the name. */
static char *path_beside(const char *path, const char *name, struct arena *arena)
{
	const char *slash = strrchr(path, '/');
	struct buf b;

	if (name[0] == '/' || !slash)
		return arena_strdup(arena, name);
	buf_init_sure(&b);
	buf_put(&b, path, (size_t)(slash + 1 - path));
	buf_put_text(&b, name);
	char *joined = arena_strdup(arena, buf_text(&b));
	buf_done(&b);
	return joined;
}

static int open_path(struct rule_file *f, const struct rule_file *from,
    const char *path, char **text, struct err *err)
{
	size_t len;

	if (from->depth >= RULE_FILE_DEPTH_MAX)
		return err_set(err,
		    "could not open file \"%.200s\": maximum nesting depth exceeded",
		    path);
	*text = text_read_file(path, &len, err);
	if (!*text)
		return err_prefix(err, "could not open file \"%.200s\": ", path);
	rule_file_init(f, path, *text, len);
	f->kind = from->kind;
	f->depth = from->depth + 1;
	return 0;
}

int rule_file_open(struct rule_file *f, const struct rule_file *from, const char *name,
    struct arena *arena, char **text, struct err *err)
{
	return open_path(f, from, path_beside(from->path, name, arena), text, err);
}

/* ---- reports ---- */

int rule_file_error(const struct rule_file *f, struct err *err, const char *fmt, ...)
{
	char text[sizeof(err->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(err, "%s line %u: %s", f->kind, f->line, text);
}

static void report(const struct rule_reader *r, const struct rule_file *f,
    enum diagnostic kind, const char *text)
{
	struct buf where;

	if (!r->report)
		return;
	buf_init(&where, 0);
	buf_printf(&where, "%s:%u", f->path, f->line);
	r->report(r->report_ctx, kind, buf_text(&where), text);
	buf_done(&where);
}

void rule_file_warn(
    const struct rule_reader *r, const struct rule_file *f, const char *text)
{
	report(r, f, DIAGNOSTIC_WARNING, text);
}

static void report_fault(
    struct rule_reader *r, const struct rule_file *f, const struct err *err)
{
	struct err known;

	r->faults++;
	report(r, f, DIAGNOSTIC_ERROR, err->text);
	err_set(&known, "could not parse %s config line %u", f->kind, f->line);
	report(r, f, DIAGNOSTIC_KNOWN, known.text);
}

int rule_file_result(
    const struct rule_reader *r, const struct rule_file *f, struct err *err)
{
	if (!r->faults)
		return 0;
	return err_set(err,
	    "%s config file %.200s is refused: %u of its lines cannot "
	    "be read",
	    f->kind, f->path, r->faults);
}

/* ---- includes ---- */

/* An include is a line of exactly two fields; otherwise the word has its usual
 * meaning. */
static enum include_kind parse_include(struct rule_file *f, char **name)
{
	static const char *const words[] = {
	    [INCLUDE_FILE] = "include",
	    [INCLUDE_IF_EXISTS] = "include_if_exists",
	    [INCLUDE_DIR] = "include_dir",
	};
	enum include_kind kind = INCLUDE_DIR;

	if (f->tokens.kind != TOKEN_WORD)
		return INCLUDE_NONE;
	while (kind && strcmp(tokenizer_text(&f->tokens), words[kind]) != 0)
		kind--;
	if (!kind)
		return INCLUDE_NONE;
	tokenizer_next(&f->tokens);
	if (f->tokens.kind == TOKEN_WORD || f->tokens.kind == TOKEN_QUOTED) {
		*name = mem_strdup(tokenizer_text(&f->tokens));
		if (tokenizer_next(&f->tokens) == TOKEN_END)
			return kind;
		mem_free(*name);
		*name = NULL;
	}
	restart_tokens(f);
	return INCLUDE_NONE;
}

static int include_path(struct rule_reader *r, const struct rule_file *from,
    const char *path, struct err *err)
{
	struct rule_file f;
	char *text;

	if (open_path(&f, from, path, &text, err) < 0)
		return err_prefix(err, "%s line %u: ", from->kind, from->line);
	rule_file_read(r, &f);
	rule_file_done(&f);
	mem_free_secret(text);
	return 0;
}

static int is_rule_file(const struct dirent *entry)
{
	const char *end = strrchr(entry->d_name, '.');

	return entry->d_name[0] != '.' && end && strcmp(end, ".conf") == 0 &&
	       entry->d_type != DT_DIR;
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* Reads the files behind an unreadable one too, to report their faults. */
static int include_dir(struct rule_reader *r, const struct rule_file *from,
    const char *dir, struct err *err)
{
	struct dirent **entries;
	int count = scandir(dir, &entries, is_rule_file, compare_names);

	if (count < 0)
		return rule_file_error(from, err,
		    "could not open directory \"%.200s\": %s", dir, strerror(errno));
	for (int i = 0; i < count; i++) {
		char *inside = mem_alloc(strlen(dir) + 2);
		sprintf(inside, "%s/", dir);
		char *path = path_beside(inside, entries[i]->d_name, r->arena);
		mem_free(inside);
		free(entries[i]);
		if (include_path(r, from, path, err) < 0)
			report_fault(r, from, err);
	}
	free(entries);
	return 0;
}

static int take_include(struct rule_reader *r, const struct rule_file *f,
    enum include_kind kind, const char *name, struct err *err)
{
	const char *path = path_beside(f->path, name, r->arena);

	if (kind == INCLUDE_DIR)
		return include_dir(r, f, path, err);
	if (kind == INCLUDE_IF_EXISTS && access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	return include_path(r, f, path, err);
}

static int take_line(struct rule_reader *r, struct rule_file *f, struct err *err)
{
	char *name = NULL;

	if (f->tokens.kind == TOKEN_END)
		return 0;
	enum include_kind kind = parse_include(f, &name);
	if (!kind)
		return r->take(r->ctx, f, err);
	int status = take_include(r, f, kind, name, err);
	mem_free(name);
	return status;
}

void rule_file_read(struct rule_reader *r, struct rule_file *f)
{
	struct err err;

	while (rule_file_next(f)) {
		if (rule_file_check(f, f, &err) < 0 || take_line(r, f, &err) < 0)
			report_fault(r, f, &err);
	}
}

/* ---- names and regular expressions in rules ---- */

/* Patterns come from a trusted file, but names come from peers.  So back references are
 * refused, because some names would make them very slow; and so are names longer than
 * real ones, because the time may grow with the square of the length. */

/* No name of a user, a database or a host in a certificate is longer. */
enum { NAME_MOST = 255 };

static int refuse(const char *text, const char *why, struct err *err)
{
	return err_set(err, "invalid regular expression \"%.200s\": %s", text, why);
}

/* Returns the end of a bracket expression; NULL when it has none, which regcomp will
 * report. */
static const char *bracket_end(const char *at)
{
	at++;
	if (*at == '^')
		at++;
	if (*at == ']')
		at++;
	while (*at && *at != ']') {
		const char *inner = at[0] == '[' && at[1] && strchr(".:=", at[1])
					? strchr(at + 2, at[1])
					: NULL;
		at = inner && inner[1] == ']' ? inner + 2 : at + 1;
	}
	return *at ? at : NULL;
}

/* Allows escapes only for characters with a special meaning; \w and the like mean
 * nothing in POSIX. */
static int check_escape(const char *text, char c, struct err *err)
{
	if (c >= '0' && c <= '9')
		return refuse(text, "back references are not supported", err);
	if (c && !strchr("^.[]$()|*+?{}\\/-@", c))
		return refuse(text,
		    "only special characters can be escaped; write classes as "
		    "[0-9] or [[:alnum:]_]",
		    err);
	return 0;
}

/* Checks one part of an expression; leaves *at on its last character. */
static int check_part(
    const char *text, const char **at, bool *may_repeat, struct err *err)
{
	if (strchr("*+?", **at) || (**at == '{' && isdigit((unsigned char)(*at)[1]))) {
		/* a++ makes the C library use memory without limit, and a*?  means
		 * something else in PostgreSQL */
		if (!*may_repeat)
			return refuse(text, "a quantifier has nothing to repeat", err);
		*may_repeat = false;
		if (**at == '{' && strchr(*at, '}'))
			*at = strchr(*at, '}');
		return 0;
	}
	*may_repeat = !strchr("(|^", **at);
	if (**at == '(' && (*at)[1] == '?')
		return refuse(text, "(?...) is not supported", err);
	if (**at == '[') {
		const char *end = bracket_end(*at);
		if (!end)
			return refuse(text, "a bracket is not closed", err);
		if (memchr(*at, '\\', (size_t)(end - *at)))
			return refuse(
			    text, "a backslash means nothing in brackets", err);
		*at = end;
		return 0;
	}
	if (**at == '\\') {
		if (check_escape(text, (*at)[1], err) < 0)
			return -1;
		*at += (*at)[1] != '\0';
	}
	return 0;
}

/* Refuses expressions that regcomp accepts but PostgreSQL understands differently. */
static int check_dialect(const char *text, struct err *err)
{
	bool may_repeat = false;

	if (!*text)
		return refuse(text, "it is empty and would find every name", err);
	if (strncmp(text, "***", 3) == 0)
		return refuse(text, "directors (***) are not supported", err);
	for (const char *at = text; *at; at++) {
		if (check_part(text, &at, &may_repeat, err) < 0)
			return -1;
	}
	return 0;
}

int pattern_compile(struct pattern *p, const char *text, struct err *err)
{
	char why[128];

	p->text = text;
	p->regex = NULL;
	if (check_dialect(text, err) < 0)
		return -1;
	p->regex = mem_zero(sizeof(*p->regex));
	int code = regcomp(p->regex, text, REG_EXTENDED);
	if (!code)
		return 0;
	regerror(code, p->regex, why, sizeof(why));
	mem_free(p->regex);
	p->regex = NULL;
	return refuse(text, why, err);
}

void pattern_done(struct pattern *p)
{
	if (p->regex)
		regfree(p->regex);
	mem_free(p->regex);
	p->regex = NULL;
}

enum pattern_result pattern_match(
    const struct pattern *p, const char *name, struct pattern_part *first)
{
	regmatch_t parts[2];

	if (first)
		*first = (struct pattern_part){0};
	if (!p->regex)
		return strcmp(p->text, name) == 0 ? PATTERN_YES : PATTERN_NO;
	if (strnlen(name, NAME_MOST + 1) > NAME_MOST)
		return PATTERN_FAILED;
	int code = regexec(p->regex, name, first ? 2 : 0, parts, 0);
	if (code)
		return code == REG_NOMATCH ? PATTERN_NO : PATTERN_FAILED;
	if (first && p->regex->re_nsub && parts[1].rm_so >= 0) {
		first->start = name + parts[1].rm_so;
		first->len = (size_t)(parts[1].rm_eo - parts[1].rm_so);
	}
	return PATTERN_YES;
}

bool pattern_has_part(const struct pattern *p)
{
	return p->regex && p->regex->re_nsub > 0;
}
