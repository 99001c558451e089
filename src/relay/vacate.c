/*
 * Looks at intervals; which servers may go is decided in pool/vacate.
 */
#include "relay/vacate.h"

#include <string.h>

#include "conf/entry.h"
#include "pool/vacate.h"
#include "relay/sql_facts.h"
#include "session/workers.h"
#include "wire/sql_vacated.h"

enum {
	LOOK_US = 100000,
	LOOKS = 50,     /* then PostgreSQL has refused the statement */
	AT_A_TIME = 16, /* with more such statements, the others are not helped */
};

/* A statement, with the names of the server's database and of the client's entry, each
 * with its NUL. */
struct vacate_statement {
	bool is_there; /* its client is connected to that database */
	char names[2 * (DATABASE_NAME_MAX + 1)];
};

struct vacating {
	struct node node; /* in site->vacating */
	struct deadline look;
	struct site *site;
	uint64_t server_id; /* that runs the statement */
	int looks;
	struct vacate_statement statement;
};

static void close_resting(struct site *site, const void *what)
{
	const struct vacate_statement *statement = what;
	const char *name = statement->names, *from = name + strlen(name) + 1;
	struct verdict v;

	while (site->shutdown != SHUTDOWN_NOW &&
	       (v = vacate_next(site->catalog, name, from, statement->is_there)).kind ==
		   VERDICT_RETIRE)
		server_retire(slot_server(v.slot), v.text);
}

static void end(struct vacating *v)
{
	deadline_clear(v->site->loop, &v->look);
	list_remove(&v->site->vacating, &v->node);
	mem_free(v);
}

static void look(struct deadline *due)
{
	struct vacating *v = container_of(due, struct vacating, look);
	struct site *site = v->site;
	const struct worker *own = site->worker;

	/* the others may have ended */
	if (site->shutdown == SHUTDOWN_NOW) {
		end(v);
		return;
	}
	close_resting(site, &v->statement);
	for (unsigned i = 0; own && i < own->workers->worker_count; i++)
		if (i != own->index)
			workers_send(&own->workers->members[i], close_resting,
			    &v->statement, sizeof(v->statement));
	if (++v->looks < LOOKS)
		deadline_set(site->loop, &v->look, loop_now(site->loop) + LOOK_US);
	else
		end(v);
}

void vacate_begin(struct server *server, const char *text, size_t len)
{
	const struct pool *pool = server->slot.pool;
	struct site *site = server->conn.site;
	struct vacating *v;
	struct buf names;

	if (scope_session_state(scope_of_pool(pool)) != SESSION_STATE_KEEP ||
	    site->vacating.count >= AT_A_TIME)
		return;
	buf_init(&names, sizeof(v->statement.names));
	if (sql_vacated(text, len, sql_facts_has_escapes(server), &names)) {
		buf_put_str(&names, pool->database->name);
		if (!names.failed) {
			v = mem_zero(sizeof(*v));
			v->site = site;
			v->server_id = server->conn.id;
			server->link.schema.vacates = true;
			memcpy(v->statement.names, names.bytes, names.len);
			v->statement.is_there = strcmp(pool->database->config->dbname,
						    v->statement.names) == 0;
			deadline_init(&v->look, look);
			list_push_back(&site->vacating, &v->node);
			look(&v->look);
		}
	}
	buf_done(&names);
}

void vacate_answered(struct server *server)
{
	struct vacating *v;

	server->link.schema.vacates = false;
	list_for (v, &server->conn.site->vacating, node)
		if (v->server_id == server->conn.id)
			v->statement.is_there = false;
}

void vacate_stop(struct site *site)
{
	struct node *n;

	while ((n = list_first(&site->vacating)))
		end(container_of(n, struct vacating, node));
}
