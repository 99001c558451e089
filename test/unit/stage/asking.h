/*
 * Clients who are not in the user list, and servers that run auth_query for them: what
 * the tests of auth_query have in common.  The macros need cmocka.h.
 */
#ifndef TEST_UNIT_STAGE_ASKING_H
#define TEST_UNIT_STAGE_ASKING_H

#include "stage.h"

#define assert_ends_with(peer, expected) \
	assert_string_equal(peer_last_words(peer), expected)

#define QUERY        "select n, s from found($1)"
#define AUTH         "auth_user=u auth_query='" QUERY "'"
#define PLAIN        "auth_type = plain\n"
#define NOBODY       "E:FATAL:no such user"
#define CONFIG_ERROR "E:FATAL:bouncer config error"
#define WRONG        "E:FATAL:password authentication failed"
#define ANSWERED     "P B D E:: S"

struct peer *come(struct stage *stage, const char *user);
/* A client w who is not in the list, and the server of u that runs the query. */
struct stage *asked(const char *options, const char *settings, struct peer **client,
    struct peer **server);
/* The next server, which may still ask for a password. */
struct peer *own_server(struct stage *stage);
struct pool *pool_of_w(struct stage *stage);

/* Messages of a server. */
void columns(struct peer *server, size_t count);
void row(struct peer *server, const char *name, const char *secret);
/* Sends the whole answer with one row. */
void answer(struct peer *server, const char *name, const char *secret);
void put_error(struct peer *server, const char *text);
void put_error_of(struct peer *server, const char *sqlstate, const char *text);
void ask_for(struct peer *server, uint32_t request, const void *data, size_t len);

/* Proofs of a client. */
void md5_answer(struct peer *client, const char *secret_text, const char *user);
void scram_login(struct peer *client, const char *password);
/* A password as PostgreSQL stores it, with one iteration. */
const char *scram_secret(const char *password, char out[256]);

#endif
