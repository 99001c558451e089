/*
 * What a client has reset.  Which parameters a RESET concerns is known from texts;
 * whether it has taken effect is not, so that the server is asked.
 */
#include "relay/resets.h"

#include <string.h>

#include "base/text.h"
#include "wire/codec.h"

void resets_keep_asked(struct client *client)
{
	if (client->params.asked)
		return;
	client->params.asked = mem_zero(sizeof(*client->params.asked));
	vars_init(client->params.asked, client->conn.site->vars);
	vars_take(client->params.asked, &client->params.vars);
}

/* Reports to the client the values that were restored, which are set on its next
 * server. */
static void bring_back(struct server *server, struct client *client, size_t i)
{
	const char *value = vars_get(client->params.asked, i);
	const char *current = vars_get(&client->params.vars, i);

	if (!(client->params.requested >> i & 1)) {
		client->params.own &= ~(UINT64_C(1) << i);
		return;
	}
	if (!value || (current && strcmp(value, current) == 0))
		return;
	server->link.params.wants_apply = true;
	vars_copy(&client->params.vars, client->params.asked, i);
	client->params.own |= UINT64_C(1) << i;
	client_put_status(client, i, value);
}

/* Is it worth asking?  Only values that a RESET could have brought about are. */
static bool may_be_reset(
    const struct server *server, const struct client *client, size_t i)
{
	if (!((server->link.params.settling.unsettled &
		  (client->params.requested | client->params.own)) >>
		    i &
		1) ||
	    vars_is_same(&server->vars, client->params.asked, i))
		return false;
	return vars_is_same(&server->vars, &server->own, i) ||
	       ((server->pinned | server->link.params.reset.session) >> i & 1);
}

/* Asks about the parameters of settling.sources. */
static void ask(struct server *server, const struct client *client)
{
	const struct vars_schema *schema = client->conn.site->vars;
	size_t count = vars_schema_count(schema);
	const char *before = "SELECT name FROM pg_catalog.pg_settings "
			     "WHERE source<>'session' AND "
			     "pg_catalog.lower(name) IN ('";
	struct link *link = &server->link;
	struct buf sql;

	buf_init(&sql, 0);
	for (size_t i = 0; i < count && i < EFFECTS_PARAMETERS; i++)
		if (link->params.settling.sources >> i & 1) {
			buf_put_text(&sql, before);
			text_put_lower(&sql, vars_schema_name(schema, i));
			before = "','";
		}
	buf_put_text(&sql, "')");
	link->params.settling.restored = 0;
	link->params.settling.is_canceled = link->params.settling.has_failed = false;
	link->params.is_applying = true;
	link->params.apply_us = conn_now(&server->conn);
	if (sql.failed || server_command(server, buf_text(&sql), 0) < 0 ||
	    server_sync(server) < 0)
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
	buf_done(&sql);
}

bool resets_ask(struct server *server, struct client *client)
{
	struct link *link = &server->link;

	if (!link->params.settling.unsettled || server->status != 'I')
		return false;
	for (size_t i = 0; client->params.asked && i < EFFECTS_PARAMETERS; i++)
		if (i < vars_schema_count(client->conn.site->vars) &&
		    may_be_reset(server, client, i))
			link->params.settling.sources |= UINT64_C(1) << i;
	link->params.settling.unsettled = 0;
	link->params.settling.attempts = 0;
	link->params.reset = (struct reset_effects){0};
	if (link->params.settling.sources)
		ask(server, client);
	return link->params.settling.sources != 0;
}

void resets_note_error(struct server *server, const struct message *m)
{
	struct error_fields f;

	codec_read_error(message_body(m), message_body_len(m), &f);
	conn_log(&server->conn, LEVEL_WARNING | KIND_SERVERS,
	    "what the client has reset is not known: %s: %s", f.severity, f.message);
	server->link.params.settling.has_failed = true;
	server->link.params.settling.is_canceled =
	    strcmp(f.sqlstate, error_sqlstate(ERROR_QUERY_CANCELED)) == 0;
}

