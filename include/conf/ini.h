/*
 * The syntax of ini files: cuts a text into sections, assignments and includes.  The
 * names of sections and settings are not known here.
 */
#ifndef CONF_INI_H
#define CONF_INI_H

#include <stddef.h>

/* How deep files may include others. */
enum { INCLUDE_DEPTH_MAX = 10 };

enum ini_kind {
	INI_END,
	INI_SECTION, /* item->name is set */
	INI_VALUE,   /* item->name and item->value are set */
	INI_INCLUDE, /* item->value is the file name */
	INI_BAD,     /* syntax error; the rest of the line is skipped */
};

struct ini {
	char *at, *end;
	unsigned line;
};

struct ini_item {
	enum ini_kind kind;
	unsigned line;     /* line where the item begins, from 1 */
	const char *name;  /* points into the text; "" when there is none */
	const char *value; /* points into the text, without trailing white space */
};

/* text is cut in place.  It has len bytes without a NUL, followed by a NUL. */
void ini_init(struct ini *ini, char *text, size_t len);
/* Reads the next item; returns its kind, which is also in item->kind.  At the end, each
 * call returns INI_END. */
enum ini_kind ini_next(struct ini *ini, struct ini_item *item);

#endif
