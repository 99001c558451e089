#include "tools/advice_access.h"

#include <string.h>

#include "auth/secret.h"
#include "base/text.h"
#include "conf/setting_row.h"
#include "pool/scopes.h"
#include "tools/file_rights.h"

static const struct config *config_of(const struct advice *a)
{
	return a->o->input->config;
}

static bool is_listed(const struct advice *a, const char *name)
{
	const struct userlist *users = a->o->input->users;

	return users && userlist_find(users, name);
}

/* ---- names ---- */

/* Is there a password or a ticket with which pools of the database log in as this user
 * (NULL: as somebody without an entry), besides password= of the entry? */
static bool has_password(
    const struct advice *a, const struct database_config *db, const char *user)
{
	const struct user_config *entry = user ? config_user(config_of(a), user) : NULL;
	const struct scope scope = {
	    .user = entry ? &entry->own : NULL,
	    .database = &db->own,
	    .settings = &config_of(a)->settings,
	};
	struct password_source source = scope_password_source(scope);

	return (user && is_listed(a, user)) || source.command || source.file ||
	       text_or_null(scope_server_krb_keyfile(scope));
}

/* Do logins to the database's servers have a user and a password? */
static void look_at_database(
    struct advice *a, const struct database_config *db, const char *file, unsigned line)
{
	const struct {
		const char *setting, *user;
		enum setting_index index;
	} own[] = {
	    {"auth_user", db->own.auth_user, SETTING_INDEX_auth_user},
	    {"role_check_user", db->own.role_check_user, SETTING_INDEX_role_check_user},
	};

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		const char *user = text_or_null(own[i].user);
		if (user && level_has(&db->own, own[i].index) &&
		    !has_password(a, db, user))
			advice_give_at(a, file, line,
			    "database %s: %s %s is not in auth_file: the server must "
			    "let it in without a password",
			    db->name, own[i].setting, user);
	}
	if (db->user && !db->password && !has_password(a, db, db->user))
		advice_give_at(a, file, line,
		    "database %s: user %s has no password here, nor one in auth_file: "
		    "the server must let it in without",
		    db->name, db->user);
	if (!db->user && a->o->input->has_gss && !has_password(a, db, NULL))
		advice_give_at(a, file, line,
		    "database %s: whom the method gss lets in has no password for the "
		    "server: set server_krb_keyfile, server_password_command or user=, "
		    "or the server must let it in without",
		    db->name);
}

static bool is_forced(const struct advice *a, const char *name)
{
	const struct config *c = config_of(a);

	for (size_t i = 0; i < c->database_count; i++)
		if (c->databases[i].user && strcmp(c->databases[i].user, name) == 0)
			return true;
	return a->o->input->template && a->o->input->template->user &&
	       strcmp(a->o->input->template->user, name) == 0;
}

/* May users log in whose names are in neither the configuration nor the user list? */
static bool has_other_users(const struct advice *a)
{
	const struct config *c = config_of(a);

	for (size_t i = 0; i < c->database_count; i++)
		if (sizing_has_other_users(a->o->input, &c->databases[i]))
			return true;
	return a->o->input->template &&
	       sizing_has_other_users(a->o->input, a->o->input->template);
}

static void look_at_names(struct advice *a)
{
	const struct config *c = config_of(a);
	const struct database_config *template = a->o->input->template;

	for (size_t i = 0; i < c->database_count; i++)
		look_at_database(
		    a, &c->databases[i], c->databases[i].file, c->databases[i].line);
	if (template)
		look_at_database(a, template, c->template->file, c->template->line);
	if (has_other_users(a))
		return;
	for (size_t i = 0; i < c->user_count; i++) {
		const struct user_config *user = &c->users[i];

		if (!is_listed(a, user->name) && !is_forced(a, user->name))
			advice_give_at(a, user->file, user->line,
			    "user %s is not in auth_file and cannot log in: the entry "
			    "has no effect",
			    user->name);
	}
}

/* ---- addresses ---- */

