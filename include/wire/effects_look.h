/*
 * Inside of wire/effects: the look at one text while it runs.
 */
#ifndef WIRE_EFFECTS_LOOK_H
#define WIRE_EFFECTS_LOOK_H

#include "wire/effects.h"
#include "wire/sql_scan.h"

/* Calls of set_config() that contain each other are told apart up to this depth. */
enum { EFFECTS_NESTED_MAX = 4 };

/* A call of set_config() whose arguments are being read. */
struct config_call {
	uint64_t bit;     /* of the tracked parameter that its first one names, or 0 */
	uint32_t depth;   /* of its parentheses */
	uint8_t argument; /* which one is being read: 0, 1, 2 */
	bool is_fresh;    /* nothing of this argument was read */
	bool is_null;     /* the second one is NULL */
};

struct effects_look {
	const char *text;
	struct sql_scan scan;
	struct sql_token token;
	struct sql_token before; /* the word before the token, if there is one */
	const struct effects_ask *ask;
	struct sql_effects effects;
	size_t statements; /* how many have ended, empty ones not counted */
	bool has_empty;    /* an empty one came first */
	/* what goes on in a statement, see effects_inner.c */
	struct config_call calls[EFFECTS_NESTED_MAX];
	uint32_t call_count;
	uint32_t depth;   /* of parentheses, while calls are read */
	uint16_t pending; /* a function of this leak_kind bit was named just before */
	bool is_into;     /* INTO came just before, and may have LOCAL behind it */
};

/* Look at the token that was just read; for whatever matters anywhere in a statement.
 */
void effects_inner_observe(struct effects_look *l);
/* Must the next token be read one by one, or may uninteresting ones be passed? */
bool effects_inner_is_busy(const struct effects_look *l);
/* The next token, observed.  At the end of a statement it stays there. */
void effects_inner_next(struct effects_look *l);
/* A statement has ended. */
void effects_inner_end(struct effects_look *l);

/* Is the token the semicolon or the end of the text? */
bool effects_look_is_end(const struct effects_look *l);

/* May a statement that begins with this word say something with its first words? */
bool effects_statement_is_known(const struct sql_token *t);
/* The first words of a statement: the token is the very first one. */
void effects_statement(struct effects_look *l);

/* The parameter of this name: its bit, or 0 when it is not tracked. */
uint64_t effects_look_parameter(
    const struct effects_look *l, const char *name, size_t len);

#endif
