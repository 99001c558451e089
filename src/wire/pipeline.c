/*
 * The ledger: what a server connection owes, kept as a ring of entries.  The head is
 * what the server is answering now.  Markers (type c) stand where the client ended a
 * COPY; they owe nothing and fall off when they reach the head.
 *
 * fits() says what a message is to an entry, without changing anything; the rest
 * carries it out.  Only types are known here, never content.
 *
 * Why it is exact.  What the server makes of a message follows from the types before
 * it, but for one thing: a server that reads COPY data eats Syncs, and when the COPY
 * fails nobody else knows how many it had eaten.  That is all that is unknown, and what
 * hangs on it is (1) how many ReadyForQuery come, and (2) in the extended protocol
 * whether the server skips what stands between the COPY and the next Sync.
 *   A. Behind a Sync that a COPY may eat and the end of that COPY, no request is sent
 *      before the COPY is over (pipeline_must_wait).  What is sent is COPY messages,
 *      which a server that does not copy ignores, Flush, and Sync, which is answered.
 *   B. So, when the COPY fails, the server owes as many ReadyForQuery as there are
 *      Syncs behind the end of the COPY, and up to `strays` more: all alike, for
 *      nothing runs between them.
 *   C. Then our question is sent, Sync, Close of nothing, Sync, and nothing else before
 *      its CloseComplete.  No other message can answer that Close, so every
 *      ReadyForQuery before it but one, that of our Sync, is the client's, and since
 *      they are all alike it does not matter which one is kept back.  With that (1) is
 *      known: what came is what was owed.
 *   D. The server went on from a Sync of the client exactly if one was owed or a stray
 *      came.  If not, the client is where PostgreSQL skips all up to its next Sync, and
 *      so it is kept (`skipping`), although our Sync has ended that on the server:
 *      nothing of it is sent (pipeline_is_skipping).  That is (2).
 *   E. A request between a COPY and its end is the client's fault: PostgreSQL ends the
 *      connection over it with two errors.  From there on nothing but errors is taken
 *      (`is_lost`), also if the COPY failed before it came to that.
 * A question to the server always gets its answer, and what is held back waits for
 * nothing but answers to what was sent: the COPY has its end (A), the question needs
 * nothing (C).
 */
#include "wire/pipeline.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

/* RING_KEPT: a ring with more room is freed when nothing is owed. */
enum { RING_LEAST = 8, RING_KEPT = 128, RING_MOST = 1 << 20 };

/* What a message is for the entry at the head. */
enum fit {
	FIT_NONE = PIPELINE_NO_ANSWER,
	FIT_PART = PIPELINE_PART,
	FIT_DONE = PIPELINE_WHOLE,
	FIT_FAILS, /* it is an ErrorResponse */
};

/* Turns the type of an entry into an index. */
#define TYPE(letter) PIPELINE_INDEX(letter)
enum { TYPES = PIPELINE_TYPES, ANSWERS = PIPELINE_ANSWERS };

const uint8_t pipeline_ordinary[TYPES][ANSWERS] = {
    [TYPE('P')] = {['1'] = FIT_DONE},
    [TYPE('B')] = {['2'] = FIT_DONE},
    [TYPE('C')] = {['3'] = FIT_DONE},
    [TYPE('D')] = {['t'] = FIT_PART, ['T'] = FIT_DONE, ['n'] = FIT_DONE},
    [TYPE('E')] = {['D'] = FIT_PART,
	['G'] = FIT_PART,
	['H'] = FIT_PART,
	['W'] = FIT_PART,
	['C'] = FIT_DONE,
	['I'] = FIT_DONE,
	['s'] = FIT_DONE},
    [TYPE('Q')] = {['T'] = FIT_PART,
	['D'] = FIT_PART,
	['C'] = FIT_PART,
	['I'] = FIT_PART,
	['G'] = FIT_PART,
	['H'] = FIT_PART,
	['W'] = FIT_PART},
    [TYPE('S')] = {['Z'] = FIT_DONE},
};

/* How much of the answer to an entry has been seen. */
struct progress {
	uint8_t copy;
	bool copy_open;
	bool failed;
	bool in_answer;
};

