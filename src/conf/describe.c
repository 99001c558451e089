/*
 * The tables as documents: the reference in Markdown, pgbouncer.ini(5) and the sample
 * file.  Reference and manual are the same walk in two styles.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "conf/entry.h"
#include "conf/setting_row.h"

/* How one kind of document is written. */
struct style {
	void (*begin)(FILE *out);
	void (*chapter)(FILE *out, const char *title);
	void (*section)(FILE *out, const char *title);
	void (*paragraph)(FILE *out, const char *text);
	void (*code)(FILE *out, const char *text); /* lines, each ended */
	/* a term with its explanation; facts may be NULL */
	void (*item)(FILE *out, const char *term, const char *facts, const char *text);
};

enum part_kind {
	CHAPTER,
	PARAGRAPH,
	CODE,
	SETTINGS, /* the table, by groups */
	DATABASE_KEYS,
	USER_KEYS,
	PEER_KEYS,
};

struct part {
	enum part_kind kind;
	const char *text;
};

static const struct part manual[] = {
    {CHAPTER, "FILE FORMAT"},
    {PARAGRAPH,
	"The file consists of sections, each opened by a line [name]. The sections are "
	"[pgbouncer], which must occur, [databases], [users] and [peers]; they may "
	"come in "
	"any order and may be repeated."},
    {PARAGRAPH,
	"Within a section, each line is key = value. The value reaches to the end of "
	"the "
	"line, without the blanks at its end, and is taken as it stands: no quotes, no "
	"continuation lines, no comments behind it. A key consists of letters, digits "
	"and "
	"the characters _ . - *; a key with other characters, such as a database name "
	"with "
	"a blank, is put in single quotes."},
    {PARAGRAPH,
	"A line whose first character other than blanks is ; or # is a comment."},
    {PARAGRAPH, "When a key is given twice, the later value counts. A database, user "
		"or peer given "
		"twice is replaced as a whole."},
    {PARAGRAPH, "A line %include FILE reads another file in its place. A relative name "
		"starts from "
		"the directory in which the pooler was started. Includes may be nested "
		"ten deep."},
    {PARAGRAPH,
	"Types of values: str is any text, also none. int and uint are whole numbers, "
	"decimal, hexadecimal with 0x, or octal with a leading 0. bool is 0 or 1; "
	"words such "
	"as on and off are errors. time is a number of seconds, fractions allowed, "
	"without "
	"a unit. enum is one of the words listed, in upper or lower case."},
    {PARAGRAPH,
	"An error anywhere in the file is reported with file and line. At start it "
	"ends the "
	"program; at RELOAD nothing is changed. The option --check-config reports all "
	"errors without starting anything."},
    {CHAPTER, "SECTION [pgbouncer]"},
    {PARAGRAPH,
	"Each [pgbouncer] line sets all settings back to their defaults. Unless a "
	"setting "
	"needs a restart, RELOAD takes over a changed value, and SET on the console "
	"changes "
	"it until the next RELOAD. A setting marked as having no effect in this "
	"version is "
	"read and checked, and a value other than the default is reported in the log."},
    {SETTINGS, NULL},
    {CHAPTER, "SECTION [databases]"},
    {PARAGRAPH, "Each line is name = connection string. The name is what clients ask "
		"for, at most "
		"63 bytes; pgbouncer is the console and cannot be used. The connection "
		"string is a "
		"list of key=value pairs separated by spaces; a value with spaces is "
		"put in single "
		"quotes, and a quote in it is doubled. It may be empty: then the "
		"database of the "
		"same name behind the local unix socket is meant."},
    {CODE,
	"[databases]\n"
	"orders =\n"
	"stock = host=db1.example.com port=5433 dbname=stock_v2\n"
	"report = host=db2,db3 user=reporter connect_query='SET work_mem = ''64MB'''\n"
	"* = host=db1.example.com\n"},
    {PARAGRAPH,
	"The name * is the template for names that are not listed: when a client asks "
	"for "
	"such a name, a database is made from it, by default with the same name on the "
	"server. It is dropped when it was unused for autodb_idle_timeout."},
    {PARAGRAPH, "At RELOAD, a changed entry takes effect at once. If host, port, "
		"dbname, user or "
		"another key that makes existing server connections wrong has changed, "
		"they are "
		"closed as they become free. Databases that are no longer listed are "
		"dropped, with "
		"their connections."},
    {DATABASE_KEYS, NULL},
    {CHAPTER, "SECTION [users]"},
    {PARAGRAPH,
	"Each line is name = key=value ..., with the grammar of connection strings. "
	"The "
	"values hold for this user only. Where a database has a forced user, sizes, "
	"mode "
	"and the limits of queries and transactions are those of the forced user."},
    {CODE, "[users]\n"
	   "batch = pool_mode=session pool_size=2 query_timeout=3600\n"
	   "web = max_user_connections=30\n"},
    {USER_KEYS, NULL},
    {CHAPTER, "SECTION [peers]"},
    {PARAGRAPH,
	"Poolers that serve the same address, for example with so_reuseport, name each "
	"other here, so that a cancel request finds the process that holds the "
	"connection. "
	"The key is the peer_id of the other process, 1 to 65535. The own one may be "
	"in the "
	"list, so that all processes can share a file. This section is read and "
	"checked but "
	"has no effect in this version."},
    {CODE, "[peers]\n"
	   "1 = host=/run/pgbouncer/1\n"
	   "2 = host=/run/pgbouncer/2\n"},
    {PEER_KEYS, NULL},
    {CHAPTER, "AUTHENTICATION FILE"},
    {PARAGRAPH, "The file named by auth_file has one line per user: the name and the "
		"secret, each "
		"in double quotes, a double quote within them doubled. The rest of the "
		"line is left "
		"alone. Lines that begin with ; are comments; # does not begin one."},
    {CODE, "\"web\" \"a password in clear text\"\n"
	   "\"batch\" \"md58f6b49f9e2a19ee297c011820b3a0852\"\n"
	   "\"report\" \"SCRAM-SHA-256$4096:SALT$STOREDKEY:SERVERKEY\"\n"},
    {PARAGRAPH, "A secret is an MD5 hash if it is md5 and 32 lower-case hexadecimal "
		"digits (the MD5 "
		"of password and user name, one after the other), a SCRAM secret if it "
		"has exactly "
		"PostgreSQL's form, and a password in clear text otherwise. Hashes can "
		"be copied "
		"from PostgreSQL's pg_authid."},
    {PARAGRAPH,
	"A password in clear text serves every method towards clients and servers. An "
	"MD5 "
	"hash serves md5 on both sides. A SCRAM secret lets clients log in with SCRAM, "
	"and "
	"the pooler then logs in to servers with the keys of that login if the server "
	"stores the same secret. An empty secret fits no password."},
    {PARAGRAPH, "Names may have 127 bytes. A line that cannot be understood is "
		"reported, and the "
		"rest of the file is not read. When a name occurs twice, the later "
		"line counts."},
};

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
    [SETTING_ENUM] = "enum",
};

