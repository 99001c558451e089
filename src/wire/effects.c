/*
 * Scans a text statement by statement, with a fast way through uninteresting parts.
 * effects_statement knows the first words of statements, effects_inner what matters
 * anywhere in them.
 */
#include "wire/effects.h"

#include <string.h>

#include "wire/effects_look.h"
#include "wire/sql_calls.h"
#include "wire/sql_hint.h"

/* Scans the rest of a statement, where only effects_inner can find something. */
static void pass_statement(struct effects_look *l)
{
	static const struct sql_filter words = {{
	    ['i' & 31] = 1U << 4,  /* into */
	    ['s' & 31] = 1U << 10, /* set_config */
	    /* pg_advisory_lock, pg_try_advisory_lock, and these with _shared */
	    ['p' & 31] = 1U << 16 | 1U << 20 | 1U << 23 | 1U << 27,
	}};

	while (!effects_look_is_end(l)) {
		if (effects_inner_is_busy(l)) {
			effects_inner_next(l);
		} else {
			l->before = l->token;
			sql_scan_find(
			    &l->scan, &words, l->ask->has_clock, &l->token, &l->before);
			effects_inner_observe(l);
		}
	}
	effects_inner_end(l);
}

/* Whether nothing of interest is in the first word or follows it.  True for most texts,
 * and much quicker to find out than by scanning them. */
static bool is_plain_behind(const struct sql_scan *s, const struct sql_token *first,
    const struct effects_ask *ask)
{
	/* in the order in which fewer are looked for, from either end */
	static const struct sql_hint inner[] = {
	    SQL_HINT('g', '_', 's'), /* pg_settings, see sql_calls.h */
	    SQL_HINT('u', '&', '"'), /* a name that may be one of these */
	    SQL_HINT('n', 't', 'o'), /* select into */
	    SQL_HINT('_', 'c', 'o'), /* set_config() */
	    SQL_HINT('_', 'a', 'd'), /* pg_advisory_lock() */
	    SQL_HINT('g', '_', 'n'), /* pg_notify() */
	};
	static const struct sql_hint clock[] = {
	    SQL_HINT('n', 'o', 'w'), /* now */
	    SQL_HINT('d', 'a', 'y'), /* today, yesterday */
	    SQL_HINT('o', 'r', 'r'), /* tomorrow */
	};
	static const char insert_into[] = " into";
	const char *at = s->at, *end = s->end;

	if (first->kind != SQL_WORD || effects_statement_is_known(first))
		return false;
	while (end > at && (end[-1] == ';' || end[-1] == ' ' || end[-1] == '\n'))
		end--;
	size_t len = (size_t)(end - at);
	if (memchr(at, ';', len))
		return false;
	bool has_calls = ask->has_calls && memchr(at, '(', len);
	if (has_calls && sql_calls_may_be(at, len))
		return false;
	if (ask->has_calls && sql_token_is(first, "with") &&
	    sql_calls_may_notify(first->from, (size_t)(end - first->from)))
		return false;
	/* this INTO is harmless */
	if (sql_token_is(first, "insert") && len >= strlen(insert_into)) {
		at += strlen(insert_into);
		len -= strlen(insert_into);
	}
	if (ask->has_calls    ? sql_hint_is_there(at, len, inner, has_calls ? 6 : 3)
	    : ask->has_leaves ? sql_hint_is_there(at, len, inner + 2, 3)
			      : sql_hint_is_there(at, len, inner + 3, 1))
		return false;
	return !ask->has_clock || !sql_hint_is_there(at, len, clock, 3);
}

/* Scans all statements; the first token has been read. */
static void look(struct effects_look *l)
{
	while (l->token.kind != SQL_END) {
		if (sql_token_is_mark(&l->token, ';')) {
			l->has_empty = true;
		} else {
			l->before = (struct sql_token){.kind = SQL_END};
			effects_inner_observe(l);
			effects_statement(l);
			pass_statement(l);
			l->statements++;
		}
		if (l->token.kind != SQL_END)
			sql_scan_next(&l->scan, &l->token);
	}
	if (l->commands > 1 ||
	    (l->statements > 1 && l->effects.command.kind != COMMAND_DEALLOCATE))
		l->effects.command.kind = COMMAND_NONE;
}

