/*
 * Scans an SQL text once and says what it does beside returning its result: which
 * session state it leaves behind, which parameters it sets or resets, whether it makes
 * the server forget prepared statements, and whether it is a PREPARE, EXECUTE or
 * DEALLOCATE.  The result is a value, kept with a prepared statement and passed on with
 * a message.  It depends on the text alone, so it holds for every server.
 *
 * This is no parser.  It does not know what user-defined functions do, and it looks
 * into strings only where a string is the body of a DO.
 */
#ifndef WIRE_EFFECTS_H
#define WIRE_EFFECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/leak.h"
#include "wire/vars.h"

enum {
	/* How many bytes of a text are looked at; the second limit is for texts that
	 * begin with PREPARE, EXECUTE or DEALLOCATE. */
	EFFECTS_TEXT_MAX = 64 * 1024,
	EFFECTS_COMMAND_MAX = 1024 * 1024,
	/* Only the first so many parameters of a schema are noted. */
	EFFECTS_PARAMETERS = 64,
};

/* Sets of tracked parameters as bits.  When a text changes a parameter several times,
 * the last change counts. */
struct reset_effects {
	uint64_t session; /* changed by RESET or SET ..  TO DEFAULT */
	/* changed by SET LOCAL ..  TO DEFAULT: until the transaction ends */
	uint64_t local;
	uint64_t set; /* set to another value */
	/* Reset by set_config(.., NULL, false) or in the body of a DO.  Counts only if
	 * the server then reports the default value. */
	uint64_t hidden;
	/* the text has a RESET of any parameter, even if a later statement sets it */
	bool has_reset;
	bool has_default; /* the text has a SET ..  TO DEFAULT */
};

enum command_kind {
	COMMAND_NONE, /* another command, or more than one statement without a
			 DEALLOCATE */
	COMMAND_PREPARE,
	COMMAND_EXECUTE,
	COMMAND_DEALLOCATE,
	COMMAND_DEALLOCATE_ALL,
};

/* Where the parts of a PREPARE, EXECUTE or DEALLOCATE stand, if the text consists of
 * nothing else, or is a DEALLOCATE among statements that are none of them.  Offsets in
 * bytes. */
struct command_span {
	enum command_kind kind;
	uint32_t from, to; /* the statement's name, as it is written */
	uint32_t end;      /* the end of the command, before its semicolon */
};

struct sql_effects {
	/* Session state left behind: bits of enum leak_kind and enum leak_flag.
	 * leaves_first: by the first statement and by functions anywhere; leaves: by
	 * all statements. */
	uint16_t leaves_first, leaves;
	/* Parameters changed by SET (in the first statement; in any) and by
	 * set_config().  These leave something behind only on a server that does not
	 * report them. */
	uint64_t sets_first, sets, configs;
	struct reset_effects resets;
	struct command_span command;
	bool forgets : 1; /* the first statement is DISCARD or DEALLOCATE */
	/* some statement is DISCARD or DEALLOCATE, or the text was too long to tell */
	bool may_forget : 1;
	bool hides_forgetting : 1; /* the body of a DO has a DISCARD or DEALLOCATE */
	/* Statements that may change what other texts mean.  changes_schema: CREATE,
	 * ALTER or DROP, or a DO with such a word, or SELECT INTO, except of temporary
	 * tables (makes_temp), plain DROP TABLE (drops_table) and what no text depends
	 * on. */
	bool changes_schema : 1;
	bool makes_temp : 1;
	bool drops_table : 1;
	bool is_command : 1; /* the first word is PREPARE, EXECUTE or DEALLOCATE */
	/* it has a string such as 'now' or 'today', which PostgreSQL evaluates in
	 * Parse */
	bool reads_clock : 1;
	bool is_cut : 1; /* the text was longer than what was looked at */
	/* it may send notifications, by pg_notify or an unknown function; only with
	 * effects_ask.has_calls */
	bool may_notify : 1;
	/* it may change, for the rest of the transaction, how texts are understood: SET
	 * of such a parameter, RESET, CREATE, DO and the like */
	bool is_unusual : 1;
	/* the first statement is CREATE, ALTER or DROP DATABASE: see sql_vacated.h */
	bool vacates : 1;
};

/* What the caller of effects_of_text wants to know. */
struct effects_ask {
	const struct vars_schema *schema; /* the parameters that are tracked */
	/* standard_conforming_strings is off, so that '..' has backslash escapes */
	bool has_escapes;
	/* also look for functions and SELECT INTO that leave session state behind */
	bool has_leaves;
	bool has_clock; /* also set reads_clock */
	bool has_calls; /* also look for what only the server can tell: LEAK_UNSEEN */
	/* the text is a beginning: it goes on behind len unless it has a NUL there */
	bool is_part;
};

struct sql_effects effects_of_text(
    const char *text, size_t len, const struct effects_ask *ask);

/* Whether it is quickly seen that the whole text has nothing that anybody would note.
 * True for most texts. */
bool effects_is_plain(const char *text, size_t len, const struct effects_ask *ask);

/* Whether the first word is or could become PREPARE, EXECUTE or DEALLOCATE. */
bool effects_may_be_command(const char *text, size_t len);

/* Is this the tag of a statement with changes_schema, or of a CREATE TABLE or DROP
 * TABLE of which only the text tells more?  is_explained: a text has told what CREATE,
 * ALTER and DROP do. */
bool effects_is_schema_tag(const char *tag, size_t len, bool is_explained);

/* Whether the text sets, for longer than its transaction, a parameter on which the
 * meaning of texts depends (see vars_schema_read_bits) and which the server does not
 * report. */
bool effects_hide_reading(const struct sql_effects *effects,
    const struct vars_schema *schema, const struct vars *reported);

/* The session state that the text leaves behind on a server that reports the parameters
 * in `reported`.  first: kinds of the first statement; all: kinds and flags of all
 * statements. */
struct leak_look {
	uint16_t first, all;
};
struct leak_look effects_leaves(
    const struct sql_effects *effects, const struct vars *reported);

static inline bool effects_is_reset(const struct reset_effects *r)
{
	return r->session || r->local || r->hidden;
}

/* Whether the text has no effect that is noted. */
static inline bool effects_is_nothing(const struct sql_effects *e)
{
	const struct reset_effects *r = &e->resets;

	return !e->leaves_first && !e->leaves && !e->sets_first && !e->sets &&
	       !e->configs && !effects_is_reset(r) && !r->set && !r->has_reset &&
	       !r->has_default && e->command.kind == COMMAND_NONE && !e->forgets &&
	       !e->may_forget && !e->hides_forgetting && !e->changes_schema &&
	       !e->makes_temp && !e->drops_table && !e->is_command && !e->reads_clock &&
	       !e->is_cut && !e->is_unusual && !e->vacates && !e->may_notify;
}

/* Adds the effects of a later text to those of earlier ones. */
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
