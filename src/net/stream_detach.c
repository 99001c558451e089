/*
 * Streams between two threads.  Queues, blocks of pools and watches belong to a thread,
 * so a detached stream has copies of their bytes in blocks of its own; usually there
 * are none.
 */
#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "net/stream_parts.h"

static void free_baggage(struct stream_baggage *baggage)
{
	block_unref(baggage->in);
	block_unref(baggage->out);
	block_unref(baggage->plain);
	mem_free(baggage);
}

/* -1: no memory, and nothing has changed. */
static int pack(struct stream *s)
{
	struct stream_baggage *baggage;

	s->baggage = NULL;
	if (!s->in && !s->out && !s->tls)
		return 0;
	baggage = mem_zero(sizeof(*baggage));
	if ((s->in && !(baggage->in = stream_queue_flatten(s->in))) ||
	    (s->out && !(baggage->out = stream_queue_flatten(s->out))) ||
	    (s->tls && stream_tls_pack(s, baggage) < 0)) {
		free_baggage(baggage);
		return -1;
	}
	stream_queue_drop(s->net, &s->in);
	stream_queue_drop(s->net, &s->out);
	s->baggage = baggage;
	return 0;
}

static void put_back(struct net *net, struct stream_queue **q, struct block *b)
{
	if (b)
		stream_queue_put(net, q, b, b->bytes, b->used, true);
}

static void unpack(struct stream *s)
{
	struct stream_baggage *baggage = s->baggage;

	s->baggage = NULL;
	if (!baggage)
		return;
	put_back(s->net, &s->in, baggage->in);
	put_back(s->net, &s->out, baggage->out);
	if (baggage->tls)
		stream_tls_unpack(s, baggage);
	free_baggage(baggage);
}

/* Begins with the engine where the other one has ended. */
static void begin(struct stream *s)
{
	bool is_off = s->reader_off || s->ended || s->over;

	if (s->connecting && !s->failure) {
		stream_await_connected(s);
	} else if (!s->connecting) {
		s->reader_off = false;
		s->net->engine->start(s);
		if (is_off)
			s->net->engine->stop(s);
		else
			s->net->engine->resume(s);
	}
	s->input_due = stream_has_input(s) || s->over;
	stream_tell_later(s);
}

int stream_detach(struct stream *s)
{
	struct net *net = s->net;
	bool was_paused = s->paused;

	assert(net && s->fd >= 0 && !s->delivering);
	/* what arrives from now on is only kept */
	s->detached = s->paused = true;
	stream_rest_end(s);
	net->engine->detach(s);
	later_cancel(net->loop, &s->flush);
	s->paused = was_paused;
	s->blocked = s->last_words = false;
	if (pack(s) < 0) {
		s->detached = false;
		begin(s);
		stream_fail(s, ENOMEM);
		return -1;
	}
	if (net->growing.stream == s)
		net->growing.stream = NULL;
	s->net = NULL;
	return 0;
}

void stream_attach(struct stream *s, struct net *net)
{
	assert(s->detached);
	s->net = net;
	s->detached = false;
	unpack(s);
	begin(s);
}

void stream_close_detached(struct stream *s)
{
	struct stream_baggage *baggage = s->baggage;

	if (baggage) {
		tls_free(&baggage->tls);
		block_unref(baggage->held);
		free_baggage(baggage);
	}
	close(s->fd);
	*s = (struct stream){.fd = -1};
}
