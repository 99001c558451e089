/* links: wire base */
/*
 * The ledger against a model of a PostgreSQL backend: random clients, eager and lazy,
 * random failures, messages crossing on the wire, some in two pieces.  A second backend
 * gets the client's messages without a pooler between: the client must be told the
 * same, message by message, and nothing within a message.  The backend tags each answer
 * with the message it answers; the ledger must find the same message without the tags,
 * nothing may wait for ever, and it must be settled exactly when the backend has
 * nothing left to do.
 */
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "prop.h"
#include "wire/pipeline.h"

enum { LINE_MOST = 256, TOLD_MOST = 1024, ROUNDS = 120000, STEPS_MOST = 60 };
enum { TAG_MOST = 256 };

static unsigned below(uint64_t *state, unsigned n)
{
	return (unsigned)(random_next(state) >> 33) % n;
}

/* What Query and Execute run. */
enum plan { PLAN_ROWS, PLAN_EMPTY, PLAN_FAIL, PLAN_COPY_OUT, PLAN_COPY_IN };

struct message {
	uint8_t type;
	uint32_t tag;
	uint64_t luck; /* decides, with what came before, how the message ends */
	enum plan plan;
	unsigned copies; /* number of COPY FROM in one Query of PLAN_COPY_IN */
	bool is_good;    /* does not fail by itself */
};

/* Messages on the wire, one direction. */
struct line {
	struct message queue[LINE_MOST];
	unsigned first, count;
};

struct backend {
	struct line in;
	bool skipping, copying, is_extended, is_dead;
	bool has_work;          /* there is work to commit at Sync */
	struct message running; /* the request that runs the COPY */
	struct line *out;       /* NULL: answers go to told */
	struct message *told;
	unsigned *told_count;
};

struct fixture {
	uint64_t random;
	struct backend server, direct;
	struct line from_client, to_client;
	/* what the client is told through the pooler, and without it */
	struct message told[TOLD_MOST], expected[TOLD_MOST];
	unsigned told_count, expected_count;
	/* the client */
	uint8_t copy_for;  /* type of the request that may have begun a COPY, or 0 */
	uint32_t copy_tag; /* tag of that request */
	unsigned copies;   /* ends of a COPY it still has to send */
	bool is_rude;      /* it sent a request within a COPY */
	uint32_t last_tag;
	struct {
		uint8_t type;
		enum owed_to to;
		unsigned ends; /* how often it was completed or dropped */
	} sent[TAG_MOST];
	/* the pooler in the middle */
	struct pipeline ledger;
	bool is_waiting; /* the client's next message has to wait */
	bool is_amid;    /* the client was told the first piece of a message */
};

static bool is_traced;
static unsigned questions, waits, losses, cuts;

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

static void trace(const char *who, struct message m, const struct fixture *w)
{
	if (is_traced)
		printf("%s %c %u plan %d x%u | count %u copy %d open %d skip %d strays "
		       "%u\n",
		    who, m.type, m.tag, m.plan, m.copies, w->ledger.count,
		    w->ledger.copy, w->ledger.copy_open, w->ledger.skipping,
		    w->ledger.strays);
}

/* ---- backend ---- */

static void answer(struct backend *b, uint8_t type, uint32_t tag)
{
	struct message m = {.type = type, .tag = tag};

	if (b->out) {
		line_put(b->out, m);
		return;
	}
	assert(*b->told_count < TOLD_MOST);
	b->told[(*b->told_count)++] = m;
}

static void fail(struct backend *b, uint32_t tag)
{
	answer(b, 'E', tag);
	b->copying = b->has_work = false;
	if (b->is_extended)
		b->skipping = true;
	else
		answer(b, 'Z', tag);
}

static void begin_copy(struct backend *b, struct message m)
{
	answer(b, 'G', m.tag);
	b->copying = true;
	b->running = m;
}

static void run_statement(struct backend *b, struct message m)
{
	switch (m.plan) {
	case PLAN_ROWS:
		if (m.type == 'Q')
			answer(b, 'T', m.tag);
		for (unsigned n = below(&m.luck, 3); n; n--)
			answer(b, 'D', m.tag);
		answer(b, m.type == 'E' && below(&m.luck, 4) == 0 ? 's' : 'C', m.tag);
		break;
	case PLAN_EMPTY:
		answer(b, 'I', m.tag);
		break;
	case PLAN_COPY_OUT:
		answer(b, 'H', m.tag);
		for (unsigned n = below(&m.luck, 3); n; n--)
			answer(b, 'd', m.tag);
		if (below(&m.luck, 5) == 0) {
			fail(b, m.tag);
			return;
		}
		answer(b, 'c', m.tag);
		answer(b, 'C', m.tag);
		break;
	case PLAN_COPY_IN:
		if (below(&m.luck, 6) == 0)
			fail(b, m.tag);
		else
			begin_copy(b, m);
		return;
	default:
		fail(b, m.tag);
		return;
	}
	if (m.type == 'Q')
		answer(b, 'Z', m.tag);
}

