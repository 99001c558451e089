/*
 * Values that are missing in the string are taken from the environment variables that
 * libpq reads.
 */
#include "tools/libpq_entry.h"

#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"

/* ---- the password file ---- */

enum { NAME_MAX_LEN = 1024 };

static const char *home_folder(void)
{
	const char *home = text_or_null(getenv("HOME"));
	const struct passwd *account;

	if (home)
		return home;
	account = getpwuid(geteuid());
	return account ? account->pw_dir : NULL;
}

char *libpq_entry_passfile_path(void)
{
	const char *named = text_or_null(getenv("PGPASSFILE")), *home;
	struct buf path;
	char *copy;

	if (named)
		return mem_strdup(named);
	home = home_folder();
	if (!home)
		return NULL;
	buf_init(&path, 0);
	buf_printf(&path, "%s/.pgpass", home);
	copy = mem_strdup(buf_text(&path));
	buf_done(&path);
	return copy;
}

/* Reads one field of a line.  True: it matches. */
static bool take_field(const char **at, const char *wanted)
{
	const char *s = *at;
	bool fits = true;

	if (s[0] == '*' && s[1] == ':') {
		*at = s + 2;
		return true;
	}
	for (; *s && *s != ':'; s++) {
		if (*s == '\\' && s[1])
			s++;
		fits = fits && *wanted == *s;
		wanted += fits;
	}
	fits = fits && !*wanted && *s == ':';
	*at = *s ? s + 1 : s;
	return fits;
}

/* The text after the fourth colon; NULL: the line does not match. */
static char *secret_of_line(const char *line, const char *const wanted[4])
{
	bool fits = *line != '#';
	char *secret, *to;

	for (int i = 0; i < 4 && fits; i++)
		fits = take_field(&line, wanted[i]);
	if (!fits || !*line)
		return NULL;
	secret = to = mem_strdup(line);
	for (; *line; line++) {
		if (*line == '\\' && line[1])
			line++;
		*to++ = *line;
	}
	*to = '\0';
	return secret;
}

/* The password in a text of lines, which are cut in place; NULL: no line matches. */
static char *secret_in(char *text, const char *const wanted[4])
{
	char *secret = NULL;

	for (char *line; !secret && (line = strsep(&text, "\n"));) {
		size_t len = strlen(line);
		if (len && line[len - 1] == '\r')
			line[len - 1] = '\0';
		secret = secret_of_line(line, wanted);
	}
	return secret;
}

static char *secret_for_host(const char *file, size_t size,
    const struct passfile_key *key, const char *host, const char *port)
{
	const char *wanted[] = {host, port, key->dbname, key->user};
	char *text = mem_dup(file, size), *secret = secret_in(text, wanted);

	/* the default folders of sockets are called localhost in the file */
	bool is_usual_folder = strcmp(host, "/var/run/postgresql") == 0 ||
			       strcmp(host, "/run/postgresql") == 0 ||
			       strcmp(host, "/tmp") == 0;
	if (!secret && is_usual_folder) {
		memcpy(text, file, size);
		wanted[0] = "localhost";
		secret = secret_in(text, wanted);
	}
	mem_wipe(text, size);
	mem_free(text);
	return secret;
}

/* The next host of the list with its port.  If there are fewer ports, the last one is
 * used for all further hosts. */
static bool next_place(const char **hosts, const char **ports, char *host, char *port)
{
	const char *item;
	size_t item_len;

	if (!text_list_next(hosts, &item, &item_len))
		return false;
	snprintf(host, NAME_MAX_LEN, "%.*s", (int)item_len, item);
	if (text_list_next(ports, &item, &item_len))
		snprintf(port, NAME_MAX_LEN, "%.*s", (int)item_len, item);
	return true;
}