/* May PREPARE, EXECUTE or DEALLOCATE stand behind it, if it is none of them? */
static bool may_be_command(const struct sql_token *t)
{
	return sql_token_is(t, "prepare") || sql_token_is(t, "execute") ||
	       sql_token_is(t, "deallocate") || sql_token_is(t, "create") ||
	       sql_token_is(t, "explain");
}

bool effects_may_be_command(const char *text, size_t len)
{
	struct sql_token first;
	struct sql_scan s;

	sql_scan_init(&s, text, len < EFFECTS_TEXT_MAX ? len : EFFECTS_TEXT_MAX, false);
	sql_scan_next(&s, &first);
	return s.at == s.end || may_be_command(&first);
}

bool effects_is_plain(const char *text, size_t len, const struct effects_ask *ask)
{
	struct sql_token first;
	struct sql_scan s;

	if (len > EFFECTS_TEXT_MAX)
		return false;
	sql_scan_init(&s, text, len, ask->has_escapes);
	sql_scan_next(&s, &first);
	return is_plain_behind(&s, &first, ask);
}

struct sql_effects effects_of_text(
    const char *text, size_t len, const struct effects_ask *ask)
{
	size_t most = EFFECTS_TEXT_MAX;
	struct sql_effects effects;
	struct sql_token first;
	struct sql_scan s;

	sql_scan_init(&s, text, len < most ? len : most, ask->has_escapes);
	sql_scan_next(&s, &first);
	if (len > most && may_be_command(&first)) {
		most = EFFECTS_COMMAND_MAX;
		s.end = text + strnlen(text, len < most ? len : most);
	}
	if (is_plain_behind(&s, &first, ask)) {
		memset(&effects, 0, sizeof(effects));
	} else {
		struct effects_look l = {
		    .text = text, .scan = s, .token = first, .ask = ask};
		look(&l);
		effects = l.effects;
		size_t size = (size_t)(s.end - text);
		if (ask->has_calls && sql_calls_may_be(text, size)) {
			effects.leaves |= LEAK_UNSEEN;
			effects.may_notify = true;
		}
		effects.may_notify |=
		    ask->has_calls && sql_calls_may_notify(text, size);
	}
	if (s.end == text + most ? len > most : ask->is_part && s.end == text + len) {
		/* corrects the effects of a text that is longer than what was looked at
		 */
		effects.is_cut = effects.may_forget = true;
		effects.leaves |= ask->has_calls ? LEAK_UNSEEN : 0;
		effects.may_notify = ask->has_calls;
		/* the last token may be incomplete, so what was found at the end is not
		 * certain */
		effects.resets = (struct reset_effects){0};
		effects.command.kind = COMMAND_NONE;
	}
	return effects;
}

/* ---- what is kept of it ---- */

/* Whether some of these parameters are not reported by the server. */
static bool has_unreported(uint64_t bits, const struct vars *reported)
{
	for (; bits; bits &= bits - 1) {
		size_t i = (size_t)__builtin_ctzll(bits);
		if (!reported || !vars_get(reported, i))
			return true;
	}
	return false;
}

bool effects_hide_reading(const struct sql_effects *effects,
    const struct vars_schema *schema, const struct vars *reported)
{
	uint64_t set =
	    (effects->sets | effects->configs) & vars_schema_read_bits(schema);

	return has_unreported(set, reported);
}

static uint16_t of_sets(uint64_t sets, const struct vars *reported)
{
	if (!sets)
		return 0;
	return has_unreported(sets, reported) ? LEAK_BIT(SET) : LEAK_HARMLESS_SET;
}

struct leak_look effects_leaves(
    const struct sql_effects *effects, const struct vars *reported)
{
	uint16_t config =
	    has_unreported(effects->configs, reported) ? LEAK_BIT(CONFIG) : 0;
	uint16_t first = effects->leaves_first | of_sets(effects->sets_first, reported);

	return (struct leak_look){
	    .first = (first | config) & LEAK_KINDS,
	    .all = (effects->leaves & ~LEAK_READING) |
		   of_sets(effects->sets, reported) | config,
	};
}
