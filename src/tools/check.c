/*
 * Checks a configuration and the system that it is to run on, without opening a socket
 * or writing a file. conf/config_load checks the grammar of the file; the code here
 * checks what the values name: files, folders, addresses, accounts. What PgBouncer 1.25
 * does not know is looked for in the text, so that each place is told where it is
 * written.
 */
#include "tools/check.h"

#include <errno.h>
#include <grp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/kerberos.h"
#include "auth/secret.h"
#include "base/command_line.h"
#include "base/mem.h"
#include "base/text.h"
#include "conf/connstr.h"
#include "conf/entry.h"
#include "conf/ini.h"
#include "conf/setting_row.h"
#include "daemon/loaded_config.h"
#include "daemon/process.h"
#include "net/sock.h"
#include "tools/file_rights.h"

/* ---- what PgBouncer 1.25 does not know ---- */

enum section {
	SECTION_NONE,
	SECTION_SETTINGS,
	SECTION_DATABASES,
	SECTION_USERS,
};

struct looker {
	enum section section;
	unsigned found;
	bool has_missed; /* a file could not be read, which --check-config tells */
	FILE *out;       /* borrowed */
};

/* Where something is written; name is that of the entry. */
struct place {
	const char *file, *name;
	unsigned line;
};

static void tell(
    struct looker *l, const struct place *at, const char *key, const char *why)
{
	l->found++;
	fprintf(l->out, "%s:%u: ", at->file, at->line);
	if (l->section != SECTION_SETTINGS)
		fprintf(l->out, "%s: ", at->name);
	fprintf(l->out, "take out %s: %s\n", key, why);
}

static const struct setting *find_key(const char *key)
{
	const struct setting *row;

	for (size_t i = 0; (row = setting_at(i)); i++) {
		const char *other = entry_other_key_of(row);

		if (row->level != LEVEL_GLOBAL &&
		    (strcmp(entry_key_of(row), key) == 0 ||
			(other && strcmp(other, key) == 0)))
			return row;
	}
	return NULL;
}

static bool is_known_key(const struct looker *l, const char *key)
{
	const struct entry_key *own = entry_find_key(entry_database_key, key);
	const struct setting *row = find_key(key);

	if (l->section == SECTION_USERS)
		return row && row->flags & THEIR_USER_KEY;
	return own ? !(own->flags & KEY_OURS) : row && row->flags & THEIR_DATABASE_KEY;
}

static void look_at_pair(
    struct looker *l, const struct place *at, const char *key, const char *value)
{
	if (!is_known_key(l, key))
		tell(l, at, key,
		    l->section == SECTION_USERS
			? "PgBouncer 1.25 has no such key in [users]"
			: "PgBouncer 1.25 has no such key in [databases]");
	else if (strcmp(key, "port") == 0 && strchr(value, ','))
		tell(l, at, key, "PgBouncer 1.25 has one port for all hosts");
	else if (strcmp(key, "load_balance_hosts") == 0 &&
		 strcmp(value, "round-robin") != 0 && strcmp(value, "disable") != 0)
		tell(l, at, key,
		    "PgBouncer 1.25 has only round-robin, which is its default, and "
		    "disable");
}

static enum section section_of(const char *name)
{
	static const struct {
		const char *name;
		enum section section;
	} sections[] = {
	    {"pgbouncer", SECTION_SETTINGS},
	    {"databases", SECTION_DATABASES},
	    {"users", SECTION_USERS},
	};

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
		if (strcmp(sections[i].name, name) == 0)
			return sections[i].section;
	return SECTION_NONE;
}

static void look_at_value(
    struct looker *l, const char *file, const struct ini_item *item)
{
	struct place at = {file, item->name, item->line};
	const char *key, *value;

	if (l->section == SECTION_SETTINGS) {
		const struct setting *row = setting_find(at.name);

		if (row && row->flags & OURS)
			tell(l, &at, at.name, "PgBouncer 1.25 has no such setting");
	} else if (l->section != SECTION_NONE) {
		char *text = mem_strdup(item->value), *rest = text;

		while (connstr_next(&rest, &key, &value) > 0)
			look_at_pair(l, &at, key, value);
		/* it was cut at its keys and values */
		mem_wipe(text, strlen(item->value));
		mem_free(text);
	}
}

static void look_at_file(struct looker *l, const char *path, unsigned depth)
{
	struct ini_item item;
	struct err err;
	struct ini ini;
	size_t len;
	char *text =
	    depth <= INCLUDE_DEPTH_MAX ? text_read_file(path, &len, &err) : NULL;

	if (!text) {
		l->has_missed = true;
		return;
	}
	ini_init(&ini, text, len);
	while (ini_next(&ini, &item) != INI_END) {
		if (item.kind == INI_SECTION)
			l->section = section_of(item.name);
		else if (item.kind == INI_INCLUDE)
			look_at_file(l, item.value, depth + 1);
		else if (item.kind == INI_VALUE)
			look_at_value(l, path, &item);
	}
	mem_wipe(text, len);
	mem_free(text);
}

