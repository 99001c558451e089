/* links: wire base */
/*
 * The ledger against a model of a PostgreSQL backend: random clients, eager and lazy,
 * random failures, messages crossing on the wire.  The backend tags each answer with
 * the message it answers; the ledger must say the same without seeing the tags, and
 * must be settled exactly when the backend has nothing left to do.
 */
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "wire/pipeline.h"

enum { LINE_MOST = 256, ROUNDS = 300000, STEPS_MOST = 60, TAG_MOST = 128 };

static uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *state = x;
}

static unsigned below(uint64_t *state, unsigned n)
{
	return (unsigned)(next_random(state) >> 33) % n;
}

/* What Query and Execute run. */
enum plan { PLAN_ROWS, PLAN_EMPTY, PLAN_FAIL, PLAN_COPY_IN, PLAN_COPY_OUT, PLANS };

struct message {
	uint8_t type;
	uint32_t tag;
	enum plan plan;
	unsigned copies; /* of PLAN_COPY_IN in one Query */
};

/* Messages on the wire, one direction. */
struct line {
	struct message queue[LINE_MOST];
	unsigned first, count;
};

static void line_put(struct line *l, struct message m)
{
	assert(l->count < LINE_MOST);
	l->queue[(l->first + l->count++) % LINE_MOST] = m;
}

static struct message line_take(struct line *l)
{
	struct message m = l->queue[l->first];

	assert(l->count);
	l->first = (l->first + 1) % LINE_MOST;
	l->count--;
	return m;
}

struct world {
	uint64_t random;
	struct line to_server, to_client;
	/* the backend */
	bool skipping, copying, is_extended;
	bool has_work;          /* to commit at Sync */
	struct message running; /* whose COPY it is */
	/* the client */
	bool sent_copy_end; /* of the last COPY asked for */
	uint8_t copy_for;   /* type of the request that may have begun a COPY, or 0 */
	unsigned copies;    /* ends it still has to send */
	bool in_run;        /* extended messages since the last Sync */
	uint32_t last_tag;
	struct {
		uint8_t type;
		enum owed_to to;
		unsigned ends; /* times the ledger called it completed or dropped */
	} sent[TAG_MOST];
	/* the pooler in the middle */
	struct pipeline ledger;
	bool has_probe; /* the empty Query is on its way */
	bool had_doubt;
};

static bool is_traced;

static void trace(const char *who, struct message m, const struct world *w)
{
	if (is_traced)
		printf("%s %c %u plan %d x%u | count %u copy %d open %d skip %d strays "
		       "%u fork %u\n",
		    who, m.type, m.tag, m.plan, m.copies, w->ledger.count,
		    w->ledger.copy, w->ledger.copy_open, w->ledger.skipping,
		    w->ledger.strays, w->ledger.fork);
}

/* ---- backend ---- */

static void answer(struct world *w, uint8_t type, uint32_t tag)
{
	struct message m = {.type = type, .tag = tag};

	if (below(&w->random, 20) == 0) {
		struct message notice = {.type = "NSA"[below(&w->random, 3)]};
		line_put(&w->to_client, notice);
	}
	line_put(&w->to_client, m);
}

static void fail(struct world *w, uint32_t tag)
{
	answer(w, 'E', tag);
	w->copying = w->has_work = false;
	if (w->is_extended)
		w->skipping = true;
	else
		answer(w, 'Z', tag);
}

static void begin_copy(struct world *w, struct message m)
{
	answer(w, 'G', m.tag);
	w->copying = true;
	w->running = m;
}

