/*
 * Private to wire/effects: the state of the scan of one text.
 */
#ifndef WIRE_EFFECTS_LOOK_H
#define WIRE_EFFECTS_LOOK_H

#include "wire/effects.h"
#include "wire/sql_scan.h"

/* How many calls of set_config() inside each other are followed. */
enum { EFFECTS_NESTED_MAX = 4 };

/* A call of set_config() whose arguments are being read. */
struct config_call {
	/* bit of the tracked parameter that the first argument names, or 0 */
	uint64_t bit;
	uint32_t depth;   /* number of open parentheses around its arguments */
	uint8_t argument; /* number of the argument being read: 0, 1 or 2 */
	bool is_fresh;    /* nothing of this argument was read yet */
	bool is_null;     /* the second argument is NULL */
	/* the first argument is a name without a dot: PostgreSQL defines it */
	bool is_defined;
};

struct effects_look {
	const char *text;
	struct sql_scan scan;
	struct sql_token token;
	struct sql_token before; /* the word in front of the token, if there is one */
	const struct effects_ask *ask;
	struct sql_effects effects;
	/* number of statements that have ended, without empty ones */
	size_t statements;
	/* number of PREPARE, EXECUTE and DEALLOCATE, also within other statements */
	size_t commands;
	bool has_empty; /* the text has an empty statement */
	/* State within a statement, for effects_inner.c. */
	struct config_call calls[EFFECTS_NESTED_MAX];
	uint32_t call_count;
	uint32_t depth; /* number of open parentheses; counted only inside a call */
	/* the leak_kind bit of the function that was named just before, or 0 */
	uint16_t pending;
	bool is_into; /* the token before was INTO, or INTO LOCAL or INTO GLOBAL */
};

/* Notes what the current token means anywhere in a statement. */
void effects_inner_observe(struct effects_look *l);
/* Whether the next token must be read one by one; otherwise the scan may skip
 * uninteresting ones. */
bool effects_inner_is_busy(const struct effects_look *l);
/* Moves to the next token and notes what it means.  At the end of a statement it does
 * not move. */
void effects_inner_next(struct effects_look *l);
/* Must be called at the end of a statement. */
void effects_inner_end(struct effects_look *l);

/* Whether the token is a semicolon or the end of the text. */
bool effects_look_is_end(const struct effects_look *l);

/* Whether this word can begin a statement that effects_statement notes.  May be true
 * for a few other words. */
bool effects_statement_is_known(const struct sql_token *t);
/* Notes what the first words of a statement mean.  The current token is the first
 * word. */
void effects_statement(struct effects_look *l);

/* Returns the bit of the parameter with this name, or 0 when it is not tracked. */
uint64_t effects_look_parameter(
    const struct effects_look *l, const char *name, size_t len);

#endif
