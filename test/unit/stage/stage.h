/*
 * A whole site on a stage: a real loop, real sockets, and at both ends of it peers that
 * a test plays.  Clients come through the listener, servers are dialed; PostgreSQL is
 * not needed.  Anything that does not come within some seconds stops the program.
 */
#ifndef TEST_UNIT_STAGE_STAGE_H
#define TEST_UNIT_STAGE_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "session/client.h"
#include "session/server.h"
#include "session/site.h"

struct peer;
/* A server played by a function: called whenever bytes came (also at the end). */
typedef void peer_fn(struct peer *peer);

struct stage {
	struct site site;
	struct config *config;
	struct list peers; /* struct peer by .node */
	struct list fresh; /* struct peer by .fresh_node: dialed, nobody looked yet */
	struct watch *door;
	int door_fd;
	uint32_t dialed; /* connections servers got so far */
	char back_dir[64], front_dir[64];
	peer_fn *play; /* who plays the servers; NULL: the test does */
	void *ctx;     /* the test's */
};

/* One end of a connection: the client of a listener, or a server that was dialed. */
struct peer {
	struct stage *stage;
	struct node node, fresh_node;
	int fd;
	struct watch *watch;
	struct buf in; /* bytes not taken yet */
	struct buf text;
	peer_fn *play;
	void *ctx;
	uint32_t number;  /* of the server, from 1 on; part of its cancel key */
	uint32_t started; /* servers: the code of its first packet; 0 = not read yet */
	bool has_ended;
	uint8_t key[CANCEL_KEY_LONG]; /* of a client, after its login */
	size_t key_len;
};

/* Database d is on the servers of the stage (its options follow), users u and v have
 * the password "secret"; settings are lines of [pgbouncer]. */
struct stage *stage_new(const char *database_options, const char *settings);
/* Closes every peer, waits until the site has forgotten them, and looks whether all
 * memory came back. */
void stage_free(struct stage **stage);
/* Change a setting as the console's SET does. */
void stage_set(struct stage *stage, const char *name, const char *value);
/* A new list of users: reload. */
void stage_users(struct stage *stage, const char *userlist);
struct pool *stage_pool(struct stage *stage);

/* One turn of the loop, without waiting. */
void stage_turn(struct stage *stage);
/* Turns until nothing moves. */
void stage_settle(struct stage *stage);
typedef bool stage_is_fn(void *arg);
void stage_until(struct stage *stage, stage_is_fn *is_so, void *arg);

/* A client that has connected and said nothing. */
struct peer *stage_client(struct stage *stage);
/* ... and logged in as this user of database d, with one name-value pair or NULL. */
struct peer *stage_login(
    struct stage *stage, const char *user, const char *name, const char *value);
/* ... as user u with a startup packet of this version; what it was told is in
 * client->text. */
struct peer *stage_login_version(struct stage *stage, uint32_t version);
/* The next connection a server got. */
struct peer *stage_server(struct stage *stage);
/* ... after its login, which asks for no password. */
struct peer *stage_ready_server(struct stage *stage);
/* Everything for a first client: its login waits for a server. */
void stage_pair(struct stage *stage, struct peer **client, struct peer **server);
void peer_close(struct peer *peer);

void peer_send(struct peer *peer, const void *bytes, size_t len);
/* A message with this body. */
void peer_put(struct peer *peer, uint8_t type, const void *body, size_t len);
void peer_text(struct peer *peer, uint8_t type, const char *text); /* with its NUL */
void peer_start(struct peer *peer, const char *user, const char *database,
    const char *name, const char *value);
void peer_ready(struct peer *peer, char status);
/* Greeting of a server: AuthenticationOk, parameters, key, ReadyForQuery. */
void peer_greet(struct peer *peer);
/* CommandComplete and ReadyForQuery. */
void peer_answer(struct peer *peer, const char *tag, char status);

/* Wait for so many messages of a type (of whatever is there), show all that came up to
 * the last one in letters: "C:tag Z:I"; types whose body is text show it. */
const char *peer_hear(struct peer *peer, uint8_t type);
/* What came so far, without waiting for anything but quiet. */
const char *peer_heard(struct peer *peer);
/* The connection closes; what came before. */
const char *peer_last_words(struct peer *peer);
/* Wait for the first packet of a connection: its code; it is taken. */
uint32_t peer_first_packet(struct peer *peer);
/* Wait for a whole message (helper threads may be at work on it); it is not taken. */
void peer_await(struct peer *peer);
/* Length of the first whole message in `in` (with its type byte), or 0. */
size_t peer_message(const struct peer *peer);

#endif
