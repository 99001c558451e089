#include "login/startup.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "wire/codec.h"
#include "wire/kept_settings.h"
#include "wire/message.h"

enum { NAME_MOST = 63 }; /* the longest name in PostgreSQL */

void startup_init(struct startup *s, uint32_t version)
{
	memset(s, 0, sizeof(*s));
	s->version = version;
}

void startup_forget_unsupported(struct startup *s)
{
	for (size_t i = 0; i < s->unsupported_count; i++)
		mem_free(s->unsupported[i]);
	mem_free(s->unsupported);
	s->unsupported = NULL;
	s->unsupported_count = 0;
}

void startup_done(struct startup *s)
{
	startup_forget_unsupported(s);
	mem_free(s->untracked);
	mem_free(s->user);
	mem_free(s->sent_user);
	mem_free(s->database);
}

/* There is no version 3.1; a client that asks for a newer version than the pooler knows
 * gets the newest that it knows. */
uint32_t startup_protocol(const struct startup *s)
{
	return s->version >= PROTOCOL_3_2 ? PROTOCOL_3_2 : PROTOCOL_3_0;
}

bool startup_needs_negotiation(const struct startup *s)
{
	return s->version != startup_protocol(s) || s->unsupported_count > 0;
}

static int find_named(const struct client *client, const char *name)
{
	const struct vars_schema *schema = client->conn.site->vars;
	int i = vars_schema_find(schema, name);
	return i >= 0 && vars_schema_is_named(schema, (size_t)i) ? i : -1;
}

static int set_tracked(struct client *client, int i, const char *value)
{
	if (i < EFFECTS_PARAMETERS)
		client->params.requested = client->params.own |= UINT64_C(1) << i;
	if (vars_set(&client->params.vars, (size_t)i, value) == 0)
		return 0;
	client_fatal(client, ERROR_OUT_OF_MEMORY);
	return -1;
}

static const char *ignored_list(const struct client *client)
{
	return site_settings(client->conn.site)->ignore_startup_parameters;
}

/* ---- parameters that are not tracked ---- */

static int refuse(
    struct client *client, const char *name, const char *value, bool is_option)
{
	char word[LOG_WORD];

	conn_log(&client->conn, LEVEL_WARNING | KIND_PROTOCOL,
	    "unsupported startup parameter%s: %s=%s", is_option ? " in options" : "",
	    name, conn_log_word(&client->conn, word, value));
	client_fatal(client,
	    is_option ? ERROR_UNSUPPORTED_OPTION : ERROR_UNSUPPORTED_PARAMETER,
	    log_word(word, name));
	return -1;
}

/* With session_state=keep they are settings of the client.  Whether that is in force
 * for it is known when its database is. */
static int set_untracked(struct client *client, struct startup *s, const char *name,
    const char *value, bool is_option)
{
	size_t len = strlen(name) + 1;
	char *read = mem_strdup(name);
	const struct vars_schema *schema = client->conn.site->vars;
	int failed, known;

	/* PostgreSQL reads options so */
	for (char *at = read; is_option && *at; at++)
		if (*at == '-')
			*at = '_';
	failed = client->replication
		     ? -1
		     : kept_settings_set(&client->params.startup, read, value);
	/* one that servers report is told from the start */
	known = failed ? -1 : vars_schema_find(schema, read);
	mem_free(read);
	if (failed)
		return refuse(client, name, value, is_option);
	if (known >= 0 && vars_schema_may_be_set(schema, (size_t)known) &&
	    set_tracked(client, known, value) < 0)
		return -1;
	if (s->untracked)
		return 0;
	s->untracked = mem_alloc(len + strlen(value) + 1);
	memcpy(s->untracked, name, len);
	memcpy(s->untracked + len, value, strlen(value) + 1);
	s->is_option = is_option;
	return 0;
}

int startup_check_untracked(
    struct client *client, const struct startup *s, const struct scope *scope)
{
	if (!s->untracked ||
	    (scope && scope_session_state(*scope) == SESSION_STATE_KEEP &&
		scope_pool_mode(*scope) != POOL_MODE_SESSION))
		return 0;
	return refuse(client, s->untracked, s->untracked + strlen(s->untracked) + 1,
	    s->is_option);
}

/* ---- options ---- */

/* Reads one word of the options string; a backslash quotes the next character.  Returns
 * the length of the word, -1 at the end. */
static int next_word(const char **at, struct buf *word)
{
	const char *p = *at;
	buf_clear(word);
	while (*p == ' ' || (*p >= '\t' && *p <= '\r'))
		p++;
	if (!*p)
		return -1;
	while (*p && *p != ' ' && !(*p >= '\t' && *p <= '\r')) {
		if (*p == '\\' && p[1])
			p++;
		buf_put_u8(word, (uint8_t)*p++);
	}
	*at = p;
	return (int)word->len;
}

static int apply_option(struct client *client, struct startup *s, char *setting)
{
	const char *ignored = ignored_list(client);
	char *value = strchr(setting, '=');
	int i;

	if (!value) {
		client_fatal(client, ERROR_UNSUPPORTED_OPTIONS);
		return -1;
	}
	*value++ = '\0';
	i = find_named(client, setting);
	if (i >= 0)
		return set_tracked(client, i, value);
	if (text_list_has(ignored, setting) || text_list_has(ignored, "options"))
		return 0;
	return set_untracked(client, s, setting, value, true);
}