static bool is_of_this_machine(const char *item, size_t len)
{
	static const char *const names[] = {"127.", "::1", "localhost"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t n = strlen(names[i]);

		if (len >= n && memcmp(item, names[i], n) == 0)
			return true;
	}
	return false;
}

static bool is_open_to_network(const struct settings *s)
{
	const char *at = s->listen_addr, *item;
	size_t len;

	while (at && text_list_next(&at, &item, &len))
		if (!is_of_this_machine(item, len))
			return true;
	return false;
}

static void look_at_addresses(struct advice *a)
{
	const struct settings *s = &config_of(a)->settings;
	const struct setting *row = setting_find("auth_type");

	if (!is_open_to_network(s))
		return;
	if (s->auth_type == AUTH_ANY || s->auth_type == AUTH_TRUST)
		advice_give(a, row,
		    "auth_type is %s: whoever reaches listen_addr gets in without a "
		    "password",
		    setting_auth_type_name(s->auth_type));
	if ((s->auth_type == AUTH_PLAIN || s->auth_type == AUTH_PAM ||
		s->auth_type == AUTH_LDAP) &&
	    s->client_tls_sslmode < TLS_REQUIRE)
		advice_give(a, row,
		    "auth_type is %s: passwords come in clear text over the network "
		    "from clients without TLS; client_tls_sslmode=require keeps those "
		    "out",
		    setting_auth_type_name(s->auth_type));
}

/* ---- files ---- */

static bool is_readable_by_all(const char *path)
{
	return file_rights_of_all(path) & FILE_RIGHTS_READ;
}

static void look_at_user_list(struct advice *a)
{
	const char *path = config_of(a)->settings.auth_file;
	const struct userlist *users = a->o->input->users;
	const struct secret *secret;
	const char *name;
	size_t at = 0, secrets = 0, plain = 0;

	if (!users || !is_readable_by_all(path))
		return;
	while (userlist_next(users, &at, &name, &secret)) {
		secrets += secret->kind != SECRET_NONE;
		plain += secret->kind == SECRET_PLAIN;
	}
	if (secrets > 0)
		advice_give(a, setting_find("auth_file"),
		    "every account of this machine can read the secrets in %s, %zu of "
		    "them in plain text: chmod o-rwx %s",
		    path, plain, path);
}

static bool has_password_in(
    const struct config *c, const struct database_config *template, const char *path)
{
	const char *ldap = c->settings.auth_ldap_options;
	const struct config_place *place =
	    config_place(c, setting_find("auth_ldap_options"));

	for (size_t i = 0; i < c->database_count; i++)
		if (c->databases[i].password && strcmp(c->databases[i].file, path) == 0)
			return true;
	if (template && template->password && strcmp(c->template->file, path) == 0)
		return true;
	return ldap && strstr(ldap, "ldapbindpasswd") && place->file &&
	       strcmp(place->file, path) == 0;
}

static void look_at_ini_files(struct advice *a)
{
	const struct config *c = config_of(a);

	for (const struct config_file *file = c->files; file; file = file->next)
		if (has_password_in(c, a->o->input->template, file->path) &&
		    is_readable_by_all(file->path))
			advice_give(a, NULL,
			    "every account of this machine can read the passwords in "
			    "%s: chmod o-rwx %s",
			    file->path, file->path);
}

static void look_at_keys(struct advice *a)
{
	static const char *const names[] = {
	    "client_tls_key_file", "server_tls_key_file"};
	const struct settings *s = &config_of(a)->settings;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct setting *row = setting_find(names[i]);
		const char *path = setting_print(row, s, NULL, 0);

		if (is_readable_by_all(path))
			advice_give(a, row,
			    "every account of this machine can read the key in %s: "
			    "chmod o-rwx %s",
			    path, path);
	}
}

void advice_access_look(struct advice *a)
{
	look_at_names(a);
	look_at_addresses(a);
	look_at_user_list(a);
	look_at_ini_files(a);
	look_at_keys(a);
}
