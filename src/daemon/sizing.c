/*
 * An upper bound of the number of server connections.  Each pool has a limit, and so
 * have all pools of a database together, and all pools of a user together.  The bound
 * is the smaller one of two sums of minima: over the users, each with what their
 * limit and those of the databases allow; and over the databases, where those of one
 * user alone count together.  It is the exact number unless users and databases with
 * limits of both kinds are mixed so that each sum is too great somewhere.  Users with
 * the same settings form one class.
 */
#include "daemon/sizing.h"

#include <string.h>

#include "base/map.h"
#include "base/text.h"
#include "conf/entry.h"
#include "daemon/worker_threads.h"
#include "metrics/metrics.h"

/* Descriptors for listening sockets, log, event loop, name look-ups, helper threads,
 * and the spare ones for consoles. */
enum { OTHER_DESCRIPTORS = 40 };

struct class
{
	const char *name; /* borrowed; NULL: the class of users without a name in the
			     configuration */
	const struct level *own;
	int64_t count;
	bool is_listed; /* in the user list; auth_query, LDAP or PAM find the others */
};

/* A class whose user runs auth_query in some database. */
struct asker {
	const struct class *class;
	struct asker *next;
};

struct model {
	const struct sizing_input *input;
	struct map *by_name; /* struct class by its name */
	struct class *classes;
	size_t class_count;
	/* all databases; the template is the last one */
	const struct database_config **databases;
	size_t database_count;
	struct asker *askers; /* at most one for each database with auth_query */
	struct asker *
	    *asked; /* for each database: the classes that run auth_query there */
};

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t limited(int64_t n)
{
	return least(n, SIZING_NO_LIMIT);
}

static int64_t product(int64_t a, int64_t b)
{
	if (a == 0 || b == 0)
		return 0;
	return a > SIZING_NO_LIMIT / b ? SIZING_NO_LIMIT : limited(a * b);
}

/* A limit of the settings, where 0 and less mean no limit. */
static int64_t limit(int value)
{
	return value > 0 ? value : SIZING_NO_LIMIT;
}

/* ---- which users may use which database ---- */

static struct scope scope_for(const struct sizing_input *input,
    const struct database_config *db, const struct level *user)
{
	return (struct scope){
	    .user = user,
	    .database = db ? &db->own : NULL,
	    .settings = &input->config->settings,
	};
}

static bool is_query_used(const struct sizing_input *input)
{
	switch ((enum auth_type)input->config->settings.auth_type) {
	case AUTH_ANY:
	case AUTH_PAM:
	case AUTH_LDAP:
	case AUTH_OAUTH:
		return false;
	default:
		return true;
	}
}

static const char *auth_user_of(
    const struct sizing_input *input, const struct database_config *db)
{
	if (!is_query_used(input))
		return NULL;
	return text_or_null(scope_auth_user(scope_for(input, db, NULL)));
}

bool sizing_has_other_users(
    const struct sizing_input *input, const struct database_config *db)
{
	if (db->user || input->config->settings.auth_type == AUTH_ANY)
		return false;
	return input->has_external_auth || auth_user_of(input, db);
}

size_t sizing_listed_users(
    const struct sizing_input *input, const struct database_config *db)
{
	if (db->user || !input->users || input->config->settings.auth_type == AUTH_ANY)
		return 0;
	return userlist_count(input->users);
}

int64_t sizing_pool(struct scope scope)
{
	int size = scope_default_pool_size(scope);
	int reserve = scope_reserve_pool_size(scope);

	if (size <= 0)
		return SIZING_NO_LIMIT;
	return scope_reserve_pool_timeout(scope) && reserve > 0
		   ? (int64_t)size + reserve
		   : size;
}

/* ---- classes of users ---- */

static void add_named(struct model *m, const char *name)
{
	const struct user_config *own = config_user(m->input->config, name);
	struct class *class;

	if (map_get_str(m->by_name, name))
		return;
	class = &m->classes[m->class_count++];
	*class = (struct class){
	    .name = name,
	    .own = own ? &own->own : NULL,
	    .count = 1,
	    .is_listed = m->input->users && userlist_find(m->input->users, name),
	};
	map_put_str(m->by_name, name, class);
}

static void find_classes(struct model *m)
{
	const struct sizing_input *input = m->input;
	const struct config *c = input->config;
	int64_t unnamed = input->users ? (int64_t)userlist_count(input->users) : 0;

	m->classes =
	    mem_zero((c->user_count + 2 * m->database_count + 2) * sizeof(*m->classes));
	for (size_t i = 0; i < c->user_count; i++)
		add_named(m, c->users[i].name);
	for (size_t i = 0; i < m->database_count; i++) {
		const struct database_config *db = m->databases[i];
		const char *auth_user = auth_user_of(input, db);

		if (db->user)
			add_named(m, db->user);
		if (auth_user)
			add_named(m, auth_user);
	}
	for (size_t i = 0; i < m->class_count; i++)
		unnamed -= m->classes[i].is_listed;
	m->classes[m->class_count++] =
	    (struct class){.count = unnamed, .is_listed = true};
	m->classes[m->class_count++] = (struct class){.count = SIZING_NO_LIMIT};
}