/* `-c name=value`, `-cname=value`, `--name=value`. */
static int read_options(struct client *client, struct startup *s, const char *options)
{
	const char *at = options;
	struct buf word;
	int result = 0;

	buf_init(&word, 0);
	while (result == 0 && next_word(&at, &word) >= 0) {
		const char *text = buf_text(&word);
		char *setting;
		if (strcmp(text, "-c") == 0) {
			if (next_word(&at, &word) < 0) {
				client_fatal(client, ERROR_UNSUPPORTED_OPTIONS);
				result = -1;
				break;
			}
			text = buf_text(&word);
		} else if (strncmp(text, "-c", 2) == 0 || strncmp(text, "--", 2) == 0) {
			text += 2;
		} else {
			client_fatal(client, ERROR_UNSUPPORTED_OPTIONS);
			result = -1;
			break;
		}
		setting = mem_strdup(text);
		result = apply_option(client, s, setting);
		mem_free(setting);
	}
	buf_done(&word);
	return result;
}

/* ---- parameters ---- */

/* Finds the parameter wherever it is, because it decides which options are allowed: so
 * the packet is read twice, however many options it has. */
static void find_replication(struct client *client, struct cursor c)
{
	struct startup_param p;

	while (codec_next_param(&c, &p) == 1)
		if (strcmp(p.name, "replication") == 0)
			client->replication =
			    strcmp(p.value, "database") == 0 ? REPLICATION_LOGICAL
			    : codec_bool_word(p.value) == 1  ? REPLICATION_PHYSICAL
							     : REPLICATION_NONE;
}

static void replace(char **to, const char *text)
{
	mem_free(*to);
	*to = mem_strdup(text);
}

static int read_param(
    struct client *client, struct startup *s, const struct startup_param *p)
{
	int i;

	if (strcmp(p->name, "user") == 0) {
		replace(&s->user, p->value);
		return 0;
	}
	if (strcmp(p->name, "database") == 0) {
		replace(&s->database, p->value);
		return 0;
	}
	if (strcmp(p->name, "replication") == 0)
		return 0; /* find_replication has read it */
	if (strcmp(p->name, "options") == 0) {
		if (!client->replication)
			return read_options(client, s, p->value);
		/* a replication client gets its own server connection, which these
		 * options are passed to */
		replace(&client->options, p->value);
		return 0;
	}
	if (text_has_prefix(p->name, "_pq_.")) {
		size_t count = s->unsupported_count;
		/* its room doubles whenever the count reaches a power of two */
		if ((count & (count - 1)) == 0)
			s->unsupported = mem_resize(s->unsupported,
			    (count ? 2 * count : 1) * sizeof(*s->unsupported));
		s->unsupported[s->unsupported_count++] = mem_strdup(p->name);
		return 0;
	}
	i = find_named(client, p->name);
	if (i >= 0)
		return set_tracked(client, i, p->value);
	if (text_list_has(ignored_list(client), p->name))
		return 0;
	return set_untracked(client, s, p->name, p->value, false);
}

static int add_host(struct client *client)
{
	struct conn *conn = &client->conn;
	const char *name = vars_get(&client->params.vars, VAR_APPLICATION_NAME);
	char addr[160];
	struct buf text;
	int result;

	if (conn->remote.family != AF_UNIX)
		sock_addr_text(&conn->remote, 0, addr);
	else if (conn->peer_pid > 0)
		snprintf(addr, sizeof(addr), "unix(%d@%s):%d", conn->peer_pid,
		    conn->site->hostname, conn->unix_port);
	else
		snprintf(addr, sizeof(addr), "unix:%d", conn->unix_port);
	buf_init(&text, 0);
	buf_printf(&text, "%s - %s", name ? name : "app", addr);
	if (text.failed) {
		client_fatal(client, ERROR_OUT_OF_MEMORY);
		result = -1;
	} else {
		result = set_tracked(client, VAR_APPLICATION_NAME, buf_text(&text));
	}
	buf_done(&text);
	return result;
}

int startup_read(struct client *client, struct startup *s, const struct message *m)
{
	struct startup_param p;
	struct cursor c;
	int r;

	cursor_init(&c, m->bytes + 8, (size_t)m->size - 8);
	find_replication(client, c);
	while ((r = codec_next_param(&c, &p)) == 1)
		if (read_param(client, s, &p) < 0)
			return -1;
	if (r < 0) {
		client_fatal(client, ERROR_BAD_STARTUP_LAYOUT);
		return -1;
	}
	if (!s->user || !*s->user) {
		client_fatal(client, ERROR_NO_USERNAME);
		return -1;
	}
	/* PostgreSQL cuts the name in the same way.  What is decided here by a name,
	 * and what the server decides, is then decided by the same one.  Longer names
	 * of databases are refused, unless an entry of [databases] has them. */
	replace(&s->sent_user, s->user);
	if (strlen(s->user) > NAME_MOST)
		s->user[NAME_MOST] = '\0';
	if (!s->database || !*s->database)
		replace(&s->database, s->user);
	if (site_settings(client->conn.site)->application_name_add_host)
		return add_host(client);
	return 0;
}

void startup_forget(struct client *client)
{
	vars_done(&client->params.vars);
	vars_init(&client->params.vars, client->conn.site->vars);
	client->params.requested = client->params.own = 0;
	mem_free(client->params.startup);
	client->params.startup = NULL;
	client->replication = REPLICATION_NONE;
	mem_free(client->options);
	client->options = NULL;
}