char *libpq_entry_find_password(
    const char *path, const struct passfile_key *key, struct err *err)
{
	char *file, *secret = NULL;
	char host[NAME_MAX_LEN], port[NAME_MAX_LEN] = "5432";
	const char *hosts = key->host, *ports = key->port;
	size_t len;
	struct stat st;

	err->text[0] = '\0';
	if (stat(path, &st) < 0)
		return NULL;
	if (!S_ISREG(st.st_mode)) {
		err_set(
		    err, "the password file %s is not a file: it is not used", path);
		return NULL;
	}
	if (st.st_mode & (S_IRWXG | S_IRWXO)) {
		err_set(err,
		    "the password file %s is not used, because other accounts may read "
		    "or write it: chmod 600 %s",
		    path, path);
		return NULL;
	}

	file = text_read_file(path, &len, err);
	if (!file) {
		err_prefix(err, "the password file %s cannot be read: ", path);
		return NULL;
	}
	while (!secret && next_place(&hosts, &ports, host, port))
		secret = secret_for_host(file, len + 1, key, host, port);
	mem_free_secret(file);
	return secret;
}

/* ---- connection strings of libpq ---- */

#define BLANKS " \t\r\n\v\f"

struct reader {
	conninfo_pair_fn *take;
	void *ctx;
	struct err *err;
};

static int give(const struct reader *r, const char *key, const char *value)
{
	return r->take(r->ctx, key, value, r->err);
}

/* ---- key=value ---- */

/* Cuts the value at *at, without its quotes; a backslash takes the next character
 * literally. */
static int cut_value(const struct reader *r, char **at, const char **value)
{
	char *from = *at, *to = *at;
	bool is_quoted = *from == '\'';

	from += is_quoted;
	*value = to;
	for (; *from; from++) {
		if (is_quoted ? *from == '\'' : strchr(BLANKS, *from) != NULL)
			break;
		if (*from == '\\' && from[1])
			from++;
		*to++ = *from;
	}
	if (is_quoted && !*from)
		return err_set(r->err, "a quoted value has no end");
	*at = *from ? from + 1 : from;
	*to = '\0';
	return 0;
}

static int read_pairs(const struct reader *r, char *at)
{
	const char *value;

	for (at += strspn(at, BLANKS); *at; at += strspn(at, BLANKS)) {
		char *key = at, *end = at + strcspn(at, "=" BLANKS);

		at = end + strspn(end, BLANKS);
		if (*at != '=' || end == key)
			return err_set(r->err,
			    "write key=value pairs with blanks between them, or "
			    "postgresql://USER@HOST/DATABASE");
		at++;
		at += strspn(at, BLANKS);
		*end = '\0';
		if (cut_value(r, &at, &value) < 0 || give(r, key, value) < 0)
			return -1;
	}
	return 0;
}

/* ---- URIs ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes %XX in place. */
static int decode(const struct reader *r, char *text)
{
	char *to = text;

	for (; *text; text++) {
		int high, low;

		if (*text != '%') {
			*to++ = *text;
			continue;
		}
		high = hex_digit(text[1]);
		low = high < 0 ? -1 : hex_digit(text[2]);
		if (low < 0 || high + low == 0)
			return err_set(r->err,
			    "%% in a URI must be followed by two hexadecimal digits "
			    "other than 00");
		*to++ = (char)(high * 16 + low);
		text += 2;
	}
	*to = '\0';
	return 0;
}

static int give_decoded(const struct reader *r, const char *key, char *value)
{
	if (!*value)
		return 0;
	return decode(r, value) < 0 ? -1 : give(r, key, value);
}

/* Cuts the text at the first of the characters `stops` and returns what follows it, or
 * NULL. */
static char *cut(char *text, const char *stops)
{
	char *stop = text + strcspn(text, stops);

	if (!*stop)
		return NULL;
	*stop = '\0';
	return stop + 1;
}

/* Appends HOST, HOST:PORT or [ADDRESS]:PORT to the two lists. */
static int add_place(const struct reader *r, char *place, struct buf *hosts,
    struct buf *ports, bool *has_port)
{
	const char *between = ports->len ? "," : "";
	char *port;

	if (*place == '[') {
		char *end = strchr(++place, ']');

		if (!end || (end[1] && end[1] != ':'))
			return err_set(
			    r->err, "write an IPv6 address in a URI as [::1]:5432");
		*end = '\0';
		port = end[1] ? end + 2 : NULL;
	} else {
		port = cut(place, ":");
	}
	if (decode(r, place) < 0)
		return -1;
	buf_printf(hosts, "%s%s", between, place);
	if (port && *port)
		*has_port = true;
	buf_printf(ports, "%s%s", between, port && *port ? port : "5432");
	return 0;
}