struct check {
	unsigned problems;

	/* borrowed */
	FILE *out;
	const struct options *options;
	const struct config *config;
	const struct settings *settings;
	const struct config_place *at; /* of what is being checked; NULL: a setting's */
};

/* ---- where a setting is written ---- */

static void put_place(const struct check *c, const char *setting)
{
	const struct config_place *at =
	    c->at ? c->at : config_place(c->config, setting_find(setting));

	if (at->file)
		fprintf(c->out, "%s:%u: ", at->file, at->line);
	else
		fprintf(c->out, "%s: ", c->options->file);
}

static void __attribute__((format(printf, 4, 0))) put_problem_at(
    struct check *c, const char *kind, const char *setting, const char *fmt, va_list ap)
{
	put_place(c, setting);
	fprintf(c->out, "%s%s: ", kind, setting);
	vfprintf(c->out, fmt, ap);
	fputc('\n', c->out);
}

/* A problem with the value of a setting. */
static void __attribute__((format(printf, 3, 4)))
problem(struct check *c, const char *setting, const char *fmt, ...)
{
	va_list ap;

	c->problems++;
	va_start(ap, fmt);
	put_problem_at(c, "", setting, fmt, ap);
	va_end(ap);
}

/* A warning: it may be intended. */
static void __attribute__((format(printf, 3, 4)))
warning(struct check *c, const char *setting, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	put_problem_at(c, "warning: ", setting, fmt, ap);
	va_end(ap);
}

/* ---- the file itself ---- */

static void put_problem(void *ctx, const char *where, const char *text)
{
	struct check *c = ctx;

	fprintf(c->out, "%s: %s\n", where, text);
}

static void put_warning(void *ctx, const char *where, const char *text)
{
	struct check *c = ctx;

	fprintf(c->out, "%s%swarning: %s\n", where, *where ? ": " : "", text);
}

/* ---- what it names ---- */

static void put_setting_place(void *ctx, const char *setting)
{
	put_place(ctx, setting);
}

/* Warns of rules that may be intended, but look as if something was forgotten. */
static void advise_rules(struct check *c, const struct hba *hba)
{
	const struct hba_rule *rule;

	if (hba_count(hba) == 0)
		warning(c, "auth_hba_file", "it has no rules: nobody can log in");
	if (c->settings->client_tls_sslmode != TLS_DISABLE)
		return;
	for (size_t i = 0; (rule = hba_rule_at(hba, i)); i++) {
		if (!text_has_prefix(rule->text, "hostssl"))
			continue;
		fprintf(c->out,
		    "%s:%u: warning: the rule never matches, because "
		    "client_tls_sslmode is disable\n",
		    rule->file, rule->line);
	}
}

static bool is_md5_only(const struct userlist *users)
{
	const struct secret *secret;
	const char *name;
	size_t at = 0;

	while (userlist_next(users, &at, &name, &secret))
		if (secret->kind != SECRET_MD5 && secret->kind != SECRET_NONE)
			return false;
	return userlist_count(users) > 0;
}

static void advise_name(struct check *c, const char *setting, const char *name,
    const struct userlist *users)
{
	if (!userlist_find(users, name))
		warning(c, setting, "user \"%s\" is not in auth_file", name);
}

static void advise_names(struct check *c, const char *setting, const char *names,
    const struct userlist *users)
{
	const char *at = names, *item;
	size_t len;

	while (at && text_list_next(&at, &item, &len)) {
		char *name = mem_dup(item, len + 1);

		name[len] = '\0';
		advise_name(c, setting, name, users);
		mem_free(name);
	}
}

/* Warns of names without a usable secret.  With auth_query only auth_user must be in
 * the list, because the query finds all others. */
static void advise_users(struct check *c, const struct userlist *users)
{
	const struct settings *s = c->settings;
	const char *auth_user = text_or_null(s->global.auth_user);
	const char *role_check_user = text_or_null(s->global.role_check_user);

	if (role_check_user)
		advise_name(c, "role_check_user", role_check_user, users);
	if (s->auth_type == AUTH_SCRAM && is_md5_only(users))
		warning(c, "auth_type",
		    "auth_file has MD5 secrets only: nobody in it can log in with "
		    "scram-sha-256");
	if (auth_user) {
		advise_name(c, "auth_user", auth_user, users);
		return;
	}
	advise_names(c, "admin_users", s->admin_users, users);
	advise_names(c, "stats_users", s->stats_users, users);
}

