/*
 * session_state=keep: settings that no report tells (wire/kept_settings.h) go along
 * with their client.  relay/pin_question asks for them; here they are kept, put in
 * force on the client's next server together with the tracked parameters, and taken
 * back for the next client there.
 */
#ifndef RELAY_KEPT_H
#define RELAY_KEPT_H

#include <stdbool.h>

#include "session/client.h"
#include "session/server.h"
#include "wire/kept_settings.h"

/* Has the client asked for parameters in its startup packet that servers may not
 * report?
 */
static inline bool kept_has_requested(const struct client *client)
{
	return client->params.requested >> VAR_BUILTIN_COUNT != 0 ||
	       client->params.startup;
}
/* Of these, what this server reports is tracked from now on.  The others are settings
 * of the client, unless it has set them since.  -1: no memory. */
int kept_take_requested(const struct server *server, struct client *client);

/* Are the client's settings in force on the server, and no others? */
static inline bool kept_fits(const struct server *server, const struct client *client)
{
	const struct kept_settings *wanted = client->params.kept;

	return (!wanted && !server->kept) ||
	       (!server->is_kept_doubtful &&
		   kept_settings_is_same(wanted, server->kept));
}

/* Appends the SQL that takes back what is in force and that the client has not set
 * (NULL: everything).  False: nothing was appended. */
bool kept_put_back(
    const struct server *server, const struct client *client, struct buf *sql);
/* Appends the SQL that puts the client's settings in force, behind kept_put_back.
 * False: nothing was appended. */
bool kept_put(
    const struct server *server, const struct client *client, struct buf *sql);
/* These are in force now.  -1: no memory. */
int kept_applied(struct server *server, const struct client *client);
/* What the server has told of its session, in link.pin.session, are the client's
 * settings from now on.  -1: no memory. */
int kept_learn(struct server *server, struct client *client);
/* The same for the server's own settings, those of connect_query. */
int kept_learn_own(struct server *server);

/* The text, or a Bind of it (m), may set a parameter with a dot: notes its name.  m:
 * see session_state_expect. is_certain: it does, unless it fails. */
void kept_note_names(struct server *server, const struct message *m, const char *text,
    size_t len, bool is_certain);
/* The same for a text that comes in parts: behind kept_note_names for the first one,
 * and with each further one, whose names may begin in the part before. */
void kept_begin_parts(struct server *server, const char *text, size_t len);
void kept_note_part(struct server *server, const char *text, size_t len, bool is_last);
/* Those that another process had noted. */
void kept_restore_names(struct server *server, const void *names, size_t len);
/* Appends the names for whose values the server must be asked. */
void kept_put_names(const struct server *server, struct buf *names);

#endif
