/*
 * Reads the roles that can log in from pg_authid by one query, and writes the list
 * under another name before it is renamed, so that no reader sees half of it.
 */
#include "tools/make_userlist.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/secret.h"
#include "auth/userlist.h"
#include "base/buf.h"
#include "base/mem.h"
#include "tools/libpq_entry.h"
#include "tools/pg_client.h"
#include "tools/terminal.h"

/* ---- the file ---- */

/* 1: the file exists; 0: it does not. */
static int look_at(const char *path, struct stat *st, struct err *err)
{
	if (stat(path, st) < 0)
		return errno == ENOENT
			   ? 0
			   : err_set(err, "cannot write %s: %s", path, strerror(errno));
	if (!S_ISREG(st->st_mode))
		return err_set(err, "%s is not a file: name another one", path);
	if (st->st_mode & S_IRWXO)
		return err_set(err,
		    "%s is open to every account that gets into its folder: first "
		    "chmod o-rwx %s",
		    path, path);
	return 1;
}

int make_userlist_check_file(const char *path, struct err *err)
{
	struct stat st;

	return look_at(path, &st, err) < 0 ? -1 : 0;
}

static int write_all(int fd, const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, bytes, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Copies owner and permissions from the file that is being replaced. */
static int take_after(int fd, const struct stat *st)
{
	if ((st->st_uid != geteuid() || st->st_gid != getegid()) &&
	    fchown(fd, st->st_uid, st->st_gid) < 0)
		return -1;
	return fchmod(fd, st->st_mode & 07777);
}

static int write_beside(const char *place, const struct stat *old, const void *bytes,
    size_t len, struct err *err)
{
	struct buf name;
	char *path;
	int fd, rc;

	buf_init(&name, 0);
	buf_printf(&name, "%s.XXXXXX", place);
	path = mem_strdup(buf_text(&name));
	buf_done(&name);
	fd = mkstemp(path); /* readable by its owner only */
	rc = fd;
	if (fd >= 0) {
		rc = (old && take_after(fd, old) < 0) ||
			     write_all(fd, bytes, len) < 0 || fsync(fd) < 0
			 ? -1
			 : 0;
		if (rc == 0)
			rc = rename(path, place);
	}
	if (rc < 0)
		err_set(err, "cannot write %s: %s", place, strerror(errno));
	if (rc < 0 && fd >= 0)
		unlink(path);
	if (fd >= 0)
		close(fd);
	mem_free(path);
	return rc < 0 ? -1 : 0;
}

int make_userlist_write_file(
    const char *path, const void *bytes, size_t len, struct err *err)
{
	struct stat st;
	int is_there = look_at(path, &st, err), rc;
	char *place;

	if (is_there < 0)
		return -1;
	/* a symbolic link is kept: the file that it points to is replaced */
	place = is_there ? realpath(path, NULL) : NULL;
	rc = write_beside(place ? place : path, is_there ? &st : NULL, bytes, len, err);
	free(place);
	return rc;
}

/* ---- roles of the server ---- */

/* All names have their schema, so that no search_path can redirect them. */
static const char query[] =
    "SELECT rolname, rolpassword, CASE WHEN rolvaliduntil OPERATOR(pg_catalog.<) "
    "pg_catalog.now() THEN rolvaliduntil END FROM pg_catalog.pg_authid "
    "WHERE rolcanlogin ORDER BY rolname";

/* ---- the list ---- */

static char *text_of(const uint8_t *value, size_t len)
{
	char *text;

	if (!value)
		return NULL;
	text = mem_alloc(len + 1);
	memcpy(text, value, len);
	text[len] = '\0';
	return text;
}

static void roles_done(struct roles *roles)
{
	for (size_t i = 0; i < roles->count; i++) {
		mem_free(roles->list[i].name);
		mem_free_secret(roles->list[i].secret);
		mem_free(roles->list[i].expired_at);
	}
	mem_free(roles->list);
	*roles = (struct roles){.list = NULL};
}

/* ---- the answer ---- */

static int take_row(void *ctx, const struct pg_client_row *row)
{
	struct roles *roles = ctx;
	struct role *role;

	if (row->count != 3 || !row->values[0])
		return -1;
	if (roles->count == roles->room) {
		size_t room = roles->room ? 2 * roles->room : 64;
		struct role *list = mem_zero(room * sizeof(*list));

		if (roles->count)
			memcpy(list, roles->list, roles->count * sizeof(*list));
		mem_free(roles->list);
		roles->list = list;
		roles->room = room;
	}

	role = &roles->list[roles->count++];
	role->name = text_of(row->values[0], row->lens[0]);
	role->secret = text_of(row->values[1], row->lens[1]);
	role->expired_at = text_of(row->values[2], row->lens[2]);
	return 0;
}

static int take_error(
    void *ctx, const char *user, const struct error_fields *fields, struct err *err)
{
	(void)ctx;
	if (strcmp(fields->sqlstate, SQLSTATE_INSUFFICIENT_PRIVILEGE) == 0)
		return err_set(err,
		    "role \"%s\" may not read pg_authid, where secrets are: log in as "
		    "a "
		    "superuser, or let one run GRANT SELECT ON pg_authid TO \"%s\"; "
		    "where nobody may, use auth_query with a function",
		    user, user);
	return err_set(
	    err, "the server refuses to tell its roles: %s", fields->message);
}

static const struct pg_client_ops reading_ops = {
    .row = take_row,
    .error = take_error,
};

/* ---- the server ---- */

static const struct libpq_defaults of_server = {.dbname = "postgres"};

/* Reads the roles.  Asks for a password on the terminal if the server wants one. */
static enum pg_client_answer ask_server(
    struct roles *roles, struct libpq_entry *entry, int verbose, struct err *err)
{
	enum pg_client_answer answer = pg_client_query(
	    buf_text(&entry->text), verbose, &reading_ops, roles, query, err);
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
	return pg_client_query(
	    buf_text(&entry->text), verbose, &reading_ops, roles, query, err);
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
		return make_userlist_write_file(
		    options->output, list->bytes, list->len, err);
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

	if (options->output && make_userlist_check_file(options->output, err) < 0)
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
