#include "relay/sql_facts.h"

#include <string.h>

#include "relay/common_texts.h"
#include "relay/long_text.h"
#include "relay/server_prepared.h"
#include "relay/sql_commands.h"

enum { HEADER_LEN = 5 };

bool sql_facts_find(const struct message *m, const char **text, size_t *len)
{
	const char *end = (const char *)m->bytes + m->have;

	*text = (const char *)m->bytes + HEADER_LEN;
	if (m->have <= HEADER_LEN)
		return false;
	if (m->type == 'P') { /* the name comes first */
		*text = memchr(*text, '\0', (size_t)(end - *text));
		if (!*text)
			return false;
		(*text)++;
	}
	*len = (size_t)(end - *text);
	return true;
}

static bool has_name(const struct message *m)
{
	return m->type == 'P' && m->have > HEADER_LEN && m->bytes[HEADER_LEN];
}

/* Is it a named Parse whose text is kept in parts?  *have: bytes of the text that have
 * arrived. */
static bool is_long(const struct message *m, size_t *have)
{
	const char *text;

	if (m->size <= LONG_TEXT_MORE_THAN || !has_name(m) ||
	    !sql_facts_find(m, &text, have))
		return false;
	return m->size - (m->have - *have) > LONG_TEXT_MORE_THAN;
}

bool sql_facts_have_enough(
    const struct server *server, const struct message *m, bool is_tracked)
{
	const char *text;
	size_t len;

	if (message_is_whole(m) || !is_tracked)
		return true;
	/* a text that may be shared is compared as a whole */
	if (has_name(m) || m->have <= HEADER_LEN)
		return is_long(m, &len) && len > EFFECTS_COMMAND_MAX;
	return !sql_renames(server) || m->size > EFFECTS_COMMAND_MAX ||
	       !sql_facts_find(m, &text, &len) || !effects_may_be_command(text, len);
}

bool sql_facts_has_escapes(const struct server *server)
{
	const char *standard = vars_get(&server->vars, VAR_STD_STRINGS);

	return standard && standard[0] == 'o' && standard[1] == 'f';
}

uint8_t sql_facts_asked(const struct server *server)
{
	struct scope scope = scope_of_pool(server->slot.pool);
	bool has_leaves = scope_pool_mode(scope) != POOL_MODE_SESSION;
	bool is_counted = scope_prepare_unnamed(scope) > 0;
	bool has_calls = has_leaves && !server->slot.is_replication &&
			 scope_session_state(scope) == SESSION_STATE_KEEP;

	return (uint8_t)(sql_facts_has_escapes(server) | has_leaves << 1 |
			 sql_is_on(server) << 2 | (has_calls ? TEXTS_ASKED_CALLS : 0) |
			 (is_counted ? TEXTS_ASKED_COUNTED : 0));
}

bool sql_facts_is_plain(const struct server *server, const struct message *query)
{
	struct scope scope = scope_of_pool(server->slot.pool);
	bool has_leaves = scope_pool_mode(scope) != POOL_MODE_SESSION;
	const struct effects_ask ask = {
	    .has_leaves = has_leaves,
	    .has_calls = has_leaves && scope_session_state(scope) == SESSION_STATE_KEEP,
	};

	return !server->slot.is_replication && message_is_whole(query) &&
	       query->have > HEADER_LEN &&
	       effects_is_plain((const char *)query->bytes + HEADER_LEN,
		   query->have - HEADER_LEN, &ask);
}

struct text_facts sql_facts_look(
    const struct server *server, const struct message *m, bool is_tracked)
{
	struct text_facts facts = {0};
	bool is_named = has_name(m);
	const char *text;
	uint8_t asked;
	size_t len;

	/* a replication server is used by one client only */
	if (server->slot.is_replication || !sql_facts_find(m, &text, &len)) {
		facts.effects =
		    (struct sql_effects){.is_cut = true, .may_forget = true};
		return facts;
	}
	asked = sql_facts_asked(server);
	facts.is_long = is_tracked && is_long(m, &(size_t){0});
	if (is_tracked && m->type == 'P' && !facts.is_long && message_is_whole(m))
		facts.shared = is_named ? server_prepared_shared(
					      server, (const uint8_t *)text, len)
					: common_texts_find(server,
					      (const uint8_t *)text, len, asked & 1);
	facts.asked = asked;
	if (facts.shared) {
		facts.effects = facts.shared->effects;
	} else {
		/* a shared text is examined for all clients that will use it */
		bool is_shared = is_tracked && is_named;
		const struct effects_ask ask = {
		    .schema = server->conn.site->vars,
		    .has_escapes = asked & 1,
		    .has_leaves = is_shared || asked & 2,
		    .has_calls = is_shared || asked & TEXTS_ASKED_CALLS,
		    .has_clock = is_shared || (is_tracked && asked & 4),
		    .is_part = !message_is_whole(m),
		};
		facts.effects = effects_of_text(text, len, &ask);
	}
	/* a text in parts cannot be rewritten */
	if (facts.is_long)
		facts.effects.command.kind = COMMAND_NONE;
	return facts;
}
