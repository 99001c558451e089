/*
 * What an SQL text does beyond its answer, found in one look at it: the session state
 * that it leaves behind, the parameters that it sets or resets, whether prepared
 * statements are forgotten, whether it is one of PREPARE, EXECUTE and DEALLOCATE.
 *
 * The result is a value: it is kept with a prepared statement and passed on with a
 * message.  It depends on the text alone, so that it holds on every server.  It is no
 * parser's: what a function does is not known, and what stands in a string only where
 * the string is the body of a DO.
 */
#ifndef WIRE_EFFECTS_H
#define WIRE_EFFECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/leak.h"
#include "wire/vars.h"

enum {
	/* So many bytes of a text are looked at, and so many of one that begins with
	 * PREPARE, EXECUTE or DEALLOCATE. */
	EFFECTS_TEXT_MAX = 64 * 1024,
	EFFECTS_COMMAND_MAX = 1024 * 1024,
	/* Parameters of a schema that can be told apart; others are not noted. */
	EFFECTS_PARAMETERS = 64,
};

/* Bits of tracked parameters.  What counts is what is said last of a parameter. */
struct reset_effects {
	uint64_t session; /* RESET, SET .. TO DEFAULT */
	uint64_t local;   /* SET LOCAL .. TO DEFAULT: until the transaction ends */
	uint64_t set;     /* set to something else */
	/* Brought back by set_config(.., NULL, false) or in the body of a DO, if the
	 * server reports that they have their default value. */
	uint64_t hidden;
	bool has_reset; /* there is a RESET, of whatever and whatever came behind it */
	bool has_default; /* there is a SET .. TO DEFAULT */
};

enum command_kind {
	COMMAND_NONE, /* something else, or more than one statement */
	COMMAND_PREPARE,
	COMMAND_EXECUTE,
	COMMAND_DEALLOCATE,
	COMMAND_DEALLOCATE_ALL,
};

/* PREPARE, EXECUTE or DEALLOCATE, if that is all of the text. */
struct command_span {
	enum command_kind kind;
	uint32_t from, to; /* of the statement's name as it is written */
	uint32_t end;      /* of the command, before its semicolon */
};

struct sql_effects {
	/* Session state left behind: bits of enum leak_kind and of enum leak_flag; by
	 * the first statement and by functions anywhere, and by all statements. */
	uint16_t leaves_first, leaves;
	/* Parameters set with SET and set_config(): these leave something behind only
	 * on a server that does not report them. */
	uint64_t sets_first, sets, configs;
	struct reset_effects resets;
	struct command_span command;
	bool forgets : 1;    /* the first statement is a DISCARD or DEALLOCATE */
	bool may_forget : 1; /* any statement is, or what was not looked at may be */
	bool hides_forgetting : 1; /* the body of a DO mentions one */
	bool is_command : 1;  /* the first word is PREPARE, EXECUTE or DEALLOCATE */
	bool reads_clock : 1; /* a string like 'now' or 'today', read when parsed */
	bool is_cut : 1;      /* the text goes on behind what was looked at */
};

/* What somebody wants to know. */
struct effects_ask {
	const struct vars_schema *schema; /* parameters that are tracked */
	bool has_escapes;                 /* standard_conforming_strings is off */
	bool
	    has_leaves; /* also functions and SELECT INTO that leave something behind */
	bool has_clock; /* also reads_clock */
	bool is_part;   /* the text may go on, unless it ends with a NUL */
};

struct sql_effects effects_of_text(
    const char *text, size_t len, const struct effects_ask *ask);

/* Is the first word PREPARE, EXECUTE or DEALLOCATE, as far as can be seen? */
bool effects_may_be_command(const char *text, size_t len);

/* The session state left behind on a server that reports these parameters: kinds of
 * the first statement, and all with the flags. */
struct leak_look {
	uint16_t first, all;
};
struct leak_look effects_leaves(
    const struct sql_effects *effects, const struct vars *reported);

static inline bool effects_is_reset(const struct reset_effects *r)
{
	return r->session || r->local || r->hidden;
}

/* Is there nothing in the text that anybody would note? */
static inline bool effects_is_nothing(const struct sql_effects *e)
{
	const struct reset_effects *r = &e->resets;

	return !e->leaves_first && !e->leaves && !e->sets_first && !e->sets &&
	       !e->configs && !effects_is_reset(r) && !r->set && !r->has_reset &&
	       !r->has_default && e->command.kind == COMMAND_NONE && !e->forgets &&
	       !e->may_forget && !e->hides_forgetting && !e->is_command &&
	       !e->reads_clock && !e->is_cut;
}

/* What is added comes behind what is in *to. */
static inline void effects_add_resets(
    struct reset_effects *to, const struct reset_effects *more)
{
	uint64_t kept = ~more->set;

	to->session = (to->session & kept) | more->session;
	to->local = (to->local & kept) | more->local;
	to->hidden = (to->hidden & kept) | more->hidden;
	to->set = (to->set & ~(more->session | more->hidden)) | more->set;
	to->has_reset = to->has_reset || more->has_reset;
	to->has_default = to->has_default || more->has_default;
}

#endif