static void run_statement(struct world *w, struct message m)
{
	switch (m.plan) {
	case PLAN_ROWS:
		if (m.type == 'Q')
			answer(w, 'T', m.tag);
		for (unsigned n = below(&w->random, 3); n; n--)
			answer(w, 'D', m.tag);
		answer(
		    w, m.type == 'E' && below(&w->random, 4) == 0 ? 's' : 'C', m.tag);
		break;
	case PLAN_EMPTY:
		answer(w, 'I', m.tag);
		break;
	case PLAN_COPY_OUT:
		answer(w, 'H', m.tag);
		for (unsigned n = below(&w->random, 3); n; n--)
			answer(w, 'd', m.tag);
		if (below(&w->random, 5) == 0) {
			fail(w, m.tag);
			return;
		}
		answer(w, 'c', m.tag);
		answer(w, 'C', m.tag);
		break;
	case PLAN_COPY_IN:
		if (below(&w->random, 6) == 0)
			fail(w, m.tag);
		else
			begin_copy(w, m);
		return;
	default:
		fail(w, m.tag);
		return;
	}
	if (m.type == 'Q')
		answer(w, 'Z', m.tag);
}

static void backend_copy(struct world *w, struct message m)
{
	struct message r = w->running;

	switch (m.type) {
	case 'd':
	case 'S':
	case 'H':
		return;
	case 'c':
		if (below(&w->random, 5) == 0) {
			fail(w, r.tag);
			return;
		}
		w->copying = false;
		answer(w, 'C', r.tag);
		if (r.type == 'Q' && --r.copies)
			begin_copy(w, r);
		else if (r.type == 'Q')
			answer(w, 'Z', r.tag);
		return;
	default:
		assert(m.type == 'f');
		fail(w, r.tag);
	}
}

static void backend_simple(struct world *w, uint8_t type, uint8_t reply, uint32_t tag)
{
	if (below(&w->random, 8) == 0) {
		fail(w, tag);
		return;
	}
	if (type == 'D' && below(&w->random, 2))
		answer(w, 't', tag);
	answer(w, reply, tag);
}

static void backend_read(struct world *w, struct message m)
{
	if (w->copying) {
		backend_copy(w, m);
		return;
	}
	if (m.type == 'S')
		w->skipping = false;
	if (w->skipping)
		return;
	w->is_extended = strchr("PBDECH", m.type);
	w->has_work |= m.type == 'E';
	switch (m.type) {
	case 'P':
		backend_simple(w, m.type, '1', m.tag);
		break;
	case 'B':
		backend_simple(w, m.type, '2', m.tag);
		break;
	case 'C':
		backend_simple(w, m.type, '3', m.tag);
		break;
	case 'D':
		backend_simple(w, m.type, "nT"[below(&w->random, 2)], m.tag);
		break;
	case 'F':
		if (below(&w->random, 4) == 0) {
			fail(w, m.tag);
			break;
		}
		answer(w, 'V', m.tag);
		answer(w, 'Z', m.tag);
		break;
	case 'S':
		/* Only a commit can fail here: of something. */
		if (w->has_work && below(&w->random, 10) == 0)
			answer(w, 'E', m.tag);
		w->has_work = false;
		answer(w, 'Z', m.tag);
		break;
	case 'Q':
	case 'E':
		run_statement(w, m);
		break;
	default:
		break; /* H, and COPY messages that come too late */
	}
}

/* One step: a message, or an error of its own while it waits for COPY data. */
static bool backend_step(struct world *w)
{
	if (w->copying && below(&w->random, 12) == 0) {
		fail(w, w->running.tag);
		return true;
	}
	if (!w->to_server.count)
		return false;
	struct message m = line_take(&w->to_server);
	trace("  backend reads", m, w);
	backend_read(w, m);
	return true;
}

/* ---- client, through the pooler ---- */

static void send_as(struct world *w, uint8_t type, enum plan plan, enum owed_to to)
{
	struct message m = {
	    .type = type, .tag = ++w->last_tag, .plan = plan, .copies = 1};

	if (type == 'Q' && plan == PLAN_COPY_IN)
		m.copies = w->copies;
	assert(m.tag < TAG_MOST);
	w->sent[m.tag].type = type;
	w->sent[m.tag].to = to;
	assert(pipeline_owe(&w->ledger, type, to, m.tag) == 0);
	trace(to == OWED_CLIENT ? "client"
	      : to == OWED_SELF ? "self"
				: "made up",
	    m, w);
	if (to != OWED_MADE_UP)
		line_put(&w->to_server, m);
}

