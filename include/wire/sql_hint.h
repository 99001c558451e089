/*
 * A quick test before a text is scanned: does it contain one of some sequences of three
 * letters, each a part of an interesting word?  Most texts do not, and need not be
 * scanned.
 */
#ifndef WIRE_SQL_HINT_H
#define WIRE_SQL_HINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SQL_HINT_WIDTH = 16 };

/* The three letters, each repeated to fill the vector that is compared at once. */
struct sql_hint {
	uint8_t letters[3][SQL_HINT_WIDTH];
};

/* The letters are lower case and match upper case as well. */
#define SQL_HINT(a, b, c)                                                         \
	{                                                                         \
		{                                                                 \
			SQL_HINT_REPEAT((a) | 0x20), SQL_HINT_REPEAT((b) | 0x20), \
			    SQL_HINT_REPEAT((c) | 0x20)                           \
		}                                                                 \
	}
#define SQL_HINT_REPEAT(c)                                     \
	{                                                      \
		c, c, c, c, c, c, c, c, c, c, c, c, c, c, c, c \
	}

bool sql_hint_is_there(
    const char *text, size_t len, const struct sql_hint *hints, size_t count);

#endif
