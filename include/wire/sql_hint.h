/*
 * A quick question before a text is scanned: do three letters that are part of a word
 * of interest stand anywhere in it?  Most texts have none, and need no more of a look.
 */
#ifndef WIRE_SQL_HINT_H
#define WIRE_SQL_HINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SQL_HINT_WIDTH = 16 };

/* Three letters, each as often as there are places that are compared at once. */
struct sql_hint {
	uint8_t letters[3][SQL_HINT_WIDTH];
};

/* Of small letters, which stand for capital ones as well. */
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