static void backend_copy(struct backend *b, struct message m)
{
	struct message r = b->running;

	switch (m.type) {
	case 'S':
	case 'H':
		return;
	case 'd': /* one data row in five is bad */
		if (below(&m.luck, 5) == 0)
			fail(b, r.tag);
		return;
	case 'c':
		if (below(&m.luck, 5) == 0) {
			fail(b, r.tag);
			return;
		}
		b->copying = false;
		answer(b, 'C', r.tag);
		if (r.type == 'Q' && --r.copies)
			begin_copy(b, r);
		else if (r.type == 'Q')
			answer(b, 'Z', r.tag);
		return;
	case 'f':
		fail(b, r.tag);
		return;
	default: /* ERROR, then FATAL: lost synchronization */
		answer(b, 'E', r.tag);
		answer(b, 'E', r.tag);
		b->is_dead = true;
	}
}

static void backend_simple(struct backend *b, struct message m, uint8_t reply)
{
	if (!m.is_good && below(&m.luck, 8) == 0) {
		fail(b, m.tag);
		return;
	}
	if (m.type == 'D' && below(&m.luck, 2))
		answer(b, 't', m.tag);
	answer(b, reply, m.tag);
}

static void backend_sync(struct backend *b, struct message m)
{
	/* Only a commit can fail here, and only when there is work to commit. */
	if (b->has_work && below(&m.luck, 10) == 0)
		answer(b, 'E', m.tag);
	b->has_work = false;
	answer(b, 'Z', m.tag);
}

static void backend_request(struct backend *b, struct message m)
{
	b->is_extended = strchr("PBDECH", m.type);
	b->has_work |= m.type == 'E';
	switch (m.type) {
	case 'P':
		backend_simple(b, m, '1');
		break;
	case 'B':
		backend_simple(b, m, '2');
		break;
	case 'C':
		backend_simple(b, m, '3');
		break;
	case 'D':
		backend_simple(b, m, "nT"[m.luck % 2]);
		break;
	case 'F':
		if (below(&m.luck, 4) == 0) {
			fail(b, m.tag);
			break;
		}
		answer(b, 'V', m.tag);
		answer(b, 'Z', m.tag);
		break;
	case 'Q':
	case 'E':
		run_statement(b, m);
		break;
	default:
		break; /* H, and COPY messages that come too late */
	}
}

static void backend_read(struct backend *b, struct message m)
{
	if (b->is_dead)
		return;
	if (b->copying) {
		backend_copy(b, m);
		return;
	}
	if (m.type == 'S') {
		b->skipping = false;
		backend_sync(b, m);
	} else if (!b->skipping) {
		backend_request(b, m);
	}
}

static bool server_step(struct fixture *w)
{
	struct message noise = {.type = "NSA"[below(&w->random, 3)]};

	if (!w->server.in.count)
		return false;
	if (below(&w->random, 20) == 0 && !w->server.is_dead)
		line_put(&w->to_client, noise);
	struct message m = line_take(&w->server.in);
	trace("  backend reads", m, w);
	backend_read(&w->server, m);
	return true;
}

/* ---- the pooler ---- */

/* The client must be told the same as without a pooler; any two ReadyForQuery messages
 * are equal here. */
static void tell(struct fixture *w, struct message m)
{
	assert(!w->is_amid);
	assert(w->told_count < w->expected_count);
	struct message e = w->expected[w->told_count++];

	assert(e.type == m.type);
	assert(e.tag == m.tag || m.type == 'Z' || w->sent[m.tag].type == 'S');
}

static void make_up(struct fixture *w)
{
	struct pipeline_entry e;

	while (pipeline_next_made_up(&w->ledger, &e)) {
		assert(e.to == OWED_MADE_UP && e.type == 'P');
		w->sent[e.tag].ends++;
		tell(w, (struct message){.type = '1', .tag = e.tag});
	}
}

static struct message new_message(struct fixture *w, uint8_t type, enum owed_to to)
{
	struct message m = {
	    .type = type,
	    .tag = ++w->last_tag,
	    .luck = random_next(&w->random),
	    .copies = 1,
	};

	assert(m.tag < TAG_MOST);
	w->sent[m.tag].type = type;
	w->sent[m.tag].to = to;
	return m;
}

static void put(struct fixture *w, struct message m, enum owed_to to)
{
	assert(pipeline_owe(&w->ledger, m.type, to, m.tag) == 0);
	trace(to == OWED_CLIENT ? "client"
	      : to == OWED_SELF ? "self"
				: "made up",
	    m, w);
	if (to != OWED_MADE_UP)
		line_put(&w->server.in, m);
}

