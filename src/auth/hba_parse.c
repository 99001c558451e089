/*
 * Parses one line of an HBA file.  hba_names reads lists of names, hba_address
 * addresses.
 */
#include <string.h>

#include "auth/hba_rows.h"
#include "auth/ident.h"
#include "auth/kerberos.h"
#include "auth/ldap_options.h"

const char *hba_method_name(enum hba_method method)
{
	static const char *const names[] = {
	    [HBA_TRUST] = "trust",
	    [HBA_REJECT] = "reject",
	    [HBA_MD5] = "md5",
	    [HBA_PLAIN] = "password",
	    [HBA_PEER] = "peer",
	    [HBA_CERT] = "cert",
	    [HBA_SCRAM] = "scram-sha-256",
	    [HBA_LDAP] = "ldap",
	    [HBA_PAM] = "pam",
	    [HBA_OAUTH] = "oauth",
	    [HBA_GSS] = "gss",
	};

	return names[method];
}

static int parse_type(struct hba_row *row, struct rule_file *f, struct err *err)
{
	static const struct {
		const char *word;
		bool is_local;
		enum hba_tls tls;
	} types[] = {
	    {"local", true, HBA_TLS_ANY},
	    {"host", false, HBA_TLS_ANY},
	    {"hostssl", false, HBA_TLS_ONLY},
	    {"hostnossl", false, HBA_TLS_NEVER},
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		if (f->tokens.kind == TOKEN_WORD &&
		    strcmp(tokenizer_text(&f->tokens), types[i].word) == 0) {
			row->is_local = types[i].is_local;
			row->tls = types[i].tls;
			tokenizer_next(&f->tokens);
			return 0;
		}
	}
	return rule_file_error(f, err, "unknown type");
}

/* Copies the text between `from` and `to` without blanks at its ends. */
static char *copy_part(const struct rule_reader *r, const char *from, const char *to)
{
	static const char blanks[] = " \t\r\v\f";

	while (from < to && strchr(blanks, *from))
		from++;
	while (from < to && strchr(blanks, to[-1]))
		to--;
	return arena_strndup(r->arena, from, (size_t)(to - from));
}

/* -1: there is no method of this name. */
static int find_method(const char *name)
{
	for (int m = HBA_TRUST; m <= HBA_GSS; m++)
		if (strcmp(name, hba_method_name((enum hba_method)m)) == 0)
			return m;
	return -1;
}

static int parse_method(struct hba_row *row, struct rule_file *f, struct err *err)
{
	const char *text = tokenizer_text(&f->tokens), *host = row->address.name;
	int method = f->tokens.kind == TOKEN_WORD ? find_method(text) : -1;

	if (method >= 0) {
		row->rule.method = (enum hba_method)method;
		return 0;
	}
	/* it was read as the name of a host; an option may stand behind it */
	if (host && find_method(host) >= 0 &&
	    (f->tokens.kind == TOKEN_END || strchr(text, '=')))
		return rule_file_error(
		    f, err, "did not find address: %.200s stands in its place", host);
	return rule_file_error(f, err, "unsupported method: buf=%.200s", text);
}

/* The map, or the options of gss, from the current token on.  *end is moved behind
 * them. */
static int parse_options(struct hba_row *row, const struct ident *ident,
    const struct rule_reader *r, struct rule_file *f, const char **end, struct err *err)
{
	bool is_gss = row->rule.method == HBA_GSS;

	while (f->tokens.kind != TOKEN_END) {
		if (f->tokens.kind != TOKEN_WORD || row->rule.method == HBA_PAM)
			return rule_file_error(f, err, "unsupported parameters");
		const char *word = arena_strdup(r->arena, tokenizer_text(&f->tokens));
		const char *sign = strchr(word, '=');
		*end = f->tokens.at;
		if (tokenizer_next(&f->tokens) != TOKEN_END && !is_gss)
			return rule_file_error(f, err, "unsupported parameters");
		if (text_has_prefix(word, "map=") && word[4]) {
			if (!ident || !ident_has_map(ident, word + 4))
				return rule_file_error(f, err,
				    "Ident map %.200s is not found in ident config "
				    "file",
				    word + 4);
			row->rule.map = word + 4;
		} else if (!is_gss) {
			/* the text behind the "=" is not shown, because it may be a
			 * password */
			return rule_file_error(f, err,
			    "Ident map %.*s%s is malformed. It is not in map=value "
			    "format.",
			    sign ? (int)(sign + 1 - word) : (int)strlen(word), word,
			    sign && sign[1] ? "..." : "");
		} else if (text_has_prefix(word, "krb_realm=") && word[10]) {
			row->rule.realm = word + 10;
		} else if (strcmp(word, "include_realm=0") == 0 ||
			   strcmp(word, "include_realm=1") == 0) {
			row->rule.is_realm_left_out = word[14] == '0';
		} else {
			return rule_file_error(f, err,
			    "%.200s is no option of gss, which are include_realm=0, "
			    "include_realm=1, krb_realm=REALM and map=NAME",
			    word);
		}
	}
	return 0;
}

/* Checks the options now, so that an error is found by the reload and not by the first
 * login. */
