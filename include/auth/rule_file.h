/*
 * Reads the lines of HBA and ident files: continued lines, tokens, included files, and
 * reports of lines that cannot be read.  Private to auth/hba and auth/ident.
 * PostgreSQL documentation: "The pg_hba.conf File".
 */
#ifndef AUTH_RULE_FILE_H
#define AUTH_RULE_FILE_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/diagnostic.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"

/* How deep files may include each other. */
enum { RULE_FILE_DEPTH_MAX = 10 };

/* A file that is being read line by line. */
struct rule_file {
	/* number of the current line; of several continued lines the first */
	unsigned line;
	struct tokenizer tokens; /* of the current line; stands at the first token */
	struct buf text;         /* text of the current line */
	/* borrowed */
	const char *kind; /* "hba" or "ident" */
	const char *path;
	unsigned depth; /* depth of inclusion; 0: the top file */
	const char *at, *end;
	unsigned next_line;
};

/* path and text must live as long as f. */
void rule_file_init(
    struct rule_file *f, const char *path, const char *text, size_t len);
/* Moves to the next line, which may be empty.  A backslash at its end joins it with the
 * following line, unless it ends a comment. */
bool rule_file_next(struct rule_file *f);
/* Whether there was memory for the line, and no NUL byte in it; a rule must not get
 * lost.  -1 and err, which names the line of `rule`. */
int rule_file_check(
    const struct rule_file *f, const struct rule_file *rule, struct err *err);
void rule_file_done(struct rule_file *f);
/* Reads a file that is named on the current line of `from`, relative to that file, and
 * initializes f for it.  At the end the caller calls rule_file_done, wipes *text and
 * frees it.  -1 and err: 'could not open file "F": why'. */
int rule_file_open(struct rule_file *f, const struct rule_file *from, const char *name,
    struct arena *arena, char **text, struct err *err);

/* Fills err with "KIND line N: " and the text, and returns -1. */
int rule_file_error(const struct rule_file *f, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

struct rule_reader {
	/* Is called for each line that is neither empty nor an include.  -1: the line
	 * cannot be read, and the text of err is reported as a fault. */
	int (*take)(void *ctx, struct rule_file *f, struct err *err);
	void *ctx;
	diagnostic_fn *report;
	void *report_ctx;
	struct arena *arena; /* for names of files */
	unsigned faults;     /* number of lines that could not be read */
};

/* Reads all lines of an open file and of the files it includes.  It goes on behind a
 * fault, so that every fault is reported. */
void rule_file_read(struct rule_reader *r, struct rule_file *f);
/* Reports a warning about the current line. */
void rule_file_warn(
    const struct rule_reader *r, const struct rule_file *f, const char *text);
/* To be called after rule_file_read: 0 when there were no faults, otherwise -1, and err
 * says that the file is refused. */
int rule_file_result(
    const struct rule_reader *r, const struct rule_file *f, struct err *err);

/* ---- names and regular expressions in rules ---- */

/* Expressions are POSIX extended ones and match anywhere in a name unless they are
 * anchored.  One that would mean something else in PostgreSQL is refused. */

struct pattern {
	regex_t *regex; /* owned; NULL: text is a plain name */
	/* borrowed */
	const char *text; /* without the slash in front */
};

/* Compiles the regular expression in text, which p borrows for as long as it lives.
 * Free it with pattern_done.  -1: it is refused, err is 'invalid regular expression
 * "X": why', and there is nothing to free. */
int pattern_compile(struct pattern *p, const char *text, struct err *err);
/* Frees the compiled expression, if there is one; the text belongs to the caller. */
void pattern_done(struct pattern *p);

enum pattern_result {
	PATTERN_NO,
	PATTERN_YES,
	/* there is no memory, or the name is too long: nobody may be let in */
	PATTERN_FAILED,
};

/* A part of a matched name; it points into that name. */
struct pattern_part {
	const char *start; /* NULL: the parentheses matched nothing */
	size_t len;
};

/* Matches the name.  first (may be NULL) gets what the first parentheses of a regular
 * expression matched. */
enum pattern_result pattern_match(
    const struct pattern *p, const char *name, struct pattern_part *first);
/* Whether it is a regular expression with parentheses. */
bool pattern_has_part(const struct pattern *p);

#endif
