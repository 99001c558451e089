/*
 * What libpq's programs take from the environment when the string does not say it is
 * taken from there, too.
 */
#include "daemon/libpq_entry.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "conf/conninfo.h"

void libpq_entry_init(struct libpq_entry *entry)
{
	*entry = (struct libpq_entry){.has = {false}};
	buf_init(&entry->text, 0);
}

void libpq_entry_done(struct libpq_entry *entry)
{
	buf_wipe_done(&entry->text);
}

/* Keys that have a variable of the environment. */
static const struct {
	const char *key, *variable;
} variables[] = {
    {"host", "PGHOST"},
    {"port", "PGPORT"},
    {"user", "PGUSER"},
    {"dbname", "PGDATABASE"},
    {"password", "PGPASSWORD"},
    {"sslmode", "PGSSLMODE"},
    {"sslrootcert", "PGSSLROOTCERT"},
};

_Static_assert(
    sizeof(variables) / sizeof(variables[0]) == LIBPQ_ENTRY_KEYS, "one flag for each");

static const char *key_of(const char *key)
{
	return strcmp(key, "connect_timeout") == 0 ? "server_connect_timeout" : key;
}

static int put_pair(void *ctx, const char *key, const char *value, struct err *err)
{
	struct libpq_entry *entry = ctx;

	(void)err;
	/* as if it had not been given */
	if (!*value)
		return 0;
	for (size_t i = 0; i < LIBPQ_ENTRY_KEYS; i++)
		if (strcmp(variables[i].key, key) == 0)
			entry->has[i] = true;
	buf_printf(&entry->text, "%s='", key_of(key));
	for (; *value; value++) {
		if (*value == '\'')
			buf_put_u8(&entry->text, '\'');
		buf_put_u8(&entry->text, (uint8_t)*value);
	}
	buf_put_text(&entry->text, "' ");
	return 0;
}

static const char *account_name(void)
{
	const struct passwd *account = getpwuid(geteuid());

	return account ? account->pw_name : "postgres";
}

/* Where Debian's and Fedora's packages put the socket, or else where PostgreSQL itself
 * does. */
static const char *socket_folder(void)
{
	static const char packaged[] = "/var/run/postgresql";

	return access(packaged, X_OK) == 0 ? packaged : "/tmp";
}

static const char *default_of(const char *key, const struct libpq_defaults *defaults)
{
	if (strcmp(key, "host") == 0)
		return socket_folder();
	if (strcmp(key, "user") == 0)
		return account_name();
	if (strcmp(key, "port") == 0)
		return defaults->port;
	return strcmp(key, "dbname") == 0 ? defaults->dbname : NULL;
}

int libpq_entry_read(struct libpq_entry *entry, const char *conninfo,
    const struct libpq_defaults *defaults, struct err *err)
{
	if (conninfo_read(conninfo, put_pair, entry, err) < 0)
		return -1;
	for (size_t i = 0; i < LIBPQ_ENTRY_KEYS; i++) {
		const char *value = text_or_null(getenv(variables[i].variable));

		if (entry->has[i])
			continue;
		if (!value)
			value = default_of(variables[i].key, defaults);
		if (value)
			put_pair(entry, variables[i].key, value, err);
	}
	return 0;
}

void libpq_entry_put(struct libpq_entry *entry, const char *key, const char *value)
{
	(void)put_pair(entry, key, value, NULL);
}