static int parse_ldap(struct hba_row *row, const struct rule_reader *r,
    const struct rule_file *f, const char *at, struct err *err)
{
	const char *end = at, *text_end = (const char *)f->text.bytes + f->text.len;
	bool is_quoted = false, is_after_blank = true;
	struct ldap_options parsed;

	/* they end at a comment; a # inside a word or quotes is a part of an option */
	for (; end < text_end && (*end != '#' || is_quoted || !is_after_blank); end++) {
		if (*end == '"')
			is_quoted = !is_quoted;
		is_after_blank = strchr(" \t\r\v\f", *end);
	}
	row->rule.options = copy_part(r, at, end);
	if (ldap_options_parse(&parsed, row->rule.options, err) < 0)
		return err_prefix(err, "hba line %u: ", f->line);
	if (parsed.warning)
		rule_file_warn(r, f, parsed.warning);
	ldap_options_done(&parsed);
	return 0;
}

/* Reads issuer, scope, and map or delegate_ident_mapping, in any order.  *end: behind
 * the last one. */
static int parse_oauth(struct hba_row *row, const struct ident *ident,
    const struct rule_reader *r, struct rule_file *f, const char **end, struct err *err)
{
	struct hba_rule *rule = &row->rule;

	/* nobody could log in by it: tokens are accepted only inside TLS */
	if (row->is_local || row->tls == HBA_TLS_NEVER)
		return rule_file_error(
		    f, err, "the method oauth needs TLS: use hostssl, or host");
	for (; f->tokens.kind != TOKEN_END; tokenizer_next(&f->tokens)) {
		const char *word = arena_strdup(r->arena, tokenizer_text(&f->tokens));
		const char *sign = strchr(word, '=');
		int len = sign ? (int)(sign - word) : (int)strlen(word);
		const char *value = sign ? sign + 1 : "";
		*end = f->tokens.at;
		if (f->tokens.kind != TOKEN_WORD || !*value)
			return rule_file_error(f, err,
			    "authentication option not in name=value format: %.*s", len,
			    word);
		if (text_has_prefix(word, "issuer="))
			rule->issuer = value;
		else if (text_has_prefix(word, "scope="))
			rule->scope = value;
		else if (text_has_prefix(word, "delegate_ident_mapping="))
			rule->is_delegated = strcmp(value, "1") == 0;
		else if (!text_has_prefix(word, "map="))
			return rule_file_error(f, err,
			    "unrecognized authentication option name: \"%.*s\"", len,
			    word);
		else if (!ident || !ident_has_map(ident, value))
			return rule_file_error(f, err,
			    "Ident map %.200s is not found in ident config file",
			    value);
		else
			rule->map = value;
	}
	if (!rule->issuer || !rule->scope)
		return rule_file_error(
		    f, err, "the method oauth requires the options issuer and scope");
	if (!text_has_prefix(rule->issuer, "https://"))
		return rule_file_error(
		    f, err, "issuer has to begin with https://: %.200s", rule->issuer);
	if (rule->map && rule->is_delegated)
		return rule_file_error(
		    f, err, "map and delegate_ident_mapping do not go together");
	return 0;
}

/* Copies the rule's text for display, without a comment and without LDAP options, which
 * may contain a password. */
static int parse_method_and_rest(struct hba_row *row, const struct ident *ident,
    const struct rule_reader *r, struct rule_file *f, struct err *err)
{
	const char *line = (const char *)f->text.bytes;

	if (parse_method(row, f, err) < 0)
		return -1;
	const char *end = f->tokens.at;
	if (row->rule.method == HBA_LDAP) {
		if (parse_ldap(row, r, f, end, err) < 0)
			return -1;
	} else {
		if (row->rule.method == HBA_GSS && !kerberos_is_built())
			return rule_file_error(
			    f, err, "gss is not supported by this build");
		if (row->rule.method == HBA_GSS && row->is_local)
			return rule_file_error(f, err,
			    "gssapi authentication is not supported on local sockets");
		tokenizer_next(&f->tokens);
		int rc = row->rule.method == HBA_OAUTH
			     ? parse_oauth(row, ident, r, f, &end, err)
			     : parse_options(row, ident, r, f, &end, err);
		if (rc < 0)
			return -1;
	}
	row->rule.text = copy_part(r, line, end);
	return 0;
}

int hba_row_parse(struct hba_row *row, const struct ident *ident,
    const struct rule_reader *r, struct rule_file *f, struct err *err)
{
	row->rule.file = f->path;
	row->rule.line = f->line;
	if (parse_type(row, f, err) < 0 ||
	    hba_names_parse(&row->databases, HBA_DATABASE, r, f, err) < 0 ||
	    hba_names_parse(&row->users, HBA_USER, r, f, err) < 0)
		return -1;
	if (!row->is_local && hba_address_parse(&row->address, r, f, err) < 0)
		return -1;
	if (parse_method_and_rest(row, ident, r, f, err) < 0)
		return -1;
	if (row->rule.method == HBA_REJECT && !row->is_local)
		hba_address_apply_mask(&row->address);
	return 0;
}

void hba_row_done(struct hba_row *row)
{
	hba_names_done(&row->databases);
	hba_names_done(&row->users);
	if (row->rule.options)
		mem_wipe(
		    (char *)(uintptr_t)row->rule.options, strlen(row->rule.options));
}
