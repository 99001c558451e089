/*
 * Looks at what stands before each opening parenthesis, backwards from there.  Strings
 * and comments are not told apart from the rest: what looks like a call in them counts.
 */
#include "wire/sql_calls.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "wire/sql_hint.h"
#include "wire/sql_scan.h"

/* A name is longer than what is read of it. */
enum { NAME_MOST = 256 };

/* Words of SQL, types, and functions of pg_catalog that leave nothing behind in the
 * session.  In order. */
static const char *const harmless[] = {"abs", "age", "all", "and", "any", "array",
    "array_agg", "array_append", "array_cat", "array_length", "array_lower",
    "array_position", "array_positions", "array_prepend", "array_remove",
    "array_replace", "array_to_json", "array_to_string", "array_upper", "as", "avg",
    "between", "bit", "bit_and", "bit_length", "bit_or", "bool_and", "bool_or", "btrim",
    "by", "cardinality", "case", "cast", "ceil", "ceiling", "char", "char_length",
    "character", "character_length", "check", "chr", "clock_timestamp", "coalesce",
    "col_description", "concat", "concat_ws", "conflict", "copy", "corr", "count",
    "cross", "cube", "cume_dist", "current_database", "current_schema",
    "current_schemas", "current_setting", "date", "date_bin", "date_part", "date_trunc",
    "dec", "decimal", "decode", "default", "dense_rank", "distinct", "div", "else",
    "encode", "every", "except", "exists", "exp", "extract", "first_value", "float",
    "floor", "format", "format_type", "from", "gen_random_uuid", "generate_series",
    "generate_subscripts", "greatest", "group", "grouping", "has_column_privilege",
    "has_database_privilege", "has_schema_privilege", "has_sequence_privilege",
    "has_table_privilege", "having", "ilike", "in", "initcap", "insert", "intersect",
    "interval", "is", "isfinite", "join", "json_agg", "json_array_elements",
    "json_array_elements_text", "json_array_length", "json_build_array",
    "json_build_object", "json_each", "json_each_text", "json_extract_path",
    "json_extract_path_text", "json_object", "json_object_agg", "json_object_keys",
    "json_strip_nulls", "json_typeof", "jsonb_agg", "jsonb_array_elements",
    "jsonb_array_elements_text", "jsonb_array_length", "jsonb_build_array",
    "jsonb_build_object", "jsonb_each", "jsonb_each_text", "jsonb_extract_path",
    "jsonb_extract_path_text", "jsonb_insert", "jsonb_object", "jsonb_object_agg",
    "jsonb_object_keys", "jsonb_path_exists", "jsonb_path_query", "jsonb_pretty",
    "jsonb_set", "jsonb_strip_nulls", "jsonb_typeof", "lag", "last_value", "lateral",
    "lead", "least", "left", "length", "like", "limit", "ln", "localtimestamp", "log",
    "lower", "lpad", "ltrim", "make_date", "make_interval", "make_time",
    "make_timestamp", "make_timestamptz", "materialized", "max", "md5", "min", "mod",
    "mode", "nextval", "not", "now", "nth_value", "ntile", "nullif", "numeric",
    "obj_description", "octet_length", "offset", "on", "only", "operator", "or",
    "overlay", "percent_rank", "percentile_cont", "percentile_disc",
    "pg_advisory_xact_lock", "pg_advisory_xact_lock_shared", "pg_backend_pid",
    "pg_column_size", "pg_database_size", "pg_encoding_to_char",
    "pg_function_is_visible", "pg_get_constraintdef", "pg_get_expr",
    "pg_get_functiondef", "pg_get_indexdef", "pg_get_serial_sequence",
    "pg_get_triggerdef", "pg_get_userbyid", "pg_get_viewdef", "pg_indexes_size",
    "pg_is_in_recovery", "pg_my_temp_schema", "pg_notify", "pg_relation_size",
    "pg_size_pretty", "pg_sleep", "pg_table_is_visible", "pg_table_size",
    "pg_total_relation_size", "pg_try_advisory_xact_lock",
    "pg_try_advisory_xact_lock_shared", "pg_type_is_visible", "pg_typeof",
    "phraseto_tsquery", "plainto_tsquery", "position", "pow", "power", "primary",
    "quote_ident", "quote_literal", "quote_nullable", "random", "rank", "references",
    "regexp_match", "regexp_matches", "regexp_replace", "regexp_split_to_array",
    "regexp_split_to_table", "repeat", "replace", "returning", "reverse", "right",
    "rollup", "round", "row", "row_number", "row_to_json", "rpad", "rtrim", "select",
    "set", "setval", "setweight", "shobj_description", "sign", "some", "split_part",
    "sqrt", "statement_timestamp", "stddev", "stddev_pop", "stddev_samp", "string_agg",
    "string_to_array", "strpos", "substr", "substring", "sum", "symmetric", "then",
    "time", "timeofday", "timestamp", "timestamptz", "timetz", "timezone", "to_char",
    "to_date", "to_json", "to_jsonb", "to_number", "to_regclass", "to_regtype",
    "to_timestamp", "to_tsquery", "to_tsvector", "transaction_timestamp", "translate",
    "trim", "trunc", "ts_headline", "ts_rank", "ts_rank_cd", "txid_current", "union",
    "unique", "unnest", "upper", "using", "uuid_generate_v4", "values", "var_pop",
    "var_samp", "varbit", "varchar", "variance", "varying", "version",
    "websearch_to_tsquery", "when", "where", "width_bucket", "with", "within"};

