/*
 * The questions and settings of drivers right after connecting.
 */
#include "admin/courtesy.h"

#include <stddef.h>

#include "base/text.h"

static const struct courtesy courtesies[] = {
    {"client_encoding", "UTF-8"},
    {"default_transaction_isolation", "read committed"},
    {"standard_conforming_strings", "on"},
    {"datestyle", "ISO"},
    {"timezone", "GMT"},
};

const struct courtesy *courtesy_find(const char *name)
{
	for (size_t i = 0; i < sizeof(courtesies) / sizeof(courtesies[0]); i++)
		if (text_equal_nocase(courtesies[i].name, name))
			return &courtesies[i];
	return NULL;
}