/* Sends a message of the pooler itself before the client's request. */
static void put_own(struct fixture *w)
{
	struct message m = new_message(w, "PC"[below(&w->random, 2)], OWED_SELF);

	m.is_good = true;
	put(w, m, OWED_SELF);
}

/* Passes on one message of the client, if the ledger allows it. */
static bool pooler_sends(struct fixture *w)
{
	const struct pipeline *p = &w->ledger;

	if (!w->from_client.count)
		return false;
	struct message m = w->from_client.queue[w->from_client.first];
	if (pipeline_must_wait(p, m.type)) {
		if (!w->is_waiting)
			line_put(&w->server.in, (struct message){.type = 'H'});
		waits += !w->is_waiting;
		w->is_waiting = true;
		return false;
	}
	w->is_waiting = false;
	m = line_take(&w->from_client);
	if (pipeline_is_skipping(p) && m.type != 'S') {
		w->sent[m.tag].ends++;
		return true;
	}
	if (strchr("dcf", m.type) && !pipeline_count(p))
		return true;
	if (strchr("PBE", m.type) && below(&w->random, 6) == 0)
		put_own(w);
	if (m.is_good && below(&w->random, 2))
		w->sent[m.tag].to = OWED_MADE_UP;
	put(w, m, w->sent[m.tag].to);
	make_up(w);
	return true;
}

static void note_dropped(void *arg, const struct pipeline_entry *e)
{
	struct fixture *w = arg;

	assert(e->type == w->sent[e->tag].type);
	w->sent[e->tag].ends++;
}

static void ask(struct fixture *w)
{
	static const char question[] = "SCS";

	if (!pipeline_must_ask(&w->ledger))
		return;
	questions++;
	assert(pipeline_ask(&w->ledger) == 0);
	for (size_t i = 0; question[i]; i++) {
		struct message m = new_message(w, (uint8_t)question[i], OWED_SELF);
		m.is_good = true;
		line_put(&w->server.in, m);
	}
}

/* The client gets the first piece of a message. */
static void cut(struct fixture *w)
{
	w->is_amid = true;
	pipeline_set_amid(&w->ledger, true);
	cuts++;
}

static void deliver_rest(struct fixture *w)
{
	w->is_amid = false;
	pipeline_set_amid(&w->ledger, false);
	make_up(w);
}

/* Returns false when the ledger gave up, which is allowed only for a rude client. */
static bool pooler_reads(struct fixture *w)
{
	if (w->is_amid) {
		deliver_rest(w);
		return true;
	}
	struct message m = line_take(&w->to_client);
	struct pipeline_entry done;
	enum answer a =
	    pipeline_answer(&w->ledger, m.type, m.type == 'Z' ? 'I' : 0, &done);

	trace(a == ANSWER_FORWARD ? "    forward" : "    swallow or broken", m, w);
	if (a == ANSWER_BROKEN) {
		assert(w->is_rude && w->ledger.is_lost);
		losses++;
		return false;
	}
	bool is_cut = a == ANSWER_FORWARD && below(&w->random, 4) == 0;
	if (strchr("NSA", m.type)) {
		if (is_cut)
			cut(w);
		return true;
	}
	if (m.type != 'Z')
		assert((a == ANSWER_SWALLOW) == (w->sent[m.tag].to == OWED_SELF));
	if (a == ANSWER_FORWARD)
		tell(w, m);
	if (is_cut)
		cut(w);
	if (done.type && done.type != 'S' && done.tag)
		assert(done.tag == m.tag);
	if (done.type)
		w->sent[done.tag].ends++;
	make_up(w);
	ask(w);
	return true;
}

/* ---- client ---- */

static void say(struct fixture *w, struct message m)
{
	line_put(&w->from_client, m);
	backend_read(&w->direct, m);
}

static void say_type(struct fixture *w, uint8_t type)
{
	say(w, new_message(w, type, OWED_CLIENT));
}

static void end_copy(struct fixture *w, uint8_t type)
{
	say_type(w, type);
	if (--w->copies == 0)
		w->copy_for = 0;
}

static bool has_seen_error(const struct fixture *w, uint32_t tag)
{
	for (unsigned i = 0; i < w->told_count; i++)
		if (w->expected[i].type == 'E' && w->expected[i].tag == tag)
			return true;
	return false;
}

/* A client inside a COPY it asked for, whether or not it has been answered yet: only
 * data, Sync, Flush and the end are allowed. */
static void client_copy(struct fixture *w)
{
	if (has_seen_error(w, w->copy_tag) && below(&w->random, 3)) {
		w->copy_for = 0;
		return;
	}
	switch (below(&w->random, 6)) {
	case 0:
	case 1:
		say_type(w, 'd');
		break;
	case 2:
		say_type(w, 'S');
		break;
	case 3:
		say_type(w, 'H');
		break;
	default:
		if (below(&w->random, 100) == 0) {
			w->is_rude = true;
			w->copy_for = 0;
			break;
		}
		end_copy(w, below(&w->random, 4) ? 'c' : 'f');
	}
}