void resets_note_source(struct server *server, const struct message *m)
{
	const struct vars_schema *schema = server->conn.site->vars;
	const uint8_t *value;
	struct cursor c;
	size_t count, len;
	char name[128];
	int i;

	cursor_init(&c, message_body(m), message_body_len(m));
	if (codec_read_row_count(&c, &count) < 0 || count != 1 ||
	    codec_next_field(&c, &value, &len) < 0 || !value || len >= sizeof(name))
		return;
	memcpy(name, value, len);
	name[len] = '\0';
	i = vars_schema_find(schema, name);
	if (i >= 0 && i < EFFECTS_PARAMETERS)
		server->link.params.settling.restored |= UINT64_C(1) << i;
}

int resets_sourced(struct server *server, struct client *client)
{
	struct link *link = &server->link;
	uint64_t restored =
	    link->params.settling.restored & link->params.settling.sources;

	link->params.is_applying = false;
	server->is_ready = server->status == 'I';
	if (link->params.settling.is_canceled &&
	    ++link->params.settling.attempts < OWN_ATTEMPTS_MOST) {
		ask(server, client);
		return 1;
	}
	if (link->params.settling.has_failed) {
		server_retire(server, error_text(ERROR_STATE_UNKNOWN));
		return -1;
	}
	link->params.settling.sources = link->params.settling.restored = 0;
	for (size_t i = 0; i < EFFECTS_PARAMETERS && restored >> i; i++)
		if (restored >> i & 1)
			bring_back(server, client, i);
	return 0;
}

void resets_expect(struct server *server, const struct sql_effects *effects)
{
	effects_add_resets(&server->link.params.reset, &effects->resets);
	if (effects->configs || effects->leaves & LEAK_BIT(CONFIG))
		server->link.params.may_have_set = true;
}

/* These effects without what resets_put_back will undo. */
static struct sql_effects without_resets(const struct sql_effects *effects)
{
	struct sql_effects rest = *effects;
	struct reset_effects *r = &rest.resets;

	r->set |= r->session | r->local | r->hidden;
	r->session = r->local = r->hidden = 0;
	return rest;
}

void resets_bound(
    struct server *server, const struct message *m, const struct sql_effects *effects)
{
	struct sql_effects rest = without_resets(effects);
	bool is_unnamed = m->have > 5 && !m->bytes[5];

	resets_expect(server, is_unnamed ? &rest : effects);
	if (!is_unnamed)
		return;
	server->link.params.put_back.bound = effects->resets;
	server->link.params.put_back.is_there = effects_is_reset(&effects->resets);
}

void resets_parsed(struct server *server, const struct sql_effects *effects)
{
	struct sql_effects rest = without_resets(effects);

	resets_expect(server, &rest);
	server->link.params.put_back.parsed = effects->resets;
	server->link.params.put_back.is_there =
	    server->link.params.put_back.is_there || effects_is_reset(&effects->resets);
}

void resets_bound_parsed(struct server *server, const struct message *m)
{
	struct reset_effects *parsed = &server->link.params.put_back.parsed;

	if (m->have < 7 || m->bytes[5])
		effects_add_resets(&server->link.params.reset, parsed);
	else if (m->bytes[6])
		server->link.params.put_back.bound = (struct reset_effects){0};
	else
		server->link.params.put_back.bound = *parsed;
}

void resets_synced(struct server *server)
{
	if (!server->link.params.put_back.is_there)
		return;
	effects_add_resets(
	    &server->link.params.reset, &server->link.params.put_back.parsed);
	effects_add_resets(
	    &server->link.params.reset, &server->link.params.put_back.bound);
	memset(&server->link.params.put_back, 0, sizeof(server->link.params.put_back));
}

static int send_put_back(
    struct server *server, const struct client *client, size_t i, const char *word)
{
	struct buf sql;
	int failed = 0;

	/* whether a function has reset it is the server's to say */
	buf_init(&sql, 0);
	if (vars_is_put_set(client->params.asked, &server->own, i, word, &sql)) {
		if (!word) {
			buf_put_text(&sql, " FROM pg_catalog.pg_settings WHERE "
					   "source<>'session' AND "
					   "pg_catalog.lower(name)='");
			text_put_lower(
			    &sql, vars_schema_name(client->conn.site->vars, i));
			buf_put_text(&sql, "'");
		}
		failed = sql.failed || server_command(server, buf_text(&sql), 0) < 0;
	}
	buf_done(&sql);
	return failed ? -1 : 0;
}

int resets_put_back(
    struct server *server, struct client *client, const struct message *m)
{
	const struct reset_effects bound = server->link.params.put_back.bound;
	size_t count = vars_schema_count(client->conn.site->vars);
	uint64_t resets =
	    (bound.session | bound.local | bound.hidden) & client->params.requested;
	int failed = 0;

