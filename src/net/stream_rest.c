/*
 * Rests of streams in which much arrives.  PostgreSQL and its clients send a long
 * result or COPY data in pieces of 8 kB.  Receiving each piece as soon as it arrives,
 * and sending it on, costs several times as much as doing so with eight of them at
 * once.  So a stream in which much has arrived in a row, with no output in the other
 * direction, receives only at intervals, and the kernel gathers the pieces meanwhile.
 * This ends as soon as an interval brings little.
 */
#include <string.h>

#include "net/stream_parts.h"

enum {
	/* a result that is shorter is not delayed at all */
	REST_AFTER_KB = 64,
	REST_US = 250,
	/* two pieces: less is not worth a rest */
	REST_LEAST = 16 * 1024,
	/* after a longer time without bytes nothing arrives in a row any more */
	REST_GAP_MS = 3,
};

void stream_rest_count(struct stream *s, size_t n)
{
	uint16_t now_ms = (uint16_t)(loop_now(s->net->loop) / 1024);
	size_t kb = n / 1024;

	/* a rest may have lasted longer, if others needed the processor */
	if (!s->rested && (uint16_t)(now_ms - s->run_ms) > REST_GAP_MS)
		s->run_kb = 0;
	s->run_ms = now_ms;
	s->run_kb = (uint16_t)(kb < (size_t)(UINT16_MAX - s->run_kb) ? s->run_kb + kb
								     : UINT16_MAX);
}

bool stream_rest_begin(struct stream *s, size_t got)
{
	struct net *net = s->net;

	if (s->rested && got < REST_LEAST)
		s->run_kb = 0;
	s->rested = false;
	if (s->run_kb < REST_AFTER_KB || s->paused || s->ended)
		return false;
	if (net->resting.count == 0)
		deadline_set(
		    net->loop, &net->resting.over, loop_now(net->loop) + REST_US);
	if (net->resting.count == net->resting.room) {
		net->resting.room = net->resting.room ? net->resting.room * 2 : 16;
		net->resting.streams = mem_resize(
		    net->resting.streams, net->resting.room * sizeof(struct stream *));
	}
	net->resting.streams[net->resting.count++] = s;
	s->resting = true;
	/* far from the largest number */
	s->run_kb = REST_AFTER_KB;
	return true;
}

void stream_rest_end(struct stream *s)
{
	struct net *net = s->net;

	if (!s->resting)
		return;
	s->resting = false;
	for (size_t i = 0; i < net->resting.count; i++)
		if (net->resting.streams[i] == s)
			net->resting.streams[i] = NULL;
}

/* Streams may leave the list, and join its end again, while they receive. */
static void over(struct deadline *d)
{
	struct net *net = container_of(d, struct net, resting.over);
	size_t count = net->resting.count;

	for (size_t i = 0; i < count; i++) {
		struct stream *s = net->resting.streams[i];
		net->resting.streams[i] = NULL;
		if (!s)
			continue;
		s->resting = false;
		s->rested = true;
		net->engine->go_on(s);
	}
	net->resting.count -= count;
	memmove(net->resting.streams, net->resting.streams + count,
	    net->resting.count * sizeof(struct stream *));
	if (net->resting.count > 0)
		deadline_set(
		    net->loop, &net->resting.over, loop_now(net->loop) + REST_US);
}

void stream_rest_init(struct net *net)
{
	deadline_init(&net->resting.over, over);
}

void stream_rest_done(struct net *net)
{
	deadline_clear(net->loop, &net->resting.over);
	mem_free(net->resting.streams);
}