static void make_up(struct world *w)
{
	struct pipeline_entry e;

	while (pipeline_next_made_up(&w->ledger, &e)) {
		assert(e.to == OWED_MADE_UP && e.type == 'P');
		w->sent[e.tag].ends++;
	}
}

/* A client inside a COPY it asked for, whether or not it has been answered yet: only
 * data, Sync, Flush and the end are allowed. */
static void client_copy(struct world *w)
{
	switch (below(&w->random, 6)) {
	case 0:
	case 1:
		send_as(w, 'd', 0, OWED_CLIENT);
		break;
	case 2:
		send_as(w, 'S', 0, OWED_CLIENT);
		break;
	case 3:
		send_as(w, 'H', 0, OWED_CLIENT);
		break;
	default:
		send_as(w, below(&w->random, 4) ? 'c' : 'f', 0, OWED_CLIENT);
		if (--w->copies == 0)
			w->copy_for = 0;
	}
}

static void client_begins_copy(struct world *w, uint8_t type)
{
	w->copy_for = type;
	w->copies = type == 'Q' ? 1 + below(&w->random, 2) : 1;
	send_as(w, type, PLAN_COPY_IN, OWED_CLIENT);
}

static void client_step(struct world *w)
{
	static const char types[] = "PBDECPBEQQFHSSSdcf";
	uint8_t type = (uint8_t)types[below(&w->random, sizeof(types) - 1)];

	if (w->copy_for) {
		client_copy(w);
		return;
	}
	if ((type == 'Q' || type == 'E') && below(&w->random, 3) == 0) {
		client_begins_copy(w, type);
		return;
	}
	enum owed_to to = OWED_CLIENT;
	if (strchr("PC", type) && below(&w->random, 5) == 0)
		to = type == 'P' && below(&w->random, 2) ? OWED_MADE_UP : OWED_SELF;
	send_as(w, type, below(&w->random, PLAN_COPY_IN), to);
}

/* ---- what the ledger says ---- */

static void note_dropped(void *arg, const struct pipeline_entry *e)
{
	struct world *w = arg;

	assert(e->type == w->sent[e->tag].type);
	w->sent[e->tag].ends++;
}

/* Returns false when the ledger gave up, which it may where two heads are possible. */
static bool pooler_reads(struct world *w, struct message m)
{
	struct pipeline *p = &w->ledger;
	bool was_sure = !p->uncertain, was_forked = p->fork > 0;
	uint32_t expected = p->count ? p->ring[p->head].tag : 0;
	struct pipeline_entry done;
	enum answer a = pipeline_answer(p, m.type, m.type == 'Z' ? 'I' : 0, &done);

	trace(a == ANSWER_FORWARD ? "    forward" : "    swallow or broken", m, w);
	w->had_doubt |= p->uncertain;
	if (a == ANSWER_BROKEN) {
		assert(was_forked);
		return false;
	}
	if (strchr("NSA", m.type))
		return true;
	assert((a == ANSWER_SWALLOW) == (w->sent[m.tag].to == OWED_SELF));
	/* Syncs are all alike: one may be taken for another after a doubt. */
	if (was_sure && !(w->had_doubt && m.type == 'Z'))
		assert(expected == m.tag);
	if (done.type && done.type != 'S')
		assert(done.tag == m.tag);
	if (done.type)
		w->sent[done.tag].ends++;
	make_up(w);
	return true;
}

static void check_ends(const struct world *w)
{
	for (uint32_t i = 1; i <= w->last_tag; i++)
		if (strchr("PBDECQF", w->sent[i].type))
			assert(w->sent[i].ends == 1);
}

