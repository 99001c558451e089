/*
 * A whole site for tests: a real loop, real sockets, and at both ends peers that a test
 * plays.  Clients come through the listener, servers are dialed; PostgreSQL is not
 * needed.  Waiting for longer than some seconds stops the program.
 */
#ifndef TEST_UNIT_STAGE_STAGE_H
#define TEST_UNIT_STAGE_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/list.h"
#include "session/client.h"
#include "session/server.h"
#include "session/site.h"

struct workers;
struct peer;
/* Plays a server: called whenever bytes came, also at the end. */
typedef void peer_fn(struct peer *peer);

struct stage {
	struct site site;
	struct config *config;
	struct list peers; /* struct peer by .node */
	struct list fresh; /* struct peer by .fresh_node: dialed, not taken yet */
	struct watch *listener;
	int listener_fd;
	uint32_t dialed; /* number of connections to servers so far */
	char back_dir[64], front_dir[64];
	peer_fn *play; /* plays the servers; NULL: the test does */
	void *ctx;     /* belongs to the test */
};

/* The test's end of a connection: a client, or a server that was dialed. */
struct peer {
	struct stage *stage;
	struct node node, fresh_node;
	int fd;
	struct watch *watch;
	struct buf in; /* bytes that are not read yet */
	struct buf text;
	peer_fn *play;
	void *ctx;
	uint32_t number;  /* number of the server, from 1 on; part of its cancel key */
	uint32_t started; /* servers: the code of its first packet; 0 = not read yet */
	bool has_ended;
	uint8_t key[CANCEL_KEY_LONG]; /* cancel key of a client, after its login */
	size_t key_len;
};

/* A peer plays: what is allocated now is not the pooler's. */
extern bool stage_plays;

/* The stage has database d with these options, users u and v with the password
 * "secret", and settings as lines of [pgbouncer]. */
struct stage *stage_new(const char *database_options, const char *settings);
/* The same as one of several sites.  It has a loop of its own: the test turns all of
 * them.  The servers of all are dialed at the one with index 0, which is made first. */
struct stage *stage_new_in(struct workers *workers, unsigned index,
    const char *database_options, const char *settings);
/* Closes every peer, waits until the site has forgotten them, and checks that all
 * memory was given back. */
void stage_free(struct stage **stage);
/* Change a setting as the console's SET does. */
void stage_set(struct stage *stage, const char *name, const char *value);
/* Reloads with a new list of users. */
void stage_users(struct stage *stage, const char *userlist);
/* Settings or limits have changed: everything is looked at again, as after RELOAD. */
void stage_review(struct stage *stage);
/* Dooms every connection, as an immediate shutdown does. */
void stage_drop_all(struct stage *stage);
/* Are all connections closed and forgotten? */
bool stage_is_empty(const struct stage *stage);
struct pool *stage_pool(struct stage *stage);

/* One turn of the loop, without waiting. */
void stage_turn(struct stage *stage);
/* Turns the loop until nothing moves. */
void stage_settle(struct stage *stage);
typedef bool stage_is_fn(void *arg);
void stage_until(struct stage *stage, stage_is_fn *is_so, void *arg);

/* Opens a client connection that has sent nothing. */
struct peer *stage_client(struct stage *stage);
/* A client that is logged in as this user of database d, with one parameter or NULL. */
struct peer *stage_login(
    struct stage *stage, const char *user, const char *name, const char *value);
/* A client that logs in as user u with a startup packet of this version; what it was
 * told is in client->text. */
struct peer *stage_login_version(struct stage *stage, uint32_t version);
/* The next connection is that of the monitor of hosts: it logs in, asks, and hears that
 * the host is a standby or a primary.  A server that reports its role tells it, too. */
struct peer *stage_monitor(struct stage *stage, bool is_standby);
/* The monitor asks again, and hears the same or something else. */
void peer_tell_role(struct peer *monitor, bool is_standby);
/* The next connection that was opened to a server. */
struct peer *stage_server(struct stage *stage);
/* The same after its login, which asks for no password. */
struct peer *stage_ready_server(struct stage *stage);
/* A first client whose login waits for a server, and that server. */
void stage_pair(struct stage *stage, struct peer **client, struct peer **server);
void peer_close(struct peer *peer);

/* While this is n in the environment, what a server sends arrives in pieces of n bytes,
 * each of which is read alone.  A program whose tests may run so runs them twice. */
#define STAGE_PIECE "STAGE_PIECE"
#define stage_run_twice(tests)                                                     \
	(cmocka_run_group_tests(tests, NULL, NULL) + setenv(STAGE_PIECE, "1", 1) + \
	    cmocka_run_group_tests_name("byte by byte", tests, NULL, NULL))

void peer_send(struct peer *peer, const void *bytes, size_t len);
/* Sends a message with this body. */
void peer_put(struct peer *peer, uint8_t type, const void *body, size_t len);
void peer_text(struct peer *peer, uint8_t type, const char *text); /* with the NUL */
void peer_start(struct peer *peer, const char *user, const char *database,
    const char *name, const char *value);
void peer_ready(struct peer *peer, char status);
/* Answers the login: AuthenticationOk, parameters, key, ReadyForQuery. */
void peer_greet(struct peer *peer);
/* Sends CommandComplete and ReadyForQuery. */
void peer_answer(struct peer *peer, const char *tag, char status);

/* Waits for this many messages of a type (or for all that are there), and returns all
 * up to the last one as text: "C:tag Z:I"; types whose body is text show it. */
const char *peer_hear(struct peer *peer, uint8_t type);
/* Returns what came so far; it waits only until nothing moves. */
const char *peer_heard(struct peer *peer);
/* Waits until the connection closes and returns what came before. */
const char *peer_last_words(struct peer *peer);
/* Waits for the first packet of a connection, removes it, and returns its code. */
uint32_t peer_first_packet(struct peer *peer);
/* Waits for a whole message (helper threads may be at work) and leaves it there. */
void peer_await(struct peer *peer);
/* Length of the first whole message in `in` (with its type byte), or 0. */
size_t peer_message(const struct peer *peer);

#endif
