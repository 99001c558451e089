/*
 * A replay: the messages of a client since its last Sync, from the first use of a
 * prepared statement on.  They are kept until they are answered, so that they can be
 * sent again if the server turns out to have lost that statement.  None of them has run
 * then, because PostgreSQL skips everything after an error up to the Sync.
 */
#ifndef RELAY_REPLAY_H
#define RELAY_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "session/server.h"

struct replay {
	uint32_t tag;     /* that of its first message for the server in the ledger */
	bool is_ended;    /* the Sync is in it */
	bool has_run;     /* an Execute is in it */
	bool is_told;     /* something that was held back has been delivered */
	struct buf bytes; /* as the client sent them */
	/* what is held back, because an error may follow and then the repetition brings
	 * another one: a ParseComplete of the pooler, a ParameterDescription */
	struct buf described;
	/* hold the bytes if they are few, as they are mostly */
	uint8_t room[256], described_room[32];
};
struct slab *replay_slab(struct mem *mem);

/* Must the rest of this message be waited for, because the replay would keep it? */
bool replay_wants_whole(const struct server *server, const struct message *m);
/* The same for a Bind or Describe of a prepared statement, which may begin one. */
bool replay_wants_first(const struct server *server, const struct message *m);
/* A Bind or Describe of a prepared statement is about to be sent, or a Parse is
 * answered by the pooler: begins a replay if it is the first message since the last
 * Sync that the server has to answer. */
void replay_begin(struct server *server, const struct message *m);
/* Holds back an answer of the pooler, if there is a replay that has no answer yet, or
 * else gives it to the client. */
void replay_tell(
    struct server *server, struct client *client, const uint8_t *answer, size_t len);
/* A message of the client was sent: adds it to the replay, if there is one.  If it
 * begins the replay, its tag in the ledger is server->last_tag. */
void replay_note(struct server *server, const struct message *m);
/* May a statement have been run since the client's last Sync? */
static inline bool replay_may_have_run(const struct server *server)
{
	const struct replay *s = server->link.replay;

	return server->link.is_replay_spoilt || (s && !s->is_ended && s->has_run);
}
/* Describes the replay for a takeover. */
void replay_describe(const struct server *server, struct record_server *out);
/* -1: no memory, or the description is not valid. */
int replay_restore(struct server *server, const struct record_server *from);
/* Everything is answered: frees the replay. */
void replay_end(struct server *server);
/* Sends the client what was held back of the answer, and frees the replay. */
void replay_drop(struct server *server);
/* Must this answer be held back until the next message comes?  Then it must be whole.
 */
bool replay_may_hold(const struct server *server, const struct message *m);
void replay_hold(struct server *server, const struct message *m);
/* Sends the client what was held back of the answer. */
void replay_deliver(struct server *server);
/* Does it begin with a Parse? */
static inline bool replay_has_parse(const struct replay *s)
{
	return s->bytes.len > 0 && s->bytes.bytes[0] == 'P';
}
/* Returns its first message, and whether it describes the statement that it runs. */
void replay_look(const struct replay *s, struct message *first, bool *is_described);
/* Takes the replay from the server to send it again: its messages, *count bytes, in a
 * block of their own.  NULL: no memory. */
struct block *replay_detach(struct server *server, size_t *count);
/* Reads the message at *at of so many bytes, and moves on to the next.  False: there is
 * none. */
bool replay_next(struct block *block, size_t count, size_t *at, struct message *m);

#endif