static bool is_backend_idle(const struct world *w)
{
	return !w->to_server.count && !w->to_client.count && !w->copying &&
	       !w->skipping;
}

/* Deliver everything, ending what the client has begun; then the ledger must be
 * settled, after the probe where it is in doubt. */
static bool drain(struct world *w)
{
	w->has_probe = false;
	for (;;) {
		while (backend_step(w))
			;
		while (w->to_client.count)
			if (!pooler_reads(w, line_take(&w->to_client)))
				return false;
		if (w->to_server.count)
			continue;
		if (pipeline_is_uncertain(&w->ledger)) {
			assert(!w->has_probe);
			w->has_probe = true;
			send_as(w, 'Q', PLAN_EMPTY, OWED_SELF);
			continue;
		}
		return true;
	}
}

static bool finish(struct world *w)
{
	while (w->copy_for) {
		send_as(w, 'c', 0, OWED_CLIENT);
		if (--w->copies == 0)
			w->copy_for = 0;
	}
	if (!drain(w))
		return false;
	if (w->skipping) {
		assert(!pipeline_is_settled(&w->ledger));
		send_as(w, 'S', 0, OWED_CLIENT);
		if (!drain(w))
			return false;
	}
	assert(is_backend_idle(w));
	assert(pipeline_is_settled(&w->ledger));
	check_ends(w);
	assert(pipeline_count(&w->ledger) == 0 && w->ledger.syncs == 0);
	return true;
}

/* While messages are under way the ledger must not be settled. */
static void check_settled(struct world *w)
{
	if (pipeline_is_settled(&w->ledger)) {
		for (unsigned i = 0; i < w->to_client.count; i++) {
			unsigned at = (w->to_client.first + i) % LINE_MOST;
			assert(strchr("NSA", w->to_client.queue[at].type));
		}
		assert(!w->copying && !w->skipping);
	}
}

/* In the middle of a run: all quiet, nothing begun, so nothing may be owed. */
static bool come_to_rest(struct world *w)
{
	if (!drain(w))
		return false;
	if (!w->copy_for)
		assert(pipeline_is_settled(&w->ledger) == is_backend_idle(w));
	return true;
}

static bool play(uint64_t seed)
{
	struct world w;

	memset(&w, 0, sizeof(w));
	w.random = seed * 0x9E3779B97F4A7C15u + 1;
	pipeline_init(&w.ledger);
	pipeline_on_drop(&w.ledger, note_dropped, &w);
	bool sure = true;
	for (unsigned n = below(&w.random, STEPS_MOST); n && sure; n--) {
		switch (below(&w.random, 40)) {
		case 0:
			sure = come_to_rest(&w);
			break;
		case 1 ... 13:
			client_step(&w);
			make_up(&w);
			break;
		case 14 ... 26:
			backend_step(&w);
			break;
		default:
			if (w.to_client.count)
				sure = pooler_reads(&w, line_take(&w.to_client));
		}
		check_settled(&w);
	}
	if (sure)
		sure = finish(&w);
	pipeline_done(&w.ledger);
	return sure;
}

static unsigned current_run;

static void tell_run(int signal_number)
{
	(void)signal_number;
	fprintf(stderr, "run %u of this seed\n", current_run);
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
	unsigned broken = 0;

	printf("seed %llu\n", (unsigned long long)seed);
	setvbuf(stdout, NULL, _IOLBF, 0);
	is_traced = argc > 2;
	if (is_traced) { /* of one run only */
		play(seed * ROUNDS + strtoul(argv[2], NULL, 0));
		return 0;
	}
	signal(SIGABRT, tell_run);
	for (; current_run < ROUNDS; current_run++)
		broken += !play(seed * ROUNDS + current_run);
	printf("%u of %u runs were beyond telling\n", broken, ROUNDS);
	return 0;
}
