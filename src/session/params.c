/*
 * Parameters between a client and the server it is linked to.  How values are kept and
 * compared is wire/vars' business; when this runs is the relay's.
 */
#include "session/params.h"

#include <string.h>

#include "session/broker.h"
#include "wire/codec.h"
#include "wire/reset.h"

bool params_apply(struct server *server, struct client *client)
{
	struct buf sql;

	if (server->seat.is_replication ||
	    !vars_is_different(&client->vars, &server->vars))
		return false;
	buf_init(&sql, 0);
	vars_put_set(&client->vars, &server->vars, &sql);
	conn_log(&server->conn, LEVEL_DEBUG, "varcache_apply: %s", buf_text(&sql));
	server->is_applying = true;
	server->apply_failed = false;
	server_query(server, buf_text(&sql));
	if (sql.failed)
		server_retire(server, "out of memory");
	buf_done(&sql);
	return true;
}

bool params_apply_again(struct server *server, struct client *client)
{
	size_t count = vars_schema_count(client->conn.site->vars);
	uint64_t local = server->apply_local;
	struct buf sql;
	int failed = 0;

	server->wants_apply = false;
	server->apply_local = 0;
	if (!vars_is_different(&client->vars, &server->vars))
		return false;
	buf_init(&sql, 0);
	for (size_t i = 0; i < count && !failed; i++) {
		bool is_local = i < RESET_NOTED && local >> i & 1;
		buf_clear(&sql);
		if (vars_is_put_set(&client->vars, &server->vars, i,
			is_local ? "LOCAL " : "", &sql)) {
			conn_log(&server->conn, LEVEL_DEBUG, "varcache_apply: %s",
			    buf_text(&sql));
			failed =
			    sql.failed || server_command(server, buf_text(&sql), 0) < 0;
		}
	}
	failed = failed || server_sync(server) < 0;
	server->is_applying = true;
	server->apply_failed = server->is_ready = false;
	if (failed)
		server_retire(server, "out of memory");
	buf_done(&sql);
	return true;
}

static void log_canonical(const struct client *client, const struct vars *server)
{
	size_t count = vars_schema_count(client->conn.site->vars);
	for (size_t i = 0; i < count; i++) {
		const char *old = vars_get(&client->vars, i),
			   *new = vars_get(server, i);
		if (old && new &&strcmp(old, new) != 0)
			conn_log(&client->conn, LEVEL_DEBUG,
			    "varcache_set_canonical: setting %s to its canonical "
			    "version "
			    "%s -> %s",
			    vars_schema_name(client->conn.site->vars, i), old, new);
	}
}

int params_applied(struct server *server, struct client *client)
{
	server->is_applying = false;
	server->is_ready = server->status == 'I';
	if (server->apply_failed || server->status == 'E') {
		server_retire(server, error_text(ERROR_INVALID_SERVER_PARAMETER));
		return -1;
	}
	if (log_is_on(client->conn.site->log, LEVEL_DEBUG))
		log_canonical(client, &server->vars);
	vars_take(&client->vars, &server->vars);
	return 0;
}

void params_failed(struct server *server, const struct message *m)
{
	struct error_fields f;
	codec_read_error(message_body(m), message_body_len(m), &f);
	conn_log(&server->conn, LEVEL_ERROR, "varcache_apply failed: %s: %s",
	    f.severity, f.message);
	server->apply_failed = true;
}

/* ---- RESET ---- */

/* Before the first change: what the client asked for, and was told at its login. */
static void keep_asked(struct client *client)
{
	if (client->asked)
		return;
	client->asked = mem_zero(sizeof(*client->asked));
	vars_init(client->asked, client->conn.site->vars);
	vars_take(client->asked, &client->vars);
}

int params_report(struct server *server, struct client *client, const struct message *m)
{
	const struct vars_schema *schema = client->conn.site->vars;
	const char *name, *value;
	int i = -1;

	if (server->is_applying)
		return server_note_parameter(server, m, NULL, NULL);
	if (codec_read_parameter_status(
		message_body(m), message_body_len(m), &name, &value) == 0)
		i = vars_schema_find(schema, name);
	if (i >= 0) {
		keep_asked(client);
		if (i < RESET_NOTED)
			server->reported |= UINT64_C(1) << i;
	}
	return server_note_parameter(server, m, &client->vars, NULL);
}