/* Behind these words stands the name of a table, with its columns in parentheses. */
static const char *const before_table[] = {"into", "as", "copy", "recursive", "with"};

struct word {
	const char *at;
	size_t len;
};

static int compare(const void *key, const void *element)
{
	const struct word *word = key;
	const char *other = *(const char *const *)element;
	int order = strncasecmp(word->at, other, word->len);

	return order ? order : -(other[word->len] != '\0');
}

/* The end of what stands before `at`, without blanks.  NULL: it may be a comment. */
static const char *skip_back(const char *text, const char *at)
{
	bool has_break = false;

	for (; at > text && (at[-1] == ' ' || (at[-1] >= '\t' && at[-1] <= '\r')); at--)
		has_break |= at[-1] == '\n' || at[-1] == '\r';
	if (at - text >= 2 && at[-1] == '/' && at[-2] == '*')
		return NULL;
	for (const char *p = at; has_break && p - text >= 2; p--) {
		if (p[-1] == '-' && p[-2] == '-')
			return NULL;
		if (at - p > NAME_MOST)
			return NULL;
		if (p[-1] == '\n' || p[-1] == '\r')
			break;
	}
	return at;
}

/* The beginning of the name that ends here, with its schema; NULL: it is too long. */
static const char *skip_name(const char *text, const char *end)
{
	const char *at = end;

	while (at > text && end - at < NAME_MOST) {
		if (at[-1] == '"') {
			do
				at--;
			while (at > text && at[-1] != '"');
			at -= at > text;
		} else if (sql_is_of_name(at[-1]) || at[-1] == '.') {
			at--;
		} else {
			return at;
		}
	}
	return at == text ? at : NULL;
}

/* FILTER and OVER stand behind the call of an aggregate or window function. */
static bool is_behind_call(const char *text, const struct word *word)
{
	const char *end = skip_back(text, word->at);

	return end && end > text && end[-1] == ')' &&
	       ((word->len == 6 && strncasecmp(word->at, "filter", 6) == 0) ||
		   (word->len == 4 && strncasecmp(word->at, "over", 4) == 0));
}