/* ---- pools ---- */

/* The index of the database in which auth_query of this database runs;
 * m->database_count: none. */
static size_t query_database_of(const struct model *m, size_t asker)
{
	const struct database_config *db = m->databases[asker];
	const char *name =
	    text_or_null(scope_auth_dbname(scope_for(m->input, db, NULL)));
	const struct database_config *place =
	    name ? config_database(m->input->config, name) : db;

	if (name && place)
		return (size_t)(place - m->input->config->databases);
	if (name) /* it is made from the template, which is the last one */
		return m->database_count - (m->input->template ? 1 : 0);
	return asker;
}

static bool is_asked_as(const struct model *m, size_t db, const struct class *class)
{
	const struct asker *asker = m->asked[db];

	while (asker && asker->class != class)
		asker = asker->next;
	return asker;
}

/* How many users of the class may have a pool of this database. */
static int64_t users_of(
    const struct model *m, size_t i, const struct class *class, bool is_named)
{
	const struct database_config *db = m->databases[i];

	if (is_asked_as(m, i, class) ||
	    (db->user && class->name && strcmp(db->user, class->name) == 0))
		return 1;
	if (db->user || m->input->config->settings.auth_type == AUTH_ANY)
		return 0;
	if (class->is_listed || (!is_named && sizing_has_other_users(m->input, db)))
		return class->count;
	return 0;
}

static bool is_template(const struct model *m, const struct database_config *db)
{
	return db == m->input->template;
}

/* The greatest number of connections of all pools of a database and the users of a
 * class.  Any number of databases may be made from the template. */
static int64_t room_of(
    const struct model *m, size_t i, const struct class *class, bool is_named)
{
	const struct database_config *db = m->databases[i];
	int64_t users = users_of(m, i, class, is_named);

	if (is_template(m, db))
		return users && !is_named ? SIZING_NO_LIMIT : 0;
	return product(users, sizing_pool(scope_for(m->input, db, class->own)));
}

static int64_t class_limit(const struct model *m, const struct class *class)
{
	struct scope scope = scope_for(m->input, NULL, class->own);

	return product(class->count, limit(scope_max_user_connections(scope)));
}

/* ---- hosts ---- */

static const char *name_of(const struct model *m, const struct host_config *host)
{
	const char *dir = m->input->config->settings.unix_socket_dir;

	return host->host ? host->host : dir ? dir : "";
}

static bool has_host(const struct model *m, const struct database_config *db,
    const struct sizing_host *host)
{
	for (size_t i = 0; i < db->host_count; i++)
		if (db->hosts[i].port == host->port &&
		    strcmp(name_of(m, &db->hosts[i]), host->host) == 0)
			return true;
	return false;
}

/* The bound for this host, or for all hosts together (NULL).  If a database has several
 * hosts, each of them may get all its connections. */
static int64_t most_at(
    const struct model *m, const struct sizing_host *host, bool is_named)
{
	/* for each class: from all databases, and from those that it alone uses */
	int64_t *all = mem_zero(m->class_count * sizeof(*all));
	int64_t *alone = mem_zero(m->class_count * sizeof(*alone));
	int64_t by_user = 0, by_database = 0;

	for (size_t i = 0; i < m->database_count; i++) {
		const struct database_config *db = m->databases[i];
		int64_t limit_here = is_template(m, db)
					 ? SIZING_NO_LIMIT
					 : limit(scope_max_db_connections(
					       scope_for(m->input, db, NULL)));
		int64_t sum = 0, last = 0;
		size_t used_by = 0, last_class = 0;

		if (host && !has_host(m, db, host))
			continue;
		size_t u = 0, end = m->class_count;
		if (db->user && !m->asked[i]) {
			const struct class *own = map_get_str(m->by_name, db->user);
			u = (size_t)(own - m->classes);
			end = u + 1;
		}
		for (; u < end; u++) {
			int64_t room = room_of(m, i, &m->classes[u], is_named);

			if (room == 0)
				continue;
			used_by++;
			last_class = u;
			last = least(room, limit_here);
			all[u] = limited(all[u] + last);
			sum =
			    limited(sum + least(room, class_limit(m, &m->classes[u])));
		}
		if (used_by == 1)
			alone[last_class] = limited(alone[last_class] + last);
		else
			by_database = limited(by_database + least(sum, limit_here));
	}
	for (size_t u = 0; u < m->class_count; u++) {
		int64_t own = class_limit(m, &m->classes[u]);

		by_user = limited(by_user + least(own, all[u]));
		by_database = limited(by_database + least(own, alone[u]));
	}
	mem_free(all);
	mem_free(alone);
	return least(limit(m->input->config->settings.max_server_connections),
	    least(by_user, by_database));
}

static void note_host(
    struct sizing *s, struct map *known, struct arena *keys, const char *name, int port)
{
	struct sizing_host *host;
	struct buf key;

