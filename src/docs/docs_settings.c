/*
 * Prints the tables of the configuration for documents: the reference in Markdown, the
 * manual page pgbouncer.ini(5), and the sample file.  Reference and manual page are the
 * same walk in two styles.  The text around the tables is in doc/in.
 */
#include <string.h>

#include "base/buf.h"
#include "conf/entry.h"
#include "conf/setting_row.h"
#include "docs/docs.h"

/* How a row is printed in one format. */
struct style {
	void (*section)(FILE *out, const char *title);
	/* prints a term with its explanation; facts may be NULL */
	void (*item)(FILE *out, const char *term, const char *facts, const char *text);
	void (*example)(
	    FILE *out, const char *name, const char *value, const char *link);
};

static const char param_help[] =
    "The startup parameter NAME of new server connections, for example "
    "param.search_path=app. Any number of them can be given. The parameters that have "
    "a key of their own are set by that key. PgBouncer 1.25 does not know it.";

static const char *const group_titles[GROUP_COUNT] = {
    [GROUP_PROCESS] = "Process, files, listening",
    [GROUP_POOLING] = "Pooling and limits",
    [GROUP_AUTH] = "Authentication",
    [GROUP_HEALTH] = "Server health and timeouts",
    [GROUP_DNS] = "DNS",
    [GROUP_TLS] = "TLS",
    [GROUP_NETWORK] = "Low-level network",
};

static const char *const type_names[] = {
    [SETTING_STR] = "str",
    [SETTING_INT] = "int",
    [SETTING_UINT] = "uint",
    [SETTING_BOOL] = "bool",
    [SETTING_TIME] = "time",
    [SETTING_SIZE] = "size",
    [SETTING_ENUM] = "enum",
};

/* Settings with a value in the sample file; it has all others in comments. */
static const struct {
	const char *name, *value;
} sample[] = {
    {"admin_users", "admin"},
    {"auth_file", "/etc/pgbouncer/userlist.txt"},
    {"auth_type", "md5"},
    {"listen_addr", "127.0.0.1"},
    {"listen_port", "6432"},
    {"logfile", "/var/log/pgbouncer/pgbouncer.log"},
    {"pidfile", "/run/pgbouncer/pgbouncer.pid"},
    {"pool_mode", "transaction"},
    {"stats_users", "stats"},
};

/* ---- Markdown ---- */

static void md_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (strchr("<*_[]", *text))
			fputc('\\', out);
		fputc(*text, out);
	}
}

/* The name of a setting that is not `own` and that begins here; NULL: there is none. */
static const struct setting *setting_named_at(const char *text, const char *own)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
	size_t len = strspn(text, letters);
	char name[64];

	/* words such as user and syslog are ordinary ones as well */
	if (len >= sizeof(name) || !memchr(text, '_', len))
		return NULL;
	memcpy(name, text, len);
	name[len] = '\0';
	return strcmp(name, own) == 0 ? NULL : setting_find(name);
}

/* A text in which the names of other settings lead to them. */
static void md_linked(FILE *out, const char *text, const char *own)
{
	bool is_start = true;

	while (*text) {
		char one[2] = {*text, '\0'};
		const struct setting *row =
		    is_start ? setting_named_at(text, own) : NULL;

		is_start = strchr(" (\"", *text) != NULL;
		if (!row) {
			md_text(out, one);
			text++;
			continue;
		}
		fputc('[', out);
		md_text(out, row->name);
		fprintf(out, "](#%s)", row->name);
		text += strlen(row->name);
	}
}

static void md_section(FILE *out, const char *title)
{
	fputs("\n### ", out);
	md_text(out, title);
	fputc('\n', out);
}

static void md_item(FILE *out, const char *term, const char *facts, const char *text)
{
	if (facts) {
		fprintf(out, "\n#### %s\n\n", term);
		md_text(out, facts);
		fputs("\n\n", out);
	} else {
		fprintf(out, "\n* `%s`: ", term);
	}
	md_linked(out, text, term);
	fputc('\n', out);
}

static void md_example(FILE *out, const char *name, const char *value, const char *link)
{
	fprintf(out, "\nExample: `%s = %s`", name, value);
	if (*link) {
		bool is_here = *link == '#';

		fprintf(out, "; more in [%.*s](%s)",
		    is_here ? (int)strlen(link) - 1 : (int)strcspn(link, "#"),
		    link + is_here, link);
	}
	fputs(".\n", out);
}

static const struct style markdown = {md_section, md_item, md_example};

/* ---- troff ---- */