static void check_readable(struct check *c, const char *setting, const char *path)
{
	if (path && *path && access(path, R_OK) < 0)
		problem(c, setting, "cannot read %s: %s", path, strerror(errno));
}

/* Checks that a file can be created or replaced at this path. */
static void check_writable(struct check *c, const char *setting, const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	char *folder;

	if (!path || !*path || access(path, W_OK) == 0)
		return;
	if (errno != ENOENT) {
		problem(c, setting, "cannot write %s: %s", path, strerror(errno));
		return;
	}
	folder = mem_strdup(slash ? path : ".");
	if (slash)
		folder[slash == path ? 1 : slash - path] = '\0';
	if (access(folder, F_OK) < 0)
		problem(c, setting, "there is no folder %s: make it", folder);
	else if (access(folder, W_OK | X_OK) < 0)
		problem(c, setting, "cannot create files in %s: %s", folder,
		    strerror(errno));
	mem_free(folder);
}

/* Who writes a file of the configuration decides whom the pooler lets in, and where it
 * sends passwords. */
static void check_writers(struct check *c, const char *setting, const char *path)
{
	if (!(file_rights_of_others(path) & FILE_RIGHTS_WRITE))
		return;
	if (setting)
		warning(c, setting,
		    "other accounts can write %s: let only its owner do so (chmod)",
		    path);
	else
		put_warning(c, path,
		    "other accounts can write this file: let only its owner do so "
		    "(chmod)");
}

/* A file with keys or a password. */
static void check_secret_file(
    struct check *c, const char *setting, const char *what, const char *path)
{
	unsigned rights = file_rights_of_others(path);

	if (path && access(path, R_OK) < 0)
		problem(c, setting, "cannot read %s: %s", path, strerror(errno));
	if (rights & FILE_RIGHTS_WRITE)
		check_writers(c, setting, path);
	else if (rights)
		warning(c, setting,
		    "other accounts can read the %s in %s: leave it to the pooler's "
		    "own account or group (chmod, chgrp)",
		    what, path);
}

/* The program or file of one level that gives passwords for servers, and its keytab;
 * at: its entry, or NULL for [pgbouncer]. */
static void check_level(
    struct check *c, const struct level *level, const struct config_place *at)
{
	const char *command = text_or_null(level->server_password_command);
	static const char setting[] = "server_password_command";
	char **words = command ? command_line_words(command, NULL) : NULL;

	c->at = at;
	if (words && access(words[0], X_OK) < 0)
		problem(c, setting, "cannot run %s: %s", words[0], strerror(errno));
	if (words && (file_rights_of_others(words[0]) & FILE_RIGHTS_WRITE))
		check_writers(c, setting, words[0]);
	check_secret_file(c, "server_password_file", "password",
	    text_or_null(level->server_password_file));
	if (level->server_krb_keyfile)
		check_secret_file(c, "server_krb_keyfile", "keys",
		    kerberos_keytab_path(level->server_krb_keyfile));
	c->at = NULL;
	command_line_free(&words);
}

static void check_levels(struct check *c)
{
	const struct config *config = c->config;
	const struct database_config *template = config->template;
	struct database_config made;
	struct arena *arena = arena_new();

	check_level(c, &c->settings->global, NULL);
	for (size_t i = 0; i < config->database_count; i++) {
		const struct database_config *db = &config->databases[i];
		check_level(c, &db->own, &(struct config_place){db->file, db->line});
	}
	for (size_t i = 0; i < config->user_count; i++) {
		const struct user_config *user = &config->users[i];
		check_level(
		    c, &user->own, &(struct config_place){user->file, user->line});
	}
	if (template && entry_parse_connstr(&made, template->name, template->connstr,
			    arena, NULL) == 0) {
		check_level(c, &made.own,
		    &(struct config_place){template->file, template->line});
		mem_wipe_text(made.password);
	}
	arena_free(&arena);
}

static void check_rights(struct check *c)
{
	const struct settings *s = c->settings;
	unsigned rights = file_rights_of_others(s->auth_file);

	if (rights)
		warning(c, "auth_file",
		    "other accounts can %s the secrets in %s: leave it to the pooler's "
		    "own account or group (chmod, chgrp)",
		    rights & FILE_RIGHTS_WRITE ? "write" : "read", s->auth_file);
	check_secret_file(c, "krb_server_keyfile", "keys",
	    kerberos_keytab_path(s->krb_server_keyfile));
	check_writers(c, "auth_hba_file", s->auth_hba_file);
	check_writers(c, "auth_ident_file", s->auth_ident_file);
	for (const struct config_file *file = c->config->files; file; file = file->next)
		check_writers(c, NULL, file->path);
}

