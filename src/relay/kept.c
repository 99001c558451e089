/*
 * Client and server have a copy each, so that a client may go to another thread or
 * process without its server.
 */
#include "relay/kept.h"

#include "base/mem.h"
#include "base/text.h"
#include "wire/kept_settings.h"

/* Names that one transaction sets.  With more of them its client keeps the server.
 * PART_KEPT: bytes in which a name that a text sets can be told. */
enum { NAMES_MOST = 16 * 1024, PART_KEPT = 1024 };

/* The server reports this parameter: it is tracked from now on, also if the client has
 * asked for it when nobody knew that. */
static int take_reported(struct client *client, size_t i, const char *name)
{
	struct client_params *params = &client->params;
	struct buf value;
	int taken;

	buf_init(&value, 0);
	taken = kept_settings_take(&params->startup, name, &value);
	if (taken > 0 &&
	    (value.failed || kept_settings_take(&params->kept, name, NULL) < 0 ||
		vars_set(&params->vars, i, buf_text(&value)) < 0 ||
		(params->asked && vars_set(params->asked, i, buf_text(&value)) < 0)))
		taken = -1;
	if (taken > 0) {
		params->requested |= UINT64_C(1) << i;
		params->own |= UINT64_C(1) << i;
	}
	buf_done(&value);
	return taken < 0 ? -1 : 0;
}

int kept_take_requested(const struct server *server, struct client *client)
{
	const struct vars_schema *schema = client->conn.site->vars;
	size_t count = vars_schema_count(schema);
	struct kept_settings **kept = &client->params.kept;
	struct buf name;
	int failed = 0;

	buf_init(&name, 0);
	for (size_t i = VAR_BUILTIN_COUNT;
	     i < count && i < EFFECTS_PARAMETERS && !failed; i++) {
		const char *value = vars_get(&client->params.vars, i);
		bool is_reported = vars_get(&server->vars, i) != NULL;
		bool is_asked = client->params.requested >> i & 1 && value;
		if (is_reported ? !client->params.startup : !is_asked)
			continue;
		buf_clear(&name);
		text_put_lower(&name, vars_schema_name(schema, i));
		if (name.failed)
			failed = -1;
		else if (is_reported)
			failed = take_reported(client, i, buf_text(&name));
		else if (!kept_settings_has(*kept, buf_text(&name)))
			failed = kept_settings_set(kept, buf_text(&name), value);
	}
	buf_done(&name);
	return failed || kept_settings_add_missing(kept, client->params.startup) < 0
		   ? -1
		   : 0;
}

bool kept_put_back(
    const struct server *server, const struct client *client, struct buf *sql)
{
	return kept_settings_put_back(
	    server->kept, client ? client->params.kept : NULL, server->own_kept, sql);
}

bool kept_put(const struct server *server, const struct client *client, struct buf *sql)
{
	return kept_settings_put(
	    client->params.kept, server->is_kept_doubtful ? NULL : server->kept, sql);
}

static int replace(struct kept_settings **kept, const struct kept_settings *by)
{
	mem_free(*kept);
	*kept = by ? kept_settings_new(by->bytes, by->len) : NULL;
	return by && !*kept ? -1 : 0;
}

int kept_applied(struct server *server, const struct client *client)
{
	server->is_kept_doubtful = false;
	return replace(&server->kept, client->params.kept);
}

int kept_learn(struct server *server, struct client *client)
{
	struct kept_settings *now;

	/* without memory nobody may believe that nothing is in force */
	if (kept_settings_difference(
		&server->link.pin.session, server->own_kept, &now) < 0)
		return -1;
	server->is_kept_doubtful = false;
	mem_free(client->params.kept);
	client->params.kept = now;
	return replace(&server->kept, now);
}

int kept_learn_own(struct server *server)
{
	mem_free(server->own_kept);
	return kept_settings_difference(
	    &server->link.pin.session, NULL, &server->own_kept);
}

static struct buf *noted(struct server *server)
{
	struct buf *names = &server->link.pin.names;

	if (!names->max)
		buf_init(names, NAMES_MOST);
	return names;
}

void kept_restore_names(struct server *server, const void *names, size_t len)
{
	buf_put(noted(server), names, len);
}

void kept_note_names(struct server *server, const struct message *m, const char *text,
    size_t len, bool is_certain)
{
	struct link_pin *pin = &server->link.pin;
	struct setting_names found;

	found = setting_names_of_text(text, len, noted(server));
	/* values of a Parse come with its Bind */
	if (found.has_params && !(m && m->type == 'P'))
		pin->has_unknown_name |=
		    !m || m->type != 'B' || !message_is_whole(m) ||
		    !setting_names_of_bind(m->bytes, m->size, &pin->names);
	pin->has_unknown_name |= found.is_unknown || pin->names.failed ||
				 (is_certain && !found.count && !found.has_params);
}

/* The end of these bytes. */
static void keep_end(struct buf *part, const char *text, size_t len)
{
	size_t kept = len < PART_KEPT ? len : PART_KEPT;

	buf_clear(part);
	buf_put(part, text + len - kept, kept);
}

void kept_begin_parts(struct server *server, const char *text, size_t len)
{
	struct buf *part = &server->link.pin.part;

	if (!part->max)
		buf_init(part, 0);
	keep_end(part, len ? text : " ", len ? len : 1);
}

void kept_note_part(struct server *server, const char *text, size_t len, bool is_last)
{
	struct buf *part = &server->link.pin.part;
	struct buf seam;

	if (!part->len && !part->failed)
		return;
	buf_init(&seam, 0);
	buf_put(&seam, part->bytes, part->len);
	buf_put(&seam, text, len < PART_KEPT ? len : PART_KEPT);
	kept_note_names(server, NULL, (const char *)seam.bytes, seam.len, false);
	server->link.pin.has_unknown_name |= seam.failed || part->failed;
	if (len > PART_KEPT) {
		kept_note_names(server, NULL, text, len, false);
		keep_end(part, text, len);
	} else {
		keep_end(part, (const char *)seam.bytes, seam.len);
	}
	buf_done(&seam);
	if (is_last)
		buf_done(part);
}

void kept_put_names(const struct server *server, struct buf *names)
{
	const struct link_pin *pin = &server->link.pin;

	kept_settings_put_names(server->kept, names);
	kept_settings_put_names(server->own_kept, names);
	buf_put(names, pin->names.bytes, pin->names.len);
}