static void client_begins_copy(struct fixture *w, uint8_t type)
{
	struct message m = new_message(w, type, OWED_CLIENT);

	m.plan = PLAN_COPY_IN;
	m.copies = type == 'Q' ? 1 + below(&w->random, 2) : 1;
	w->copy_for = type;
	w->copy_tag = m.tag;
	w->copies = m.copies;
	say(w, m);
}

static void client_step(struct fixture *w)
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
	struct message m = new_message(w, type, OWED_CLIENT);
	m.plan = below(&w->random, PLAN_COPY_IN);
	m.is_good = type == 'P' && below(&w->random, 3) == 0;
	say(w, m);
}

/* ---- checks ---- */

static void check_ends(const struct fixture *w)
{
	for (uint32_t i = 1; i <= w->last_tag; i++)
		if (strchr("PBDECQF", w->sent[i].type) && w->sent[i].to != OWED_SELF)
			assert(w->sent[i].ends == 1);
}

/* While messages are under way the ledger must not be settled. */
static void check_settled(const struct fixture *w)
{
	if (!pipeline_is_settled(&w->ledger))
		return;
	for (unsigned i = 0; i < w->to_client.count; i++) {
		unsigned at = (w->to_client.first + i) % LINE_MOST;
		assert(strchr("NSA", w->to_client.queue[at].type));
	}
	assert(!w->server.copying && !w->server.skipping);
}

/* Delivers everything; then the client was told the same as without a pooler. */
static bool come_to_rest(struct fixture *w)
{
	bool is_moving = true;

	while (is_moving) {
		is_moving = pooler_sends(w);
		while (server_step(w))
			is_moving = true;
		for (; w->to_client.count || w->is_amid; is_moving = true)
			if (!pooler_reads(w))
				return false;
		check_settled(w);
	}
	if (w->server.is_dead || w->ledger.is_lost)
		return false;
	assert(!w->from_client.count);
	assert(w->told_count == w->expected_count);
	assert(pipeline_is_settled(&w->ledger) ==
	       (!w->direct.copying && !w->direct.skipping));
	return true;
}

static bool finish(struct fixture *w)
{
	while (w->copy_for)
		end_copy(w, 'c');
	if (w->direct.copying || w->direct.is_dead)
		return false; /* a rude client is still inside a COPY */
	if (!come_to_rest(w))
		return false;
	if (w->direct.skipping) {
		say_type(w, 'S');
		if (!come_to_rest(w))
			return false;
	}
	assert(pipeline_is_settled(&w->ledger));
	check_ends(w);
	assert(pipeline_count(&w->ledger) == 0 && w->ledger.syncs == 0);
	assert(!w->ledger.early_ends && !w->ledger.maybes && !w->ledger.strays);
	return true;
}

static bool step(struct fixture *w)
{
	switch (below(&w->random, 60)) {
	case 0:
		return come_to_rest(w);
	case 1 ... 19:
		client_step(w);
		return true;
	case 20 ... 32:
		pooler_sends(w);
		return true;
	case 33 ... 46:
		server_step(w);
		return true;
	default:
		return !(w->to_client.count || w->is_amid) || pooler_reads(w);
	}
}

static void play(uint64_t seed)
{
	static struct fixture w; /* static because it is big; each run clears it */
	bool goes_on = true;

	memset(&w, 0, sizeof(w));
	w.random = seed * 0x9E3779B97F4A7C15u + 1;
	w.server.out = &w.to_client;
	w.direct.told = w.expected;
	w.direct.told_count = &w.expected_count;
	pipeline_init(&w.ledger);
	pipeline_on_drop(&w.ledger, note_dropped, &w);
	for (unsigned n = below(&w.random, 3 * STEPS_MOST); n && goes_on; n--) {
		goes_on = step(&w);
		check_settled(&w);
	}
	if (goes_on)
		goes_on = finish(&w);
	assert(goes_on || w.is_rude);
	pipeline_done(&w.ledger);
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

	printf("seed %llu\n", (unsigned long long)seed);
	setvbuf(stdout, NULL, _IOLBF, 0);
	is_traced = argc > 2;
	if (is_traced) { /* only one run is traced */
		play(seed * ROUNDS + strtoul(argv[2], NULL, 0));
		return 0;
	}
	signal(SIGABRT, tell_run);
	for (; current_run < ROUNDS; current_run++)
		play(seed * ROUNDS + current_run);
	printf("%u messages waited, %u questions, %u ledgers lost by rude clients, "
	       "%u messages in two pieces\n",
	    waits, questions, losses, cuts);
	return 0;
}
