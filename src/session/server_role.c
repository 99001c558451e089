#include "session/server_role.h"

#include <string.h>

#include "base/errors.h"
#include "wire/codec.h"

/* PostgreSQL sends no longer errors. */
enum { ERROR_MAX = 1024 * 1024 };

static const char *value_of(
    const struct server *server, const struct vars *vars, const char *name)
{
	int i = vars_schema_find(server->conn.site->vars, name);

	return i >= 0 ? vars_get(vars, (size_t)i) : NULL;
}

static bool is_on(const char *value)
{
	return value && strcmp(value, "on") == 0;
}

void server_role_read(
    const struct server *server, const struct vars *vars, struct host_report *out)
{
	/* no client can change this parameter */
	const char *standby = value_of(server, &server->vars, "in_hot_standby");

	*out = (struct host_report){.role = HOST_ROLE_UNKNOWN};
	if (!standby)
		return;
	out->role = is_on(standby) ? HOST_STANDBY : HOST_PRIMARY;
	out->is_read_only =
	    is_on(value_of(server, vars, "default_transaction_read_only"));
	out->is_kept_posted = true;
}

void server_role_follow(struct server *server, const struct vars *vars)
{
	struct host_report report;

	server_role_read(server, vars, &report);
	if (report.role != HOST_ROLE_UNKNOWN && server->slot.pool)
		hosts_learn(&server->slot, &report, conn_now(&server->conn));
}

bool server_role_is_named(const struct message *m)
{
	const char *name, *value;

	return codec_read_parameter_status(
		   message_body(m), message_body_len(m), &name, &value) == 0 &&
	       (strcmp(name, "in_hot_standby") == 0 ||
		   strcmp(name, "default_transaction_read_only") == 0);
}

static bool is_about_writing(const struct server *server)
{
	struct scope scope = scope_of_database(server->slot.pool->database);
	int target = scope_target_session_attrs(scope);

	return target == TARGET_READ_WRITE || target == TARGET_PRIMARY;
}

bool server_role_wants_whole(const struct server *server, const struct message *m)
{
	return m->type == 'E' && m->size <= ERROR_MAX && is_about_writing(server);
}

void server_role_doubt(struct server *server, const struct message *m)
{
	struct error_fields f;

	if (!message_is_whole(m) || !is_about_writing(server))
		return;
	codec_read_error(message_body(m), message_body_len(m), &f);
	if (strcmp(f.sqlstate, SQLSTATE_READ_ONLY_TRANSACTION) == 0)
		hosts_doubt(&server->slot, conn_now(&server->conn));
}