static int read_places(const struct reader *r, char *at)
{
	struct buf hosts, ports;
	bool has_port = false;
	int rc = 0;

	buf_init(&hosts, 0);
	buf_init(&ports, 0);
	for (char *next; rc == 0 && at && *at; at = next) {
		next = cut(at, ",");
		rc = add_place(r, at, &hosts, &ports, &has_port);
	}
	if (rc == 0 && hosts.len)
		rc = give(r, "host", buf_text(&hosts));
	if (rc == 0 && has_port)
		rc = give(r, "port", buf_text(&ports));
	buf_done(&hosts);
	buf_done(&ports);
	return rc;
}

/* Parses what follows "postgresql://". */
static int read_uri(const struct reader *r, char *at)
{
	char *options = cut(at, "?");
	char *database, *password, *at_sign;

	/* a password may contain an unescaped slash, although it should not */
	at_sign = strrchr(at, '@');
	if (at_sign) {
		char *user = at;

		*at_sign = '\0';
		at = at_sign + 1;
		password = cut(user, ":");
		if (give_decoded(r, "user", user) < 0 ||
		    (password && give_decoded(r, "password", password) < 0))
			return -1;
	}
	database = cut(at, "/");
	if (read_places(r, at) < 0 ||
	    (database && give_decoded(r, "dbname", database) < 0))
		return -1;
	for (char *next; options && *options; options = next) {
		char *value;

		next = cut(options, "&");
		value = cut(options, "=");
		if (!value)
			return err_set(
			    r->err, "write key=value pairs behind the ? of a URI");
		if (decode(r, options) < 0 || give_decoded(r, options, value) < 0)
			return -1;
	}
	return 0;
}

int libpq_entry_read_conninfo(
    const char *text, conninfo_pair_fn *take, void *ctx, struct err *err)
{
	static const char *const schemes[] = {"postgresql://", "postgres://"};
	const struct reader r = {take, ctx, err};
	char *copy = mem_strdup(text), *uri = NULL;
	int rc;

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (text_has_prefix(copy, schemes[i]))
			uri = copy + strlen(schemes[i]);
	rc = uri ? read_uri(&r, uri) : read_pairs(&r, copy);
	mem_wipe(copy, strlen(text));
	mem_free(copy);
	return rc;
}

/* Keys and their environment variables. */
enum {
	KEY_HOST,
	KEY_PORT,
	KEY_USER,
	KEY_DATABASE,
	KEY_PASSWORD,
	KEY_PASSFILE,
	KEY_SSLMODE,
	KEY_SSLROOTCERT
};

static const struct {
	const char *key, *variable;
} variables[] = {
    [KEY_HOST] = {"host", "PGHOST"},
    [KEY_PORT] = {"port", "PGPORT"},
    [KEY_USER] = {"user", "PGUSER"},
    [KEY_DATABASE] = {"dbname", "PGDATABASE"},
    [KEY_PASSWORD] = {"password", "PGPASSWORD"},
    [KEY_PASSFILE] = {"passfile", "PGPASSFILE"},
    [KEY_SSLMODE] = {"sslmode", "PGSSLMODE"},
    [KEY_SSLROOTCERT] = {"sslrootcert", "PGSSLROOTCERT"},
};

_Static_assert(
    sizeof(variables) / sizeof(variables[0]) == LIBPQ_ENTRY_KEYS, "one value for each");

void libpq_entry_init(struct libpq_entry *entry)
{
	*entry = (struct libpq_entry){.has_file_password = false};
	buf_init(&entry->text, 0);
}

void libpq_entry_done(struct libpq_entry *entry)
{
	for (size_t i = 0; i < LIBPQ_ENTRY_KEYS; i++)
		mem_free_secret(entry->values[i]);
	buf_wipe_done(&entry->text);
}

static void put_value(struct buf *text, const char *key, const char *value)
{
	buf_printf(text, "%s='",
	    strcmp(key, "connect_timeout") == 0 ? "server_connect_timeout" : key);
	for (; *value; value++) {
		if (*value == '\'')
			buf_put_u8(text, '\'');
		buf_put_u8(text, (uint8_t)*value);
	}
	buf_put_text(text, "' ");
}