static bool is_table(const char *text, const char *at)
{
	const char *end = skip_back(text, at);
	struct word word = {.at = end};

	if (!end)
		return false;
	while (word.at > text && sql_is_of_name(word.at[-1]))
		word.at--;
	word.len = (size_t)(end - word.at);
	for (size_t i = 0; i < sizeof(before_table) / sizeof(before_table[0]); i++)
		if (word.len == strlen(before_table[i]) &&
		    strncasecmp(word.at, before_table[i], word.len) == 0)
			return true;
	return false;
}

/* May the parenthesis here be that of a call of an unknown function? */
static bool may_be_call(const char *text, const char *at)
{
	static const char catalog[] = "pg_catalog.";
	enum { CATALOG = sizeof(catalog) - 1 };
	const char *end = skip_back(text, at), *begin;
	struct word word;

	if (!end)
		return true;
	if (end == text || !(sql_is_of_name(end[-1]) || end[-1] == '"'))
		return false;
	begin = skip_name(text, end);
	if (!begin)
		return true;
	word = (struct word){begin, (size_t)(end - begin)};
	if (word.len > CATALOG && strncasecmp(word.at, catalog, CATALOG) == 0)
		word = (struct word){begin + CATALOG, word.len - CATALOG};
	return !bsearch(&word, harmless, sizeof(harmless) / sizeof(harmless[0]),
		   sizeof(harmless[0]), compare) &&
	       !is_behind_call(text, &word) && !is_table(text, begin);
}

/* Does this word stand anywhere, whole or as a part of another? */
static bool has_word(
    const char *text, size_t len, const struct sql_hint *hint, const char *word)
{
	size_t size = strlen(word);

	if (!sql_hint_is_there(text, len, hint, 1))
		return false;
	for (const char *at = text; len >= size; at++, len--)
		if (strncasecmp(at, word, size) == 0)
			return true;
	return false;
}

bool sql_calls_may_notify(const char *text, size_t len)
{
	static const struct {
		struct sql_hint hint;
		const char *word;
	} changes[] = {{SQL_HINT('i', 'n', 's'), "insert"},
	    {SQL_HINT('u', 'p', 'd'), "update"}, {SQL_HINT('d', 'e', 'l'), "delete"},
	    {SQL_HINT('m', 'e', 'r'), "merge"}};
	static const struct sql_hint notify = SQL_HINT('g', '_', 'n'),
				     with = SQL_HINT('w', 'i', 't');
	bool has_with = has_word(text, len, &with, "with");

	for (size_t i = 0; has_with && i < sizeof(changes) / sizeof(changes[0]); i++)
		if (has_word(text, len, &changes[i].hint, changes[i].word))
			return true;
	return has_word(text, len, &notify, "pg_notify");
}

bool sql_calls_read_sequences(const char *text, size_t len)
{
	static const struct sql_hint current = SQL_HINT('r', 'v', 'a');
	static const struct sql_hint last = SQL_HINT('s', 't', 'v');

	return has_word(text, len, &current, "currval") ||
	       has_word(text, len, &last, "lastval");
}

bool sql_calls_has_escaped_name(const char *text, size_t len)
{
	const char *at = text, *end = text + len;

	while ((at = memchr(at, '&', (size_t)(end - at))) && at + 1 < end) {
		if (at > text && (at[-1] | 0x20) == 'u' && at[1] == '"')
			return true;
		at++;
	}
	return false;
}

bool sql_calls_may_be(const char *text, size_t len)
{
	/* an UPDATE of this view is a call of set_config() */
	static const struct sql_hint view = SQL_HINT('g', '_', 's');
	const char *end = text + strnlen(text, len), *at = text;

	if (has_word(text, (size_t)(end - text), &view, "pg_settings") ||
	    sql_calls_has_escaped_name(text, (size_t)(end - text)))
		return true;
	for (; (at = memchr(at, '(', (size_t)(end - at))); at++)
		if (may_be_call(text, at))
			return true;
	return false;
}
