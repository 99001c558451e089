/*
 * Values that are missing in the string are taken from the environment variables that
 * libpq reads.
 */
#include "tools/libpq_entry.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "conf/conninfo.h"
#include "tools/passfile.h"

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

/* ---- the password file ---- */

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
		path = entry->values[KEY_PASSFILE] = passfile_default_path();
	if (!path)
		return;
	secret = passfile_find(path, &key, &err);
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
	if (conninfo_read(conninfo, put_pair, entry, err) < 0)
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