/* ---- the ring ---- */

static struct pipeline_entry *entry_at(const struct pipeline *p, uint32_t i)
{
	assert(p->ring && i < p->count);
	return &p->ring[(p->head + i) & (p->cap - 1)];
}

static struct pipeline_entry *head_of(const struct pipeline *p)
{
	return p->count ? entry_at(p, 0) : NULL;
}

static bool is_run(uint8_t type)
{
	static const bool is_it[TYPES] = {[TYPE('P')] = true,
	    [TYPE('B')] = true,
	    [TYPE('D')] = true,
	    [TYPE('E')] = true,
	    [TYPE('C')] = true};

	return is_it[TYPE(type)];
}

static bool has_ready(const struct pipeline_entry *e)
{
	static const bool is_cycle[TYPES] = {
	    [TYPE('S')] = true, [TYPE('Q')] = true, [TYPE('F')] = true};

	return is_cycle[TYPE(e->type)] && !e->maybe;
}

static int grow(struct pipeline *p)
{
	uint32_t cap = p->cap ? p->cap * 2 : RING_LEAST;

	if (p->cap >= RING_MOST)
		return -1;
	struct pipeline_entry *ring = mem_try(cap * sizeof(*ring));
	if (!ring)
		return -1;
	for (uint32_t i = 0; i < p->count; i++)
		ring[i] = *entry_at(p, i);
	mem_free(p->ring);
	p->ring = ring;
	p->head = 0;
	p->cap = cap;
	return 0;
}

static int push(struct pipeline *p, struct pipeline_entry e)
{
	if (p->count == p->cap && grow(p))
		return -1;
	p->ring[(p->head + p->count++) & (p->cap - 1)] = e;
	if (is_run(e.type))
		return 0;
	p->syncs += has_ready(&e);
	p->maybes += e.maybe;
	p->early_ends += e.is_early;
	return 0;
}

static void release(struct pipeline *p)
{
	if (p->count || p->cap <= RING_KEPT)
		return;
	mem_free(p->ring);
	p->ring = NULL;
	p->head = p->cap = 0;
}

static struct pipeline_entry take_head(struct pipeline *p)
{
	struct pipeline_entry e = *entry_at(p, 0);

	p->head = (p->head + 1) & (p->cap - 1);
	p->count--;
	if (!is_run(e.type)) {
		p->syncs -= has_ready(&e);
		p->maybes -= e.maybe;
		p->early_ends -= e.is_early;
	}
	release(p);
	return e;
}

static void report_drop(const struct pipeline *p, const struct pipeline_entry *e)
{
	if (p->on_drop && e->type != 'c' && !e->maybe)
		p->on_drop(p->on_drop_arg, e);
}

static void drop_head(struct pipeline *p)
{
	struct pipeline_entry e = take_head(p);

	report_drop(p, &e);
}

/* Removes markers at the head.  The COPY that they could have ended is over or never
 * began. */
void pipeline_trim(struct pipeline *p)
{
	while (p->count && entry_at(p, 0)->type == 'c')
		take_head(p);
	release(p);
}

static struct pipeline_entry take_answered(struct pipeline *p)
{
	struct pipeline_entry e = take_head(p);

	p->in_answer = p->failed_head = false;
	pipeline_trim(p);
	return e;
}

/* ---- life ---- */

void pipeline_init(struct pipeline *p)
{
	memset(p, 0, sizeof(*p));
}

void pipeline_done(struct pipeline *p)
{
	mem_free(p->ring);
	pipeline_init(p);
}

void pipeline_on_drop(struct pipeline *p, pipeline_drop_fn *fn, void *arg)
{
	p->on_drop = fn;
	p->on_drop_arg = arg;
}

/* ---- in another process ---- */

const struct pipeline_entry *pipeline_at(const struct pipeline *p, uint32_t i)
{
	return entry_at(p, i);
}

static bool is_possible(const struct pipeline_entry *e)
{
	return (is_run(e->type) || memchr("SQFc", e->type, 4)) &&
	       e->to <= OWED_MADE_UP && e->maybe <= 1 && e->is_early <= 1 &&
	       (!e->maybe || e->type == 'S') && (!e->is_early || e->type == 'c');
}