	if (m->have < 6 || m->bytes[5])
		return 0;
	memset(&server->link.params.put_back, 0, sizeof(server->link.params.put_back));
	if (!pipeline_is_calm(&server->pipeline)) {
		effects_add_resets(&server->link.params.reset, &bound);
		return 0;
	}
	resets_keep_asked(client);
	for (size_t i = 0; i < count && i < EFFECTS_PARAMETERS && !failed; i++)
		if (resets >> i & 1)
			failed = send_put_back(server, client, i,
			    bound.hidden >> i & 1  ? NULL
			    : bound.local >> i & 1 ? "LOCAL "
						   : "");
	return failed;
}

bool resets_is_reset(const struct server *server, const struct message *m)
{
	if (server->link.params.reset.has_default && server_has_tag(m, "SET"))
		return true;
	if (server_has_tag(m, "RESET") || server_has_tag(m, "DISCARD ALL"))
		return true;
	/* a DO or set_config() may have reset a parameter */
	return server->link.params.reset.hidden && m->type == 'C' &&
	       !server_has_tag(m, "BEGIN") && !server_has_tag(m, "COMMIT") &&
	       !server_has_tag(m, "ROLLBACK");
}

void resets_note_reset(struct server *server, const struct message *m)
{
	server->link.params.was_reset = true;
	server->confirmed = 0;
	if (server_has_tag(m, "DISCARD ALL")) {
		server->link.params.reset.session = UINT64_MAX;
		server->link.params.is_reset_kept =
		    true; /* outside a transaction block the command is committed */
	}
}

void resets_note_outcome(struct server *server, const struct message *m)
{
	if (server_has_tag(m, "COMMIT"))
		server->link.params.is_reset_kept = true;
	else if (m->type == 'E' || server_has_tag(m, "ROLLBACK"))
		server->link.params.was_reset = server->link.params.is_reset_kept;
}

static void bring_all_back(struct server *server, struct client *client)
{
	size_t count = vars_schema_count(client->conn.site->vars);

	const struct reset_effects *reset = &server->link.params.reset;
	uint64_t local = server->status == 'T' ? reset->local : 0;
	uint64_t named = reset->session | local;
	bool is_told = named || reset->hidden || reset->has_reset || reset->has_default;

	server->link.params.apply_local |= local;
	/* Without the text of the RESET, which may have been prepared earlier in
	 * session mode: the parameter was reported and has its value from the login
	 * again. */
	for (size_t i = 0; i < count && i < EFFECTS_PARAMETERS; i++)
		if (named >> i & 1 || ((!is_told || reset->hidden >> i & 1) &&
					  (server->link.params.reported >> i & 1) &&
					  vars_is_same(&server->vars, &server->own, i)))
			bring_back(server, client, i);
}

void resets_settle(struct server *server, struct client *client)
{
	/* what a transaction has set is undone by its ROLLBACK, and SET LOCAL by any
	 * end */
	uint64_t read = vars_schema_read_bits(server->conn.site->vars);
	if (server->status == 'I')
		server->link.params.may_undo_set = false;
	else if (server->link.params.reported & read)
		server->link.params.may_undo_set = true;
	/* a replication server has its client's parameters from its startup packet */
	if (!server->slot.is_replication) {
		/* notes which parameters the commands up to this ReadyForQuery may have
		 * reset */
		struct link *link = &server->link;
		if (link->params.may_have_set || link->params.was_reset)
			link->params.settling.unsettled = UINT64_MAX;
		else
			link->params.settling.unsettled |= link->params.reported |
							   link->params.reset.session |
							   link->params.reset.hidden;
	}
	bool was_reset = server->link.params.was_reset;
	server->link.params.was_reset = server->link.params.is_reset_kept = false;
	/* what was noted of texts may belong to a message after this ReadyForQuery */
	if (server->pipeline.syncs > 0)
		return;
	if (was_reset && server->status == 'T' && client->params.asked &&
	    !server->slot.is_replication)
		bring_all_back(server, client);
	server->link.params.may_have_set = false;
	server->link.params.reported = 0;
	/* resets_ask uses it */
	if (server->status != 'I')
		server->link.params.reset = (struct reset_effects){0};
}
