/*
 * The owner of a stream in these tests: it notes its callbacks, does what it was set to
 * do, and holds the other end of the socket as `peer`.
 */
#ifndef TEST_NET_OWNER_H
#define TEST_NET_OWNER_H

#include "base/buf.h"
#include "net/stream.h"

/* The owner of a stream, its options, and what it has seen. */
struct owner {
	struct stream stream; /* must be first: ops cast the stream to its owner */
	struct net net;
	struct mem mem;
	struct loop *loop;
	struct deadline guard;
	struct later stop;
	int peer; /* the other end, for plain reads and writes */
	struct buf got;
	int receive_count, end_count, drain_count, connect_count;
	char end_text[sizeof(((struct err *)0)->text)]; /* "": ended without an error */
	size_t stop_at; /* stop the loop after this many bytes */
	struct block *kept;
	bool in_call;
	/* what the callback `received` does */
	bool echoes, pauses, closes, keeps;
	bool closes_at_end;
};

extern const struct stream_ops owner_ops;

/* cmocka's set-up with and without an open stream, and the tear-down of both. */
int owner_set_up(void **state);
int owner_set_up_closed(void **state);
int owner_tear_down(void **state);

void one_turn(struct owner *o);
/* The peer sends a text. */
void say(struct owner *o, const char *text);
/* The peer sends len bytes 'l' at once. */
void say_much(struct owner *o, size_t len);
/* Returns all that the peer can read now. */
size_t hear(struct owner *o, struct buf *into);
void expect_heard(struct owner *o, const char *text);
size_t blocks_in_use(const struct owner *o);

#endif
