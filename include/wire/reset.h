/*
 * Which tracked parameters a text brings back to their defaults: RESET, SET .. TO
 * DEFAULT.  Seen from the words that its statements begin with.
 */
#ifndef WIRE_RESET_H
#define WIRE_RESET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/vars.h"

/* Parameters of a schema that can be told apart; others are not looked at. */
enum { RESET_NOTED = 64 };

struct reset_look {
	/* bits of parameters */
	uint64_t session;
	uint64_t local;   /* SET LOCAL: until the end of the transaction */
	uint64_t set;     /* to something else, and not brought back behind that */
	bool has_reset;   /* RESET was there, of whatever and whatever came behind it */
	bool has_default; /* so was SET .. TO DEFAULT */
};

/* What counts is the last that is said of a parameter. */
struct reset_look reset_of_text(
    const char *text, size_t len, const struct vars_schema *schema);

static inline bool reset_is_any(const struct reset_look *look)
{
	return look->session || look->local;
}

/* What is looked at comes behind what is in *to. */
static inline void reset_add(struct reset_look *to, const struct reset_look *look)
{
	to->session = (to->session & ~look->set) | look->session;
	to->local = (to->local & ~look->set) | look->local;
	to->has_reset = to->has_reset || look->has_reset;
	to->has_default = to->has_default || look->has_default;
}

#endif