/* Checks that the state could belong to an entry like the one at the head. */
static bool is_possible_state(
    const struct pipeline *state, const struct pipeline_entry *head)
{
	if (!head)
		return !state->copy && !state->copy_open && !state->failed_head &&
		       !state->in_answer;
	if (head->type == 'c' || head->maybe || head->to == OWED_MADE_UP ||
	    (state->copy_open && !state->copy))
		return false;
	return !state->copy || (memchr("GHW", state->copy, 3) &&
				   (head->type == 'Q' || head->type == 'E'));
}

int pipeline_restore(struct pipeline *p, const struct pipeline *state,
    const struct pipeline_entry *entries, size_t count)
{
	if (!is_possible_state(state, count ? entries : NULL))
		return -1;
	for (size_t i = 0; i < count; i++)
		if (!is_possible(&entries[i]) ||
		    (entries[i].maybe && state->copy != 'G') || push(p, entries[i]) < 0)
			return -1;
	p->copy = state->copy;
	p->copy_open = state->copy_open;
	p->skipping = state->skipping;
	p->failed_head = state->failed_head;
	p->in_answer = state->in_answer;
	return 0;
}

/* ---- entering ---- */

/* Whether the server takes what it receives as COPY data. */
static bool is_eating(const struct pipeline *p)
{
	return p->copy == 'G' && p->copy_open;
}

/* Enters a CopyDone or CopyFail. */
static int owe_copy_end(struct pipeline *p)
{
	struct pipeline_entry marker = {
	    .type = 'c',
	    .is_early = !(p->copy && p->copy_open),
	};

	p->copy_open = false;
	/* no COPY can come that this would end */
	if (!p->count || p->skipping || p->is_uncertain)
		return 0;
	return push(p, marker);
}

static int owe_entry(struct pipeline *p, struct pipeline_entry e)
{
	if (e.type == 'S')
		e.maybe = is_eating(p);
	else if (p->is_uncertain || is_eating(p))
		p->is_lost = true;
	if (pipeline_is_skipping(p) && e.type != 'S') {
		report_drop(p, &e);
		return 0;
	}
	if (push(p, e))
		return -1;
	if (e.type == 'S')
		p->skipping = false;
	return 0;
}

int pipeline_owe(struct pipeline *p, uint8_t front_type, enum owed_to to, uint32_t tag)
{
	struct pipeline_entry e = {.type = front_type, .to = (uint8_t)to, .tag = tag};

	switch (front_type) {
	case 'P':
	case 'B':
	case 'D':
	case 'E':
	case 'C':
		if (!p->copy && !p->skipping && !p->is_uncertain)
			return push(p, e);
		return owe_entry(p, e);
	case 'c':
	case 'f':
		return owe_copy_end(p);
	case 'S':
	case 'Q':
	case 'F':
		return owe_entry(p, e);
	default:
		return 0;
	}
}

int pipeline_ask(struct pipeline *p)
{
	static const char question[] = "SCS";

	assert(p->is_uncertain);
	for (size_t i = 0; question[i]; i++) {
		struct pipeline_entry e = {
		    .type = (uint8_t)question[i], .to = OWED_SELF};
		if (push(p, e))
			return -1;
	}
	p->is_asked = true;
	return 0;
}

/* ---- what fits ---- */

static enum fit fits_when(bool ok, enum fit fit)
{
	return ok ? fit : FIT_NONE;
}

/* How a message belongs to a Query or Execute while a COPY is running. */
static enum fit fits_copy(const struct progress *so_far, uint8_t back)
{
	switch (so_far->copy) {
	case 'G':
		return fits_when(back == 'C' && !so_far->copy_open, FIT_DONE);
	case 'H':
		return fits_when(back == 'd' || back == 'c', FIT_PART);
	default: /* COPY BOTH: rows may follow its end */
		if (back == 'C')
			return FIT_DONE;
		return fits_when(memchr("dcTD", back, 4), FIT_PART);
	}
}

