/*
 * What HBA and ident files have in common: lines, continued or not, their tokens, the
 * files they include, and how a line that cannot be read is reported.  Private to
 * auth/hba and auth/ident.  PostgreSQL, "The pg_hba.conf File".
 */
#ifndef AUTH_RULE_FILE_H
#define AUTH_RULE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "auth/remark.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"

/* How deep files may include each other. */
enum { RULE_FILE_DEPTH_MAX = 10 };

/* A file while it is read, line by line. */
struct rule_file {
	unsigned line; /* number of the current line, the first when it is continued */
	struct tokenizer tokens; /* of the current line: stands at the first one */
	struct buf text;         /* of the current line */
	/* borrowed */
	const char *kind; /* "hba", "ident" */
	const char *path;
	unsigned depth; /* 0: the top file */
	const char *at, *end;
	unsigned next_line;
};

/* path and text must last as long as f. */
void rule_file_init(
    struct rule_file *f, const char *path, const char *text, size_t len);
/* The next line, whatever is in it; a backslash at its end joins the one behind it,
 * unless it ends a comment. */
bool rule_file_next(struct rule_file *f);
void rule_file_done(struct rule_file *f);
/* The whole of a file named on the current line of `from`, relative to it; f is
 * initialized for it.  Caller ends with rule_file_done, then wipes and frees *text.
 * -1 and err ('could not open file "F": why'). */
int rule_file_open(struct rule_file *f, const struct rule_file *from, const char *name,
    struct arena *arena, char **text, struct err *err);

/* Fills err with "KIND line N: " and the text; returns -1. */
int rule_file_error(const struct rule_file *f, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

struct rule_reader {
	/* Takes the current line, which is neither empty nor an include.  -1 and err:
	 * the line cannot be read; err's text is reported as a fault. */
	int (*take)(void *ctx, struct rule_file *f, struct err *err);
	void *ctx;
	remark_fn *remark;
	void *remark_ctx;
	struct arena *arena; /* names of files go there */
	unsigned faults;     /* lines that could not be read */
};

/* Reads all lines of an open file and of the files it includes, also behind a fault, so
 * that every fault is reported. */
void rule_file_read(struct rule_reader *r, struct rule_file *f);
/* Says something about the current line that is not a fault. */
void rule_file_warn(
    const struct rule_reader *r, const struct rule_file *f, const char *text);
/* After rule_file_read: 0 when there were no faults.  Otherwise -1, and err says that
 * the file is refused. */
int rule_file_result(
    const struct rule_reader *r, const struct rule_file *f, struct err *err);

#endif
