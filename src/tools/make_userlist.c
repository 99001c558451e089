/*
 * Reads the roles of the server and writes the list.
 */
#include "tools/make_userlist.h"

#include <stdio.h>
#include <string.h>

#include "auth/secret.h"
#include "auth/userlist.h"
#include "base/mem.h"
#include "tools/libpq_entry.h"
#include "tools/secret_file.h"
#include "tools/terminal.h"

/* ---- the server ---- */

static const struct libpq_defaults of_server = {.dbname = "postgres"};

/* Reads the roles.  Asks for a password on the terminal if the server wants one. */
static enum pg_client_answer ask_server(
    struct roles *roles, struct libpq_entry *entry, int verbose, struct err *err)
{
	enum pg_client_answer answer =
	    roles_read(roles, buf_text(&entry->text), verbose, err);
	struct err why;
	char *secret;

	if (answer != PG_CLIENT_PASSWORD_WANTED)
		return answer;
	secret = terminal_ask_secret("Password: ", &why);
	if (!secret) {
		err_set(err,
		    "the server asks for a password, but %s; PGPASSWORD or a "
		    "password file can hold it",
		    why.text);
		return PG_CLIENT_FAILED;
	}
	libpq_entry_put(entry, "password", secret);
	mem_free_secret(secret);
	return roles_read(roles, buf_text(&entry->text), verbose, err);
}

/* ---- the list ---- */

/* Writes a name into a comment, where it must not contain a line end. */
static void put_printable(struct buf *out, const char *text)
{
	for (; *text; text++)
		buf_put_u8(out, (uint8_t)*text < ' ' ? '?' : (uint8_t)*text);
}

/* Why the role is left out; NULL if it is not. */
static const char *obstacle(const struct role *role, enum secret_kind kind)
{
	if (strlen(role->name) > USERLIST_NAME_MAX)
		return "its name is too long";
	switch (kind) {
	case SECRET_NONE:
		return "it has no password";
	case SECRET_PLAIN:
	case SECRET_MALFORMED:
		return "its secret is neither SCRAM-SHA-256 nor MD5: set the password "
		       "again";
	case SECRET_MD5:
	case SECRET_SCRAM:
		break;
	}
	return role->expired_at ? "its password has expired" : NULL;
}

static bool put_role(struct buf *list, struct buf *left_out, const struct role *role)
{
	struct secret secret;
	const char *why;

	secret_init(&secret, role->secret);
	bool has_expired = role->expired_at && secret.kind != SECRET_NONE;
	why = obstacle(role, secret.kind);
	secret_done(&secret);
	if (!why) {
		userlist_put(list, role->name, role->secret);
		return true;
	}
	buf_put_text(list, "; \"");
	put_printable(list, role->name);
	buf_printf(list, "\" is left out: %s\n", why);
	buf_put_text(left_out, "role \"");
	put_printable(left_out, role->name);
	buf_printf(left_out, "\" is left out: %s%s%s\n", why,
	    has_expired ? ", VALID UNTIL " : "", has_expired ? role->expired_at : "");
	return false;
}

size_t make_userlist_put(
    struct buf *list, struct buf *left_out, const struct roles *roles)
{
	size_t count = 0;

	for (size_t i = 0; i < roles->count; i++)
		count += put_role(list, left_out, &roles->list[i]);
	return count;
}

/* ---- the command ---- */

/* Prints each line of the text on stderr, with the program's name. */
static void say(const struct options *options, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");

		fprintf(stderr, "%s: %.*s\n", options->program, (int)len, text);
		text += len;
		text += *text == '\n';
	}
}

static int write_list(const struct options *options, struct buf *list, struct err *err)
{
	if (list->failed)
		return err_set_row(err, ERROR_OUT_OF_MEMORY);
	if (options->output)
		return secret_file_write(options->output, list->bytes, list->len, err);
	fwrite(list->bytes, 1, list->len, stdout);
	if (fflush(stdout) != 0 || ferror(stdout))
		return err_set(err, "the list could not be written");
	return 0;
}

static int make(const struct options *options, struct libpq_entry *entry,
    struct roles *roles, struct err *err)
{
	struct buf list, left_out;
	size_t count;
	int rc;

	if (options->output && secret_file_check(options->output, err) < 0)
		return -1;
	if (libpq_entry_read(entry, options->conninfo, &of_server, err) < 0)
		return -1;
	if (ask_server(roles, entry, options->verbose, err) != PG_CLIENT_DONE) {
		libpq_entry_explain(entry, err);
		return -1;
	}
	buf_init(&list, 0);
	buf_init(&left_out, 0);
	count = make_userlist_put(&list, &left_out, roles);
	say(options, buf_text(&left_out));
	rc = count ? write_list(options, &list, err)
		   : err_set(err, "no role is left: nothing is written");
	buf_wipe_done(&list);
	buf_done(&left_out);
	return rc;
}

int make_userlist(const struct options *options)
{
	struct libpq_entry entry;
	struct roles roles = {.list = NULL};
	struct err err = {.text = ""};
	int rc;

	libpq_entry_init(&entry);
	rc = make(options, &entry, &roles, &err);
	if (rc < 0)
		say(options, err.text);
	libpq_entry_done(&entry);
	roles_done(&roles);
	return rc < 0 ? 1 : 0;
}