static int put_pair(void *ctx, const char *key, const char *value, struct err *err)
{
	struct libpq_entry *entry = ctx;
	bool is_for_us = strcmp(key, variables[KEY_PASSFILE].key) == 0;
	int seconds;

	/* an empty value counts as missing */
	if (!*value)
		return 0;
	/* an entry of [databases] would take any text for a number */
	if (strcmp(key, "connect_timeout") == 0 && text_int(value, &seconds) < 0)
		return err_set(err,
		    "invalid integer value \"%.60s\" for connection option "
		    "\"connect_timeout\"",
		    value);
	for (size_t i = 0; i < LIBPQ_ENTRY_KEYS; i++)
		if (strcmp(variables[i].key, key) == 0) {
			mem_free_secret(entry->values[i]);
			entry->values[i] = mem_strdup(value);
		}
	if (!is_for_us)
		put_value(&entry->text, key, value);
	return 0;
}

static const char *default_of(const char *key, const struct libpq_defaults *defaults)
{
	if (strcmp(key, "host") == 0) {
		/* the folder of the server's socket: that of Debian's and Fedora's
		 * packages if it exists, else PostgreSQL's own default */
		static const char packaged[] = "/var/run/postgresql";
		return access(packaged, X_OK) == 0 ? packaged : "/tmp";
	}
	if (strcmp(key, "user") == 0) {
		const struct passwd *account = getpwuid(geteuid());
		return account ? account->pw_name : "postgres";
	}
	if (strcmp(key, "port") == 0)
		return defaults->port;
	return strcmp(key, "dbname") == 0 ? defaults->dbname : NULL;
}

/* ---- the password of an entry ---- */

static const char *value_of(const struct libpq_entry *entry, int key)
{
	return entry->values[key] ? entry->values[key] : "";
}

static void look_into_passfile(struct libpq_entry *entry)
{
	const struct passfile_key key = {.host = value_of(entry, KEY_HOST),
	    .port = value_of(entry, KEY_PORT),
	    .dbname = value_of(entry, KEY_DATABASE),
	    .user = value_of(entry, KEY_USER)};
	char *path = entry->values[KEY_PASSFILE], *secret;
	struct err err;

	if (!path)
		path = entry->values[KEY_PASSFILE] = libpq_entry_passfile_path();
	if (!path)
		return;
	secret = libpq_entry_find_password(path, &key, &err);
	if (secret) {
		libpq_entry_put(entry, variables[KEY_PASSWORD].key, secret);
		entry->has_file_password = true;
		mem_free_secret(secret);
	} else if (err.text[0]) {
		fprintf(stderr, "WARNING: %s\n", err.text);
	}
}

void libpq_entry_explain(const struct libpq_entry *entry, struct err *err)
{
	size_t len = strlen(err->text);

	if (entry->has_file_password && strstr(err->text, "authentication failed"))
		snprintf(err->text + len, sizeof(err->text) - len,
		    "\nthe password was taken from the file %s",
		    entry->values[KEY_PASSFILE]);
	else if (strstr(err->text, "FATAL not allowed"))
		snprintf(err->text + len, sizeof(err->text) - len,
		    ": the console is for the users in admin_users and stats_users");
}

/* ---- all of it ---- */

int libpq_entry_read(struct libpq_entry *entry, const char *conninfo,
    const struct libpq_defaults *defaults, struct err *err)
{
	if (libpq_entry_read_conninfo(conninfo, put_pair, entry, err) < 0)
		return -1;
	for (int i = 0; i < LIBPQ_ENTRY_KEYS; i++) {
		const char *value = text_or_null(getenv(variables[i].variable));

		if (entry->values[i])
			continue;
		if (!value || (i == KEY_DATABASE && defaults->is_console))
			value = default_of(variables[i].key, defaults);
		if (value)
			put_pair(entry, variables[i].key, value, err);
	}
	if (!entry->values[KEY_PASSWORD])
		look_into_passfile(entry);
	return 0;
}

void libpq_entry_put(struct libpq_entry *entry, const char *key, const char *value)
{
	(void)put_pair(entry, key, value, NULL);
}