	buf_init_sure(&key);
	buf_printf(&key, "%d %s", port, name);
	host = map_get_str(known, buf_text(&key));
	if (!host) {
		host = &s->hosts[s->host_count++];
		*host = (struct sizing_host){.host = name, .port = port};
		map_put_str(known, arena_strdup(keys, buf_text(&key)), host);
	}
	buf_done(&key);
}

static void find_hosts(struct sizing *s, const struct model *m)
{
	struct map *known = map_new();
	struct arena *keys = arena_new();
	size_t most = 0;

	for (size_t i = 0; i < m->database_count; i++)
		most += m->databases[i]->host_count;
	s->hosts = mem_zero((most + 1) * sizeof(*s->hosts));
	for (size_t i = 0; i < m->database_count; i++) {
		const struct database_config *db = m->databases[i];

		for (size_t h = 0; h < db->host_count; h++)
			note_host(s, known, keys, name_of(m, &db->hosts[h]),
			    db->hosts[h].port);
	}
	map_free(&known);
	arena_free(&keys);
}

/* ---- descriptors ---- */

static void count_descriptors(struct sizing *s, const struct sizing_input *input)
{
	const struct config *c = input->config;
	const struct settings *settings = &c->settings;

	s->clients = settings->max_client_conn > 0 ? settings->max_client_conn : 0;
	s->others = OTHER_DESCRIPTORS + worker_threads_descriptors(input->workers) +
		    (long long)metrics_descriptors(settings);
	for (size_t i = 0; i < c->peer_count; i++) {
		int size = c->peers[i].pool_size;

		if (size < 0)
			size = settings->global.default_pool_size;
		if (c->peers[i].id != settings->peer_id)
			s->peers = limited(s->peers + limit(size));
	}
	s->descriptors = limited(s->clients + s->others + s->peers + s->servers.all);
}

int64_t sizing_descriptors(const struct sizing *s, bool *has_servers)
{
	*has_servers = s->descriptors < SIZING_NO_LIMIT;
	return *has_servers ? s->descriptors : s->clients + s->others + s->peers;
}

void sizing_input_init(struct sizing_input *input, const struct loaded_config *loaded)
{
	const struct hba *hba = loaded->rules ? loaded->rules->hba : NULL;
	int type = loaded->config->settings.auth_type;
	struct err ignored;

	*input = (struct sizing_input){
	    .config = loaded->config,
	    .users = loaded->users,
	    .workers = worker_threads_count(&loaded->config->settings),
	    .has_gss = hba && hba_find_method(hba, HBA_GSS),
	    .arena = arena_new(),
	};
	input->has_external_auth =
	    type == AUTH_PAM || type == AUTH_LDAP || type == AUTH_OAUTH ||
	    input->has_gss ||
	    (hba && (hba_find_method(hba, HBA_PAM) || hba_find_method(hba, HBA_LDAP) ||
			hba_find_method(hba, HBA_OAUTH)));
	if (loaded->config->template &&
	    entry_parse_connstr(&input->parsed_template, "*",
		loaded->config->template->connstr, input->arena, &ignored) == 0)
		input->template = &input->parsed_template;
}

void sizing_input_done(struct sizing_input *input)
{
	if (input->template) {
		mem_wipe_text(input->parsed_template.connstr);
		mem_wipe_text(input->parsed_template.password);
	}
	arena_free(&input->arena);
}

void sizing_init(struct sizing *s, const struct sizing_input *input)
{
	const struct config *c = input->config;
	struct model m = {.input = input, .by_name = map_new()};

	memset(s, 0, sizeof(*s));
	m.databases = mem_zero((c->database_count + 1) * sizeof(*m.databases));
	for (size_t i = 0; i < c->database_count; i++)
		m.databases[m.database_count++] = &c->databases[i];
	if (input->template)
		m.databases[m.database_count++] = input->template;
	find_classes(&m);
	m.askers = mem_zero((m.database_count + 1) * sizeof(*m.askers));
	m.asked = mem_zero((m.database_count + 1) * sizeof(struct asker *));
	for (size_t i = 0; i < m.database_count; i++) {
		const char *name = auth_user_of(m.input, m.databases[i]);
		const struct class *class = name ? map_get_str(m.by_name, name) : NULL;
		size_t place = query_database_of(&m, i);

		if (!class || is_asked_as(&m, place, class))
			continue;
		m.askers[i] = (struct asker){class, m.asked[place]};
		m.asked[place] = &m.askers[i];
	}
	if (!input->needs_no_hosts)
		find_hosts(s, &m);
	for (size_t i = 0; i < s->host_count; i++) {
		struct sizing_host *host = &s->hosts[i];

		for (size_t k = 0; k < m.database_count; k++)
			host->database_count += has_host(&m, m.databases[k], host);
		host->servers.named = most_at(&m, host, true);
		host->servers.all = most_at(&m, host, false);
	}
	s->servers.named = most_at(&m, NULL, true);
	s->servers.all = most_at(&m, NULL, false);
	count_descriptors(s, input);
	map_free(&m.by_name);
	mem_free(m.classes);
	mem_free(m.askers);
	mem_free(m.asked);
	mem_free(m.databases);
}

void sizing_done(struct sizing *s)
{
	mem_free(s->hosts);
	s->hosts = NULL;
}