/* What the sample file sets, besides everything else in comments. */
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

static void md_begin(FILE *out)
{
	fputs("<!-- Printed by pgbouncer --describe=settings --as=md; "
	      "the source are the tables in include/conf. -->\n\n"
	      "# Configuration reference\n",
	    out);
}

static void md_heading(FILE *out, const char *marks, const char *title)
{
	fprintf(out, "\n%s ", marks);
	md_text(out, title);
	fputc('\n', out);
}

/* Titles are written in capitals for manual pages. */
static void md_chapter(FILE *out, const char *title)
{
	char text[64];
	bool is_plain = strchr(title, '[') == NULL;
	size_t n = 0;

	for (; title[n] && n + 1 < sizeof(text); n++) {
		bool is_capital = title[n] >= 'A' && title[n] <= 'Z';

		text[n] = n > 0 && is_capital ? (char)(title[n] + 32) : title[n];
	}
	text[n] = '\0';
	if (is_plain)
		md_heading(out, "##", text);
	else
		fprintf(out, "\n## %.*s `%s`\n", (int)strcspn(text, " "), text,
		    strchr(text, '['));
}

static void md_section(FILE *out, const char *title)
{
	md_heading(out, "###", title);
}

static void md_paragraph(FILE *out, const char *text)
{
	fputc('\n', out);
	md_text(out, text);
	fputc('\n', out);
}

static void md_code(FILE *out, const char *text)
{
	fprintf(out, "\n```\n%s```\n", text);
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
	md_text(out, text);
	fputc('\n', out);
}

static const struct style markdown = {
    md_begin, md_chapter, md_section, md_paragraph, md_code, md_item};

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

static void man_begin(FILE *out)
{
	fputs(".\\\" Printed by pgbouncer --describe=settings --as=man; "
	      "the source are the tables in include/conf.\n"
	      ".TH PGBOUNCER.INI 5 \"\" PgBouncer \"File formats\"\n"
	      ".SH NAME\npgbouncer.ini \\- configuration file of pgbouncer\n"
	      ".SH DESCRIPTION\n"
	      "The file that is named on the command line of\n"
	      ".BR pgbouncer (1).\n"
	      "It is read at start, at RELOAD and on SIGHUP.\n",
	    out);
}

static void man_chapter(FILE *out, const char *title)
{
	fprintf(out, ".SH %s\n", title);
}

static void man_section(FILE *out, const char *title)
{
	fputs(".SS ", out);
	man_text(out, title);
	fputc('\n', out);
}

static void man_paragraph(FILE *out, const char *text)
{
	fputs(".PP\n", out);
	man_text(out, text);
	fputc('\n', out);
}