static enum fit ordinarily(uint8_t type, uint8_t back)
{
	return back < ANSWERS ? (enum fit)pipeline_ordinary[TYPE(type)][back]
			      : FIT_NONE;
}

static enum fit fits_query(const struct progress *so_far, uint8_t back)
{
	if (back == 'Z')
		return fits_when(so_far->in_answer && !so_far->copy, FIT_DONE);
	if (so_far->failed)
		return FIT_NONE;
	if (so_far->copy)
		return fits_copy(so_far, back) ? FIT_PART : FIT_NONE;
	return ordinarily('Q', back);
}

static enum fit fits(
    const struct pipeline_entry *e, const struct progress *so_far, uint8_t back)
{
	if (e->to == OWED_MADE_UP)
		return FIT_NONE;
	if (back == 'E')
		return FIT_FAILS;
	switch (e->type) {
	case 'D':
		if (back == 't' && so_far->in_answer)
			return FIT_NONE;
		break;
	case 'E':
		if (so_far->copy)
			return fits_copy(so_far, back);
		break;
	case 'Q':
		return fits_query(so_far, back);
	case 'F':
		return back == 'V'
			   ? fits_when(!so_far->in_answer, FIT_PART)
			   : fits_when(back == 'Z' && so_far->in_answer, FIT_DONE);
	default:
		break;
	}
	return ordinarily(e->type, back);
}

/* ---- COPY ---- */

/* Returns the index of the entry where the client ended the COPY; p->count when it has
 * not. */
static uint32_t find_copy_end(const struct pipeline *p)
{
	uint32_t i = 1;

	while (i < p->count && entry_at(p, i)->type != 'c')
		i++;
	return i;
}

/* The server sent CopyInResponse or CopyBothResponse: it reads as COPY data what the
 * client has already sent, including Syncs. */
static void begin_copy_in(struct pipeline *p, uint8_t back)
{
	uint32_t end = find_copy_end(p);

	p->copy = back;
	p->copy_open = end == p->count;
	for (uint32_t i = 1; back == 'G' && i < end; i++) {
		struct pipeline_entry *e = entry_at(p, i);
		p->is_lost = p->is_lost || e->type != 'S';
		if (e->type == 'S' && !e->maybe) {
			e->maybe = 1;
			p->maybes++;
			p->syncs--;
		}
	}
}

/* Removes the doubtful Syncs and the marker of the ended COPY from the ring.  The
 * entries in front of them move up; there are few, because those stand close to the
 * head. */
static void take_out_copy(struct pipeline *p)
{
	uint32_t end = p->copy_open ? p->count : find_copy_end(p);
	uint32_t to = end < p->count ? end + 1 : end;
	uint32_t kept = 0;

	if (end < p->count)
		p->early_ends -= entry_at(p, end)->is_early;
	for (uint32_t i = end; i-- > 0;) {
		struct pipeline_entry e = *entry_at(p, i);
		if (e.maybe)
			continue;
		*entry_at(p, to - ++kept) = e;
	}
	p->head = (p->head + to - kept) & (p->cap - 1);
	p->count -= to - kept;
	p->maybes = 0;
}

/* A COPY IN or BOTH has ended.  (A COPY OUT has no entries of its own.) */
static void end_copy(struct pipeline *p)
{
	if (p->copy == 'G' || p->copy == 'W')
		take_out_copy(p);
	p->copy = 0;
}

/* ---- errors ---- */

/* The COPY at the head has failed, and it is unknown how many Syncs it has eaten. */
static void begin_doubt(struct pipeline *p)
{
	p->strays = p->maybes;
	p->is_uncertain = p->strays > 0;
}

static struct pipeline_entry fail_run(struct pipeline *p)
{
	if (p->maybes)
		begin_doubt(p);
	struct pipeline_entry e = take_head(p);

	p->copy = 0;
	p->copy_open = p->in_answer = false;
	while (p->maybes)
		drop_head(p);
	while (p->count && entry_at(p, 0)->type != 'S')
		drop_head(p);
	p->skipping = p->skipping || !p->count;
	return e;
}

/* ---- answering ---- */