/* Tell the client what it has again, and want it from the next server. */
static void bring_back(struct server *server, struct client *client, size_t i)
{
	const char *value = vars_get(client->asked, i);
	const char *current = vars_get(&client->vars, i);
	struct buf status;

	if (!value || (current && strcmp(value, current) == 0))
		return;
	server->wants_apply = true;
	if (vars_set(&client->vars, i, value) < 0) {
		conn_doom(&client->conn, "out of memory");
		return;
	}
	buf_init(&status, 0);
	codec_put_parameter_status(
	    &status, vars_schema_name(client->conn.site->vars, i), value);
	conn_send(&client->conn, &status);
	buf_done(&status);
}

void params_note_query(struct server *server, const struct message *m, bool is_tracked)
{
	const char *p = (const char *)m->bytes + 5;
	const char *end = (const char *)m->bytes + m->have;

	server->looked_reset = (struct reset_look){0};
	/* a part could be read for something else */
	if (m->have <= 5 || !message_is_whole(m))
		return;
	if (m->type == 'P') {
		p = memchr(p, '\0', (size_t)(end - p));
		if (!p)
			return;
		p++;
	}
	server->looked_reset =
	    reset_of_text(p, (size_t)(end - p), server->conn.site->vars);
	if (m->type == 'Q' || !is_tracked)
		reset_add(&server->reset, &server->looked_reset);
}

static const char discard_all[] = "DISCARD ALL";
static const char reset[] = "RESET";
static const char set[] = "SET";

static bool has_tag(const struct message *m, const char *tag, size_t size)
{
	return m->size == 5 + size && m->have > 5 &&
	       memcmp(m->bytes + 5, tag, m->have - 5) == 0;
}

bool params_is_reset(const struct server *server, const struct message *m)
{
	if (server->reset.has_default && has_tag(m, set, sizeof(set)))
		return true;
	return has_tag(m, reset, sizeof(reset)) ||
	       has_tag(m, discard_all, sizeof(discard_all));
}

void params_note_reset(struct server *server, const struct message *m)
{
	server->was_reset = true;
	if (m->size == 5 + sizeof(discard_all)) {
		server->reset.session = UINT64_MAX;
		server->is_reset_kept = true; /* it commits at once */
	}
}

void params_note_outcome(struct server *server, const struct message *m)
{
	static const char commit[] = "COMMIT", rollback[] = "ROLLBACK";

	if (m->type == 'C' && has_tag(m, commit, sizeof(commit)))
		server->is_reset_kept = true;
	else if (m->type == 'E' ||
		 (m->type == 'C' && has_tag(m, rollback, sizeof(rollback))))
		server->was_reset = server->is_reset_kept;
}

/* Without the text of the RESET (in session mode it may have been prepared before):
 * what was reported and is now as it was when the server logged in. */
static bool looks_reset(
    const struct server *server, const struct vars *initial, size_t i)
{
	const char *now = vars_get(&server->vars, i);
	const char *then = initial ? vars_get(initial, i) : NULL;
	return (server->reported >> i & 1) && now && then && strcmp(now, then) == 0;
}

static void bring_all_back(struct server *server, struct client *client)
{
	const struct welcome *welcome = broker_welcome(server->seat.pool);
	const struct vars *initial = welcome ? &welcome->vars : NULL;
	size_t count = vars_schema_count(client->conn.site->vars);

	uint64_t local = server->status == 'T' ? server->reset.local : 0;
	uint64_t named = server->reset.session | local;
	bool is_told = named || server->reset.has_reset || server->reset.has_default;

	server->apply_local |= local;
	for (size_t i = 0; i < count && i < RESET_NOTED; i++)
		if (is_told ? named >> i & 1 : looks_reset(server, initial, i))
			bring_back(server, client, i);
}

void params_settle(struct server *server, struct client *client)
{
	/* what was noted may be of what comes behind this ReadyForQuery */
	if (!server->was_reset && server->pipeline.syncs > 0)
		return;
	/* a replication server was started with what its client asked for */
	if (server->was_reset && client->asked && !server->seat.is_replication)
		bring_all_back(server, client);
	server->was_reset = server->is_reset_kept = false;
	server->reported = 0;
	server->reset = (struct reset_look){0};
}