static void man_code(FILE *out, const char *text)
{
	fputs(".PP\n.RS 4\n.nf\n", out);
	man_text(out, text);
	fputs(".fi\n.RE\n", out);
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

static const struct style troff = {
    man_begin, man_chapter, man_section, man_paragraph, man_code, man_item};

/* ---- the walk ---- */

static void put_words(struct buf *b, const struct setting *row)
{
	for (long long i = 0; i <= row->max; i++)
		buf_printf(b, "%s%s", i ? ", " : " (", row->words[i]);
	buf_put_text(b, ")");
}

static void put_scopes(struct buf *b, const struct setting *row)
{
	unsigned scopes = row->flags & (PER_DB | PER_USER);

	if (scopes == (PER_DB | PER_USER))
		buf_put_text(b, " Can be set per database and per user.");
	else if (scopes == PER_DB)
		buf_put_text(b, " Can be set per database.");
	else if (scopes == PER_USER)
		buf_put_text(b, " Can be set per user.");
}

/* "Type: int. Default: 20. ..." */
static const char *facts_of(struct buf *b, const struct setting *row)
{
	buf_clear(b);
	buf_printf(b, "Type: %s", type_names[row->type]);
	if (row->words)
		put_words(b, row);
	if (!row->default_text)
		buf_put_text(b, ". Default: not set.");
	else if (!*row->default_text)
		buf_put_text(b, ". Default: empty.");
	else
		buf_printf(b, ". Default: %s.", row->default_text);
	if (row->flags & RESTART)
		buf_put_text(b, " Changes need a restart.");
	put_scopes(b, row);
	if (row->flags & LATER)
		buf_put_text(b, " No effect in this version.");
	return buf_text(b);
}

static void put_sentence(struct buf *b, const char *help)
{
	bool is_lower = help[0] >= 'a' && help[0] <= 'z';

	buf_put_u8(b, (uint8_t)(is_lower ? help[0] - 32 : help[0]));
	buf_printf(b, "%s. ", help + 1);
}

static void describe_setting(
    FILE *out, const struct style *style, const struct setting *row)
{
	struct buf facts, text;

	buf_init(&facts, 0);
	buf_init(&text, 0);
	put_sentence(&text, row->help);
	buf_put_text(&text, row->details);
	style->item(out, row->name, facts_of(&facts, row), buf_text(&text));
	buf_done(&text);
	buf_done(&facts);
}

static void describe_group(
    FILE *out, const struct style *style, enum setting_group group)
{
	const struct setting *row;

	style->section(out, group_titles[group]);
	for (size_t i = 0; (row = setting_at(i)); i++)
		if (row->group == group)
			describe_setting(out, style, row);
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
		text.len--; /* the blank at the end */
		style->item(out, key->key, NULL, buf_text(&text));
	}
	buf_done(&text);
}

static void describe_part(FILE *out, const struct style *style, const struct part *part)
{
	switch (part->kind) {
	case CHAPTER:
		style->chapter(out, part->text);
		break;
	case PARAGRAPH:
		style->paragraph(out, part->text);
		break;
	case CODE:
		style->code(out, part->text);
		break;
	case SETTINGS:
		for (int group = 0; group < GROUP_COUNT; group++)
			describe_group(out, style, (enum setting_group)group);
		break;
	case DATABASE_KEYS:
		describe_keys(out, style, database_key_at);
		break;
	case USER_KEYS:
		describe_keys(out, style, user_key_at);
		break;
	case PEER_KEYS:
		describe_keys(out, style, peer_key_at);
		break;
	}
}

static void describe_manual(FILE *out, const struct style *style)
{
	style->begin(out);
	for (size_t i = 0; i < sizeof(manual) / sizeof(manual[0]); i++)
		describe_part(out, style, &manual[i]);
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

	fprintf(out, "\n# %s%s%s\n", row->help,
	    row->flags & RESTART ? " (restart)" : "",
	    row->flags & LATER ? " (no effect in this version)" : "");
	fprintf(out, ";%s =%s%s\n", row->name, *text ? " " : "", text);
	if (value)
		fprintf(out, "%s = %s\n", row->name, value);
}

static void describe_sample(FILE *out)
{
	const struct setting *row;

	fputs("# Sample configuration of pgbouncer.  Lines with ; show the defaults.\n"
	      "# Every setting and key is explained in pgbouncer.ini(5).\n"
	      "\n[databases]\n\n"
	      "# name clients ask for = where it is\n"
	      "postgres = host=127.0.0.1 port=5432\n"
	      "\n# another name, log in as one user, a small pool\n"
	      ";report = host=db2.example.com dbname=stock user=reporter pool_size=5\n"
	      "\n# any other name: the same database on this server\n"
	      ";* = host=127.0.0.1\n"
	      "\n[users]\n\n"
	      ";batch = pool_mode=session max_user_connections=4\n"
	      "\n[peers]\n\n"
	      ";1 = host=/run/pgbouncer/1\n"
	      "\n[pgbouncer]\n",
	    out);
	for (int group = 0; group < GROUP_COUNT; group++) {
		fprintf(out, "\n##\n## %s\n##\n", group_titles[group]);
		for (size_t i = 0; (row = setting_at(i)); i++)
			if (row->group == (enum setting_group)group)
				sample_setting(out, row);
	}
}

int settings_describe(FILE *out, const char *as)
{
	if (strcmp(as, "md") == 0)
		describe_manual(out, &markdown);
	else if (strcmp(as, "man") == 0)
		describe_manual(out, &troff);
	else if (strcmp(as, "ini") == 0)
		describe_sample(out);
	else
		return -1;
	return 0;
}