static void man_text(FILE *out, const char *text)
{
	bool at_start = true;

	for (; *text; text++) {
		if (at_start && (*text == '.' || *text == '\''))
			fputs("\\&", out);
		at_start = *text == '\n';
		if (*text == '-')
			fputs("\\-", out);
		else if (*text == '\\')
			fputs("\\e", out);
		else if (*text == '\'')
			fputs("\\(aq", out);
		else
			fputc(*text, out);
	}
}

static void man_section(FILE *out, const char *title)
{
	fputs(".SS ", out);
	man_text(out, title);
	fputc('\n', out);
}

static void man_item(FILE *out, const char *term, const char *facts, const char *text)
{
	fputs(".TP\n\\fB", out);
	man_text(out, term);
	fputs("\\fR\n", out);
	if (facts) {
		man_text(out, facts);
		fputs("\n.br\n", out);
	}
	man_text(out, text);
	fputc('\n', out);
}

static void man_example(
    FILE *out, const char *name, const char *value, const char *link)
{
	(void)link;
	fprintf(out, ".br\nExample: %s = ", name);
	man_text(out, value);
	fputc('\n', out);
}

static const struct style troff = {man_section, man_item, man_example};

/* ---- the walk ---- */

/* Returns a text such as "Type: int.  Default: 20.  ...". */
static const char *facts_of(struct buf *b, const struct setting *row)
{
	buf_clear(b);
	buf_printf(b, "Type: %s", type_names[row->type]);
	if (row->words) {
		buf_put_text(b, " (");
		setting_put_words(b, row);
		buf_put_text(b, ")");
	}
	if (!row->default_text)
		buf_put_text(b, ". Default: not set.");
	else if (!*row->default_text)
		buf_put_text(b, ". Default: empty.");
	else
		buf_printf(b, ". Default: %s.", row->default_text);
	if (row->flags & RESTART)
		buf_put_text(b, " Changes need a restart.");
	static const char *const scopes[] = {
	    [LEVEL_GLOBAL] = "",
	    [LEVEL_DATABASE] = " Can be set per database",
	    [LEVEL_USER] = " Can be set per user",
	    [LEVEL_BOTH] = " Can be set per database and per user",
	};
	const char *key = entry_key_of(row);

	buf_put_text(b, scopes[row->level]);
	if (row->level != LEVEL_GLOBAL && strcmp(key, row->name) != 0)
		buf_printf(b, ", by the key %s", key);
	if (row->level != LEVEL_GLOBAL)
		buf_put_text(b, ".");
	/* tells where PgBouncer 1.25 does not know the setting */
	bool of_database =
	    row->level & LEVEL_DATABASE && !(row->flags & THEIR_DATABASE_KEY);
	bool of_user = row->level & LEVEL_USER && !(row->flags & THEIR_USER_KEY);

	if (row->flags & OURS)
		buf_put_text(b, " PgBouncer 1.25 does not know it.");
	else if (of_database || of_user)
		buf_printf(b, " PgBouncer 1.25 does not know it per %s%s%s.",
		    of_database ? "database" : "",
		    of_database && of_user ? " and per " : "", of_user ? "user" : "");
	return buf_text(b);
}

static void put_sentence(struct buf *b, const char *help)
{
	bool is_lower = help[0] >= 'a' && help[0] <= 'z';

	buf_put_u8(b, (uint8_t)(is_lower ? help[0] - 32 : help[0]));
	buf_printf(b, "%s. ", help + 1);
}

/* The examples, by the index of the setting. */
static const struct {
	const char *value, *link;
} examples[] = {
#define SETTING_EXAMPLE(name, value, link) [SETTING_INDEX_##name] = {value, link},
#include "docs/setting_examples.def"
#undef SETTING_EXAMPLE
};

/* Does each setting have an example, which is a value of it? */
static bool are_examples_good(void)
{
	struct arena *arena = arena_new();
	const struct setting *row;
	struct settings settings;
	bool is_good = true;
	struct err err;

	settings_defaults(&settings);
	for (size_t i = 0; (row = setting_at(i)); i++) {
		const char *value = examples[setting_index(row)].value;

		if (value && setting_parse(row, &settings, value, arena, &err) == 0)
			continue;
		fprintf(stderr, "setting_examples.def: %s: %s\n", row->name,
		    value ? err.text : "it has none");
		is_good = false;
	}
	arena_free(&arena);
	return is_good;
}

static void describe_group(
    FILE *out, const struct style *style, enum setting_group group)
{
	const struct setting *row;
	struct buf facts, text;

	style->section(out, group_titles[group]);
	for (size_t i = 0; (row = setting_at(i)); i++)
		if (row->group == group) {
			buf_init(&facts, 0);
			buf_init(&text, 0);
			put_sentence(&text, row->help);
			buf_put_text(&text, row->details);
			style->item(
			    out, row->name, facts_of(&facts, row), buf_text(&text));
			style->example(
			    out, row->name, examples[i].value, examples[i].link);
			buf_done(&text);
			buf_done(&facts);
		}
}

