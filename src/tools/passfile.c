/*
 * Searches password files.  Copies of their contents are wiped.
 */
#include "tools/passfile.h"

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

char *passfile_default_path(void)
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

char *passfile_find(const char *path, const struct passfile_key *key, struct err *err)
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
