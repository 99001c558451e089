#include "auth/ident.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "auth/rule_file.h"
#include "base/map.h"
#include "base/mem.h"

struct ident_line {
	struct pattern system_user, db_user; /* their texts are in the arena */
	bool is_all;                         /* matches any database user */
	bool has_reference;                  /* db_user contains \1 */
	struct ident_line *next;
};

struct ident_map {
	const char *name;
	struct ident_line *first, **end;
};

struct ident {
	struct arena *arena; /* has maps and lines */
	struct map *maps;    /* struct ident_map by .name */
};

struct ident_reader {
	struct ident *ident;
	struct rule_reader lines;
};

/* ---- reading ---- */

static void line_done(struct ident_line *line)
{
	pattern_done(&line->system_user);
	pattern_done(&line->db_user);
}

static struct ident_map *find_or_add_map(struct ident *ident, const char *name)
{
	struct ident_map *m = map_get_str(ident->maps, name);

	if (m)
		return m;
	m = arena_alloc(ident->arena, sizeof(*m));
	m->name = name;
	m->end = &m->first;
	map_put_str(ident->maps, name, m);
	return m;
}

/* Reads a name or, when it is unquoted and begins with a slash, a regular
 * expression. */
static int parse_user(struct ident_reader *r, struct rule_file *f, const char *what,
    struct pattern *user, struct err *err)
{
	enum token_kind kind = f->tokens.kind;

	if (kind != TOKEN_WORD && kind != TOKEN_QUOTED) {
		if (f->tokens.kind == TOKEN_BAD)
			return rule_file_error(f, err, "a quote is not closed");
		return rule_file_error(f, err, "%s is missing", what);
	}
	user->text = arena_strdup(r->ident->arena, tokenizer_text(&f->tokens));
	tokenizer_next(&f->tokens);
	if (kind == TOKEN_QUOTED || user->text[0] != '/')
		return 0;
	if (pattern_compile(user, user->text + 1, err) == 0)
		return 0;
	return err_prefix(err, "ident line %u: ", f->line);
}

static int parse_db_user(struct ident_reader *r, struct rule_file *f,
    struct ident_line *line, struct err *err)
{
	bool is_word = f->tokens.kind == TOKEN_WORD;

	if (is_word && tokenizer_text(&f->tokens)[0] == '+')
		return rule_file_error(f, err,
		    "group %.200s: membership is not known here; write a line for each "
		    "user, or a /regular expression",
		    tokenizer_text(&f->tokens));
	if (parse_user(r, f, "database user", &line->db_user, err) < 0)
		return -1;
	line->is_all =
	    is_word && strcmp(line->db_user.text, "all") == 0 && !line->db_user.regex;
	/* PgBouncer accepts one more token behind "all" */
	if (line->is_all &&
	    (f->tokens.kind == TOKEN_WORD || f->tokens.kind == TOKEN_QUOTED))
		tokenizer_next(&f->tokens);
	if (f->tokens.kind != TOKEN_END)
		return rule_file_error(f, err, "unsupported parameters");
	/* as in PostgreSQL, \1 needs a system user that is a regular expression with
	 * parentheses */
	if (!line->system_user.regex || line->db_user.regex ||
	    !strstr(line->db_user.text, "\\1"))
		return 0;
	if (!pattern_has_part(&line->system_user))
		return rule_file_error(f, err,
		    "regular expression \"%.150s\" has no subexpressions as requested "
		    "by backreference in \"%.150s\"",
		    line->system_user.text, line->db_user.text);
	line->has_reference = true;
	return 0;
}

static int take_line(void *ctx, struct rule_file *f, struct err *err)
{
	struct ident_reader *r = ctx;
	struct ident_line *line = arena_alloc(r->ident->arena, sizeof(*line));

	if (f->tokens.kind != TOKEN_WORD)
		return rule_file_error(f, err, "map name is missing or quoted");
	const char *name = arena_strdup(r->ident->arena, tokenizer_text(&f->tokens));
	tokenizer_next(&f->tokens);
	if (parse_user(r, f, "system user", &line->system_user, err) < 0 ||
	    parse_db_user(r, f, line, err) < 0) {
		line_done(line);
		return -1;
	}
	struct ident_map *m = find_or_add_map(r->ident, name);
	*m->end = line;
	m->end = &line->next;
	return 0;
}

