/*
 * The grammar of ini files: cuts a text into sections, assignments and includes.  The
 * names of sections and settings are not known here.
 */
#ifndef CONF_INI_H
#define CONF_INI_H

#include <stddef.h>

enum ini_kind {
	INI_END,
	INI_SECTION, /* name */
	INI_VALUE,   /* name and value */
	INI_INCLUDE, /* value: the file name */
	INI_BAD,     /* syntax error; the rest of the line is skipped */
};

struct ini {
	char *at, *end;
	unsigned line;
};

struct ini_item {
	enum ini_kind kind;
	unsigned line;     /* where the item starts, from 1 */
	const char *name;  /* point into the text, "" when there is none */
	const char *value; /* without trailing white space */
};

/* text is cut in place: len bytes, none of them NUL, and a NUL behind them. */
void ini_init(struct ini *ini, char *text, size_t len);
/* The next item; its kind is returned and stands in item->kind.  INI_END stays. */
enum ini_kind ini_next(struct ini *ini, struct ini_item *item);

#endif