static void describe_keys(
    FILE *out, const struct style *style, const struct entry_key *(*key_at)(size_t i))
{
	const struct entry_key *key;
	struct buf text;

	buf_init(&text, 0);
	for (size_t i = 0; (key = key_at(i)); i++) {
		buf_clear(&text);
		put_sentence(&text, key->help);
		text.len--; /* removes the blank at the end */
		if (key->flags & KEY_OURS)
			buf_put_text(&text, " PgBouncer 1.25 does not know it.");
		style->item(out, key->key, NULL, buf_text(&text));
	}
	buf_done(&text);
}

static const char *own_rule(const struct setting *row)
{
	bool is_number = row->type == SETTING_INT || row->type == SETTING_TIME;

	if (row->flags & MAY_BE_EMPTY)
		return " '' means empty.";
	if (!is_number)
		return "";
	if (row->flags & ABOVE_ZERO)
		return row->type == SETTING_TIME
			   ? " Whole seconds; 0 or less leaves it to the next level."
			   : " 0 or less leaves it to the next level.";
	if (row->flags & BELOW_IS_ZERO)
		return " Whole seconds; a negative number means 0.";
	if (row->flags & FRACTIONS)
		return " Seconds, with a fraction or not; a negative number leaves it "
		       "to "
		       "the next level.";
	return row->type == SETTING_TIME
		   ? " Whole seconds; a negative number leaves it to the next level."
		   : " A negative number leaves it to the next level.";
}

/* Prints the settings that entries of this level can have. */
static void describe_own(FILE *out, const struct style *style, enum setting_level level)
{
	const struct setting *row;
	struct buf text;

	buf_init(&text, 0);
	for (size_t i = 0; (row = setting_at(i)); i++) {
		const char *other = entry_other_key_of(row);

		if (!(row->level & level))
			continue;
		buf_clear(&text);
		buf_printf(
		    &text, "Overrides the setting %s.%s", row->name, own_rule(row));
		if (other)
			buf_printf(&text, " %s is an older name of this key.", other);
		style->item(out, entry_key_of(row), NULL, buf_text(&text));
	}
	buf_done(&text);
}

/* ---- the sample file ---- */

static const char *sample_value(const char *name)
{
	for (size_t i = 0; i < sizeof(sample) / sizeof(sample[0]); i++)
		if (strcmp(sample[i].name, name) == 0)
			return sample[i].value;
	return NULL;
}

static void sample_setting(FILE *out, const struct setting *row)
{
	const char *unset = row->type == SETTING_STR ? "" : "0";
	const char *text = row->default_text ? row->default_text : unset;
	const char *value = sample_value(row->name);

	fprintf(out, "\n# %s%s\n", row->help, row->flags & RESTART ? " (restart)" : "");
	fprintf(out, ";%s =%s%s\n", row->name, *text ? " " : "", text);
	if (value)
		fprintf(out, "%s = %s\n", row->name, value);
}

static void describe_sample(FILE *out)
{
	const struct setting *row;

	fputs("[pgbouncer]\n", out);
	for (int group = 0; group < GROUP_COUNT; group++) {
		fprintf(out, "\n##\n## %s\n##\n", group_titles[group]);
		for (size_t i = 0; (row = setting_at(i)); i++)
			if (row->group == (enum setting_group)group)
				sample_setting(out, row);
	}
}

static const struct style *style_of(const char *as)
{
	if (strcmp(as, "md") == 0)
		return &markdown;
	return strcmp(as, "man") == 0 ? &troff : NULL;
}

int docs_settings(FILE *out, const char *as)
{
	const struct style *style = style_of(as);

	if (strcmp(as, "ini") == 0) {
		describe_sample(out);
		return 0;
	}
	if (!style || !are_examples_good())
		return -1;
	for (int group = 0; group < GROUP_COUNT; group++)
		describe_group(out, style, (enum setting_group)group);
	return 0;
}

int docs_databases(FILE *out, const char *as)
{
	const struct style *style = style_of(as);

	if (!style)
		return -1;
	describe_keys(out, style, entry_database_key);
	style->item(out, "param.NAME", NULL, param_help);
	describe_own(out, style, LEVEL_DATABASE);
	return 0;
}

int docs_users(FILE *out, const char *as)
{
	const struct style *style = style_of(as);

	if (!style)
		return -1;
	describe_own(out, style, LEVEL_USER);
	return 0;
}

int docs_peers(FILE *out, const char *as)
{
	const struct style *style = style_of(as);

	if (!style)
		return -1;
	describe_keys(out, style, entry_peer_key);
	return 0;
}
