/*
 * Who wants to know what of a text.  The look itself is wire/effects.
 */
#include "relay/texts.h"

#include <string.h>

#include "relay/sql_commands.h"

enum { HEADER_LEN = 5 };

/* The text, or what is here of it: it ends with the message or at a NUL before that.
 * False: it has not begun. */
static bool find_text(const struct message *m, const char **text, size_t *len)
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

bool texts_have_enough(
    const struct server *server, const struct message *m, bool is_tracked)
{
	const char *text;
	size_t len;

	if (message_is_whole(m) || !is_tracked)
		return true;
	/* what is shared is compared whole */
	if (has_name(m) || m->have <= HEADER_LEN)
		return false;
	return !sql_is_on(server) || m->size > EFFECTS_COMMAND_MAX ||
	       !find_text(m, &text, &len) || !effects_may_be_command(text, len);
}

struct sql_effects texts_look(
    const struct server *server, const struct message *m, bool is_tracked)
{
	const char *escapes = vars_get(&server->vars, VAR_STD_STRINGS);
	const struct effects_ask ask = {
	    .schema = server->conn.site->vars,
	    .has_escapes = escapes && strcmp(escapes, "off") == 0,
	    .has_leaves = pool_mode(server->seat.pool) != POOL_MODE_SESSION,
	    .has_clock = is_tracked && (has_name(m) || sql_is_on(server)),
	    .is_part = !message_is_whole(m),
	};
	const char *text;
	size_t len;

	/* nothing of a replication server is brought back or cleaned */
	if (server->seat.is_replication || !find_text(m, &text, &len))
		return (struct sql_effects){.is_cut = true, .may_forget = true};
	return effects_of_text(text, len, &ask);
}