static void check_unix_dir(struct check *c)
{
	const char *dir = c->settings->unix_socket_dir;
	struct sock_target target;
	struct err err;
	struct stat st;
	int number;

	if (!dir || !*dir)
		return;
	if (sock_target_unix(&target, dir, c->settings->listen_port, &err) < 0)
		problem(c, "unix_socket_dir", "%s: use a shorter one", err.text);
	if (*dir == '@')
		return;
	if (stat(dir, &st) < 0)
		problem(
		    c, "unix_socket_dir", "cannot use %s: %s", dir, strerror(errno));
	else if (!S_ISDIR(st.st_mode))
		problem(c, "unix_socket_dir", "%s is not a folder", dir);
	else if (access(dir, W_OK | X_OK) < 0)
		problem(c, "unix_socket_dir", "cannot create a socket in %s: %s", dir,
		    strerror(errno));
	const char *group = c->settings->unix_socket_group;
	if (group && *group && text_int(group, &number) < 0 && !getgrnam(group))
		problem(c, "unix_socket_group", "there is no group \"%s\"", group);
}

static void check_listening(struct check *c)
{
	const struct settings *s = c->settings;
	const char *at = s->listen_addr, *item;
	size_t len;
	struct sock_addr addrs[8];
	struct err err;

	while (at && text_list_next(&at, &item, &len)) {
		char *name = mem_dup(item, len + 1);
		name[len] = '\0';
		if (sock_resolve_listen(
			name, c->settings->listen_port, addrs, 8, &err) < 0)
			problem(c, "listen_addr",
			    "%s: write an address of this machine", err.text);
		mem_free(name);
	}
	check_unix_dir(c);
	if ((!s->listen_addr || !*s->listen_addr) &&
	    (!s->unix_socket_dir || !*s->unix_socket_dir))
		problem(
		    c, "listen_addr", "nowhere to listen; set it, or unix_socket_dir");
}

unsigned check_loaded(
    FILE *out, const struct options *options, struct loaded_config *loaded)
{
	struct check c = {.out = out, .options = options};
	struct err err;

	c.problems =
	    config_check(options->file, put_problem, put_warning, &c, &loaded->config);
	c.config = loaded->config;
	c.settings = &loaded->config->settings;
	/* checks go on with the part of the file that could be read: they load what a
	 * start would load, in the same order and as the same user */
	loaded_config_load_named(loaded, NULL, AT_START);
	c.problems +=
	    diagnostics_print(&loaded->diagnostics, c.out, put_setting_place, &c);
	if (loaded->rules && c.settings->auth_type == AUTH_HBA &&
	    loaded->diagnostics.counts[DIAGNOSTIC_LOSS] == 0 &&
	    loaded->diagnostics.counts[DIAGNOSTIC_ERROR] == 0)
		advise_rules(&c, loaded->rules->hba);
	if (loaded->users)
		advise_users(&c, loaded->users);
	/* becomes the account that the pooler will run as, so that the checks see its
	 * permissions */
	const char *user = c.options->user ? c.options->user : c.settings->user;
	if (user && *user && process_switch_user(user, &err) < 0)
		problem(&c, "user", "%s", err.text);
	else if (getuid() == 0)
		put_warning(&c, c.options->file,
		    "the pooler does not run as root: set user, or start it as "
		    "another user");
	const struct settings *s = c.settings;
	check_writable(&c, "logfile", s->logfile);
	check_writable(&c, "pidfile", s->pidfile);
	check_readable(&c, "conffile", s->conffile);
	check_readable(&c, "resolv_conf", s->resolv_conf);
	if (c.options->is_daemon && (!s->pidfile || !*s->pidfile))
		problem(&c, "pidfile", "must be set for --daemon");
	check_rights(&c);
	check_levels(&c);
	check_listening(&c);
	if (!c.problems)
		fprintf(out, "%s: no problems\n", options->file);
	return c.problems;
}

unsigned check_config(FILE *out, const struct options *options)
{
	struct loaded_config loaded;
	unsigned problems;

	loaded_config_init(&loaded);
	problems = check_loaded(out, options, &loaded);
	loaded_config_done(&loaded);
	if (options->is_for_pgbouncer) {
		struct looker l = {.section = SECTION_NONE, .out = out};
		look_at_file(&l, options->file, 0);
		if (l.found == 0 && !l.has_missed)
			fprintf(out, "%s: nothing that PgBouncer 1.25 does not know\n",
			    options->file);
		problems += l.found;
	}
	return problems;
}
