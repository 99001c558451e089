/*
 * Lists of names in HBA rules: keywords, names, @files with names, regular
 * expressions.  A quoted token is always a name.
 */
#include <ctype.h>
#include <string.h>

#include "auth/hba_rows.h"
#include "auth/saslprep.h"
#include "auth/userlist.h"

struct names_reader {
	struct hba_names *names;
	enum hba_column column;
	const struct rule_reader *reader;
	const struct rule_file *rule; /* the file that has the rule itself */
};

static int parse_list(struct names_reader *n, struct rule_file *f, struct err *err);

/* Characters outside ASCII have cases as well, so any run of them is like any other. */
char *hba_names_fold(const char *name)
{
	char *prepared, *folded, *to;

	if (saslprep(name, &prepared) < 0)
		return NULL;
	folded = to = mem_strdup(prepared ? prepared : name);
	mem_free(prepared);
	for (const char *at = folded; *at; at++) {
		char c = *at & 0x80 ? '?' : (char)tolower((unsigned char)*at);
		bool is_run = c == ' ' || *at & 0x80;
		if (c == ' ' && to == folded)
			continue;
		if (!is_run || to == folded || to[-1] != c)
			*to++ = c;
	}
	while (to > folded && to[-1] == ' ')
		to--;
	*to = '\0';
	return folded;
}

/* A login's name of a user is cut as well: a rule for a longer one would fit nobody,
 * and a `reject` would not hold. */
static int add_name(struct names_reader *n, const char *text, struct err *err)
{
	char *name = arena_strdup(n->reader->arena, text);

	if (n->column == HBA_USER) {
		char *folded;
		if (strlen(name) > USERLIST_NAME_USED)
			name[USERLIST_NAME_USED] = '\0';
		folded = hba_names_fold(name);
		if (!folded)
			return err_set_row(err, ERROR_OUT_OF_MEMORY);
		if (!n->names->folded)
			n->names->folded = map_new();
		if (!map_get_str(n->names->folded, folded)) {
			char *kept = arena_strdup(n->reader->arena, folded);
			map_put_str(n->names->folded, kept, kept);
		}
		mem_free(folded);
	}
	if (!n->names->names)
		n->names->names = map_new();
	if (!map_get_str(n->names->names, name))
		map_put_str(n->names->names, name, name);
	return 0;
}

/* Each line of an @file is a list of names. */
static int parse_name_lines(
    struct names_reader *n, struct rule_file *f, struct err *err)
{
	while (rule_file_next(f)) {
		if (rule_file_check(f, n->rule, err) < 0)
			return -1;
		if (f->tokens.kind == TOKEN_END)
			return rule_file_error(n->rule, err,
			    "%.200s:%u: a line without a name; remove it", f->path,
			    f->line);
		if (parse_list(n, f, err) < 0)
			return -1;
		if (f->tokens.kind != TOKEN_END)
			return rule_file_error(n->rule, err,
			    "%.200s:%u: only the first list of names counts; separate "
			    "names by commas",
			    f->path, f->line);
	}
	return 0;
}

static int add_file(struct names_reader *n, const struct rule_file *from,
    const char *name, struct err *err)
{
	struct rule_file f;
	char *text;

	if (rule_file_open(&f, from, name, n->reader->arena, &text, err) < 0)
		return err_prefix(err, "hba line %u: ", n->rule->line);
	int status = parse_name_lines(n, &f, err);
	rule_file_done(&f);
	mem_free(text);
	return status;
}

static int add_word(struct names_reader *n, const struct rule_file *f, const char *word,
    struct err *err)
{
	struct pattern pattern;

	if (word[0] == '@')
		return add_file(n, f, word + 1, err);
	if (word[0] == '/') {
		const char *text = word + 1;
		struct hba_names *names = n->names;
		if (pattern_compile(
			&pattern, arena_strdup(n->reader->arena, text), err) < 0)
			return err_prefix(err, "hba line %u: ", n->rule->line);
		names->patterns = mem_resize(
		    names->patterns, (names->pattern_count + 1) * sizeof(pattern));
		names->patterns[names->pattern_count++] = pattern;
		return 0;
	}
	if (word[0] == '+')
		return rule_file_error(n->rule, err,
		    "group %.200s: membership is not known here; list the users, in a "
		    "file named by @file, or write a /regular expression",
		    word);
	if (strcmp(word, "samerole") == 0 || strcmp(word, "samegroup") == 0)
		return err_set(err, "%s is not supported", word);
	if (strcmp(word, "all") == 0)
		n->names->is_all = true;
	else if (strcmp(word, "sameuser") == 0)
		n->names->is_same_user = true;
	else if (n->column == HBA_DATABASE && strcmp(word, "replication") == 0)
		n->names->has_replication = true;
	else
		return add_name(n, word, err);
	return 0;
}

static int parse_list(struct names_reader *n, struct rule_file *f, struct err *err)
{
	for (;;) {
		enum token_kind kind = f->tokens.kind;
		if (kind != TOKEN_WORD && kind != TOKEN_QUOTED) {
			if (kind == TOKEN_BAD)
				return rule_file_error(
				    n->rule, err, "a quote is not closed");
			return rule_file_error(n->rule, err, "%s name is missing",
			    n->column == HBA_DATABASE ? "database" : "user");
		}
		const char *text = tokenizer_text(&f->tokens);
		if ((kind == TOKEN_QUOTED ? add_name(n, text, err)
					  : add_word(n, f, text, err)) < 0)
			return -1;
		if (tokenizer_next(&f->tokens) != TOKEN_CHAR)
			return 0;
		tokenizer_next(&f->tokens);
	}
}

int hba_names_parse(struct hba_names *n, enum hba_column column,
    const struct rule_reader *r, struct rule_file *f, struct err *err)
{
	struct names_reader reader = {
	    .names = n, .column = column, .reader = r, .rule = f};

	return parse_list(&reader, f, err);
}

void hba_names_done(struct hba_names *n)
{
	for (size_t i = 0; i < n->pattern_count; i++)
		pattern_done(&n->patterns[i]);
	mem_free(n->patterns);
	map_free(&n->names);
	map_free(&n->folded);
}

bool hba_names_match_folded(const struct hba_names *n, const char *folded)
{
	if (n->folded && map_get_str(n->folded, folded))
		return true;
	for (size_t i = 0; i < n->pattern_count; i++)
		if (pattern_match(&n->patterns[i], folded, NULL) != PATTERN_NO)
			return true;
	return false;
}

enum pattern_result hba_names_match(
    const struct hba_names *n, const char *name, const struct hba_peer *peer)
{
	if (n->is_all || (n->is_same_user && strcmp(peer->user, peer->database) == 0))
		return PATTERN_YES;
	if (n->names && map_get_str(n->names, name))
		return PATTERN_YES;
	for (size_t i = 0; i < n->pattern_count; i++) {
		enum pattern_result result = pattern_match(&n->patterns[i], name, NULL);
		if (result != PATTERN_NO)
			return result;
	}
	return PATTERN_NO;
}