struct ident *ident_parse(const char *path, const char *text, size_t len,
    diagnostic_fn *report, void *ctx, struct err *err)
{
	struct ident *ident = mem_zero(sizeof(*ident));
	struct ident_reader r = {.ident = ident};
	struct rule_file f;

	ident->arena = arena_new();
	ident->maps = map_new();
	r.lines = (struct rule_reader){.take = take_line,
	    .ctx = &r,
	    .report = report,
	    .report_ctx = ctx,
	    .arena = ident->arena};
	rule_file_init(&f, path, text, len);
	f.kind = "ident";
	rule_file_read(&r.lines, &f);
	if (rule_file_result(&r.lines, &f, err) < 0)
		ident_free(&ident);
	rule_file_done(&f);
	return ident;
}

struct ident *ident_load(
    const char *path, diagnostic_fn *report, void *ctx, struct err *err)
{
	size_t len;
	char *text = text_read_file(path, &len, err);

	if (!text) {
		err_prefix(err, "could not open ident config file %.200s: ", path);
		return NULL;
	}
	struct ident *ident = ident_parse(path, text, len, report, ctx, err);
	mem_free(text);
	return ident;
}

void ident_free(struct ident **ip)
{
	struct ident *ident = *ip;
	struct ident_map *m;
	size_t at = 0;

	if (!ident)
		return;
	while ((m = map_next(ident->maps, &at))) {
		for (struct ident_line *line = m->first; line; line = line->next)
			line_done(line);
	}
	map_free(&ident->maps);
	arena_free(&ident->arena);
	mem_free(ident);
	*ip = NULL;
}

bool ident_has_map(const struct ident *ident, const char *map)
{
	return map_get_str(ident->maps, map);
}

/* ---- matching ---- */

static bool is_db_user(
    const struct ident_line *line, bool is_caseless, const char *name)
{
	if (is_caseless && !line->db_user.regex && !line->is_all)
		return strcasecmp(line->db_user.text, name) == 0;
	return line->is_all || pattern_match(&line->db_user, name, NULL) == PATTERN_YES;
}

static bool may_by_regex(const struct ident_line *line, bool is_caseless,
    const char *system_user, const char *db_user)
{
	int (*compare)(const char *, const char *, size_t) =
	    is_caseless ? strncasecmp : strncmp;
	struct pattern_part part;

	if (pattern_match(&line->system_user, system_user, &part) != PATTERN_YES)
		return false;
	if (line->has_reference) {
		/* the name must be db_user's text with its first \1 replaced by the
		 * part that matched */
		const char *reference = strstr(line->db_user.text, "\\1");
		size_t before = (size_t)(reference - line->db_user.text);
		return part.start &&
		       compare(db_user, line->db_user.text, before) == 0 &&
		       compare(db_user + before, part.start, part.len) == 0 &&
		       compare(db_user + before + part.len, reference + 2, SIZE_MAX) ==
			   0;
	}
	return is_db_user(line, is_caseless, db_user);
}

static bool line_may(
    const struct ident_line *line, const struct ident_names *names, const char *db_user)
{
	const char *name;

	if (!line->system_user.regex)
		return is_db_user(line, names->is_caseless, db_user) &&
		       names->is_name(names->ctx, line->system_user.text);
	for (size_t i = 0; (name = names->name_at(names->ctx, i)); i++) {
		if (may_by_regex(line, names->is_caseless, name, db_user))
			return true;
	}
	return false;
}

bool ident_may_any(const struct ident *ident, const char *map,
    const struct ident_names *names, const char *db_user)
{
	if (!map)
		return names->is_name(names->ctx, db_user);
	const struct ident_map *m = ident ? map_get_str(ident->maps, map) : NULL;
	for (const struct ident_line *line = m ? m->first : NULL; line;
	     line = line->next) {
		if (line_may(line, names, db_user))
			return true;
	}
	return false;
}

static bool is_the_name(void *ctx, const char *name)
{
	return strcmp(ctx, name) == 0;
}

static const char *the_name_at(void *ctx, size_t i)
{
	return i == 0 ? ctx : NULL;
}

bool ident_may(const struct ident *ident, const char *map, const char *system_user,
    const char *db_user)
{
	struct ident_names names = {.is_name = is_the_name,
	    .name_at = the_name_at,
	    .ctx = (char *)(uintptr_t)system_user};

	return ident_may_any(ident, map, &names, db_user);
}
