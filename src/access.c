/*
 * Reads the HBA and ident files and tells what is wrong with them.  Their grammar is
 * auth's; who asks the rules is the login.
 */
#include "access.h"

#include <stdio.h>
#include <string.h>

#include "auth/ldap_options.h"
#include "base/text.h"

static void take_note(void *ctx, const char *where, const char *text)
{
	struct buf *notes = ctx;

	buf_put_str(notes, where);
	buf_put_str(notes, text);
}

/* Wrong options are no reason not to start: each login says so again. */
static void check_ldap(struct access *a, const char *options)
{
	struct ldap_options parsed;
	struct err err;

	if (!options)
		err_set(&err, "auth_type=ldap needs it: nobody can log in");
	else if (ldap_options_parse(&parsed, options, &err) == 0) {
		ldap_options_done(&parsed);
		return;
	}
	take_note(&a->notes, "auth_ldap_options", err.text);
}

void access_read(struct access *a, const struct settings *s)
{
	struct ident *ident = NULL;
	struct hba *hba;

	memset(a, 0, sizeof(*a));
	buf_init(&a->notes, 0);
	if (s->auth_type == AUTH_LDAP)
		check_ldap(a, s->auth_ldap_options);
	if (s->auth_type != AUTH_HBA)
		return;
	if (s->auth_ident_file && *s->auth_ident_file)
		ident =
		    ident_load(s->auth_ident_file, take_note, &a->notes, &a->no_ident);
	hba = hba_load(s->auth_hba_file, ident, take_note, &a->notes, &a->no_hba);
	if (!hba)
		hba = hba_parse(s->auth_hba_file, "", 0, ident, take_note, &a->notes);
	a->rules = rules_new(hba, ident);
}

void access_done(struct access *a)
{
	rules_unref(&a->rules);
	buf_done(&a->notes);
}

bool access_is_complete(const struct access *a)
{
	return !a->no_ident.text[0] && !a->no_hba.text[0];
}

bool access_is_other(const struct settings *a, const struct settings *b)
{
	static const char *const names[] = {
	    "auth_type", "auth_hba_file", "auth_ident_file", "auth_ldap_options"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!setting_is_equal(setting_find(names[i]), a, b))
			return true;
	return false;
}

/* The next note of the list; false at its end. */
static bool next_note(
    const struct access *a, size_t *at, const char **where, const char **text)
{
	const char *notes = (const char *)a->notes.bytes;

	if (*at >= a->notes.len)
		return false;
	*where = notes + *at;
	*at += strlen(*where) + 1;
	*text = notes + *at;
	*at += strlen(*text) + 1;
	return true;
}

/* The lines that log watchers know come first, then the place. */
void access_tell(const struct access *a, struct log *log)
{
	const char *where, *text;
	size_t at = 0;

	if (a->no_ident.text[0])
		log_error(log, "%s", a->no_ident.text);
	if (a->no_hba.text[0])
		log_error(log, "%s", a->no_hba.text);
	while (next_note(a, &at, &where, &text))
		log_warning(log, "%s\n%s", text, where);
}

unsigned access_print(const struct access *a, FILE *out)
{
	const char *where, *text, *before = "";
	unsigned lines = 0;
	size_t at = 0;

	while (next_note(a, &at, &where, &text)) {
		/* that the line could not be parsed says no more than why */
		if (strcmp(where, before) == 0 &&
		    text_has_prefix(text, "could not parse "))
			continue;
		fprintf(out, "%s: %s\n", where, text);
		before = where;
		lines++;
	}
	return lines;
}