static enum answer pass_to(const struct pipeline_entry *e)
{
	return e && e->to == OWED_SELF ? ANSWER_SWALLOW : ANSWER_FORWARD;
}

static enum answer answer_head(
    struct pipeline *p, uint8_t back, enum fit fit, struct pipeline_entry *done)
{
	enum answer answer = pass_to(head_of(p));

	/* this is the Close that pipeline_ask has sent; nothing else can answer it */
	if (p->is_asked && entry_at(p, 0)->type == 'C') {
		p->strays = 0;
		p->is_uncertain = p->is_asked = false;
	}
	if (fit == FIT_PART) {
		p->in_answer = true;
		if (back == 'G' || back == 'W')
			begin_copy_in(p, back);
		else if (back == 'H')
			p->copy = back;
		else if (back == 'c' && p->copy == 'H')
			p->copy = 0;
		else if (back == 'C' && p->copy)
			end_copy(p);
	} else if (fit == FIT_DONE) {
		if (p->copy)
			end_copy(p);
		*done = take_answered(p);
	} else if (is_run(entry_at(p, 0)->type)) {
		*done = fail_run(p);
	} else {
		/* A Query failed.  It still gets its ReadyForQuery; a second error
		 * would mean that the connection ends, and changes nothing here. */
		p->failed_head = p->in_answer = true;
		if (p->maybes)
			begin_doubt(p);
		if (p->copy)
			end_copy(p);
		p->copy_open = false;
	}
	return answer;
}

/* Handles a message when no answer is owed.  A ReadyForQuery may be a stray, and an
 * error is the last message before the server closes. */
static enum answer answer_unasked(struct pipeline *p, uint8_t back)
{
	if (back == 'E')
		return ANSWER_FORWARD;
	if (back != 'Z' || !p->strays)
		return ANSWER_BROKEN;
	p->strays--;
	p->skipping = false;
	return ANSWER_FORWARD;
}

enum answer pipeline_answer(
    struct pipeline *p, uint8_t back_type, uint8_t status, struct pipeline_entry *done)
{
	struct pipeline_entry unwanted;

	if (!done)
		done = &unwanted;
	*done = (struct pipeline_entry){0};
	if (back_type == 'N' || back_type == 'S' || back_type == 'A')
		return pass_to(p->is_asked ? NULL : head_of(p));
	if (p->is_lost)
		return back_type == 'E' ? ANSWER_FORWARD : ANSWER_BROKEN;
	if (back_type == 'Z' && status != 'I' && status != 'T' && status != 'E')
		return ANSWER_BROKEN;
	struct progress so_far = {
	    .copy = p->copy,
	    .copy_open = p->copy_open,
	    .failed = p->failed_head,
	    .in_answer = p->in_answer,
	};
	enum fit fit = p->count ? fits(entry_at(p, 0), &so_far, back_type) : FIT_NONE;
	return fit ? answer_head(p, back_type, fit, done)
		   : answer_unasked(p, back_type);
}

bool pipeline_next_made_up(struct pipeline *p, struct pipeline_entry *entry)
{
	if (!pipeline_has_made_up(p))
		return false;
	*entry = take_answered(p);
	return true;
}

/* ---- asking ---- */

bool pipeline_may_wait(const struct pipeline *p, uint8_t front_type)
{
	if (memchr("dcfHX", front_type, 5))
		return false;
	if (p->is_uncertain || front_type == 'S')
		return p->is_uncertain;
	return p->early_ends || (p->copy == 'G' && !p->copy_open && p->maybes);
}

bool pipeline_is_copy_in(const struct pipeline *p)
{
	return (p->copy == 'G' || p->copy == 'W') && p->copy_open;
}

bool pipeline_ends_run(const struct pipeline *p)
{
	uint32_t i = p->count;

	if (!i || entry_at(p, i - 1)->type != 'c')
		return false;
	for (i--; i && entry_at(p, i - 1)->type == 'S'; i--)
		;
	return i && entry_at(p, i - 1)->type == 'E';
}

uint32_t pipeline_head_tag(const struct pipeline *p)
{
	const struct pipeline_entry *e = head_of(p);

	return e ? e->tag : 0;
}
