/*
 * The ledger: what a server connection owes, kept as a ring of entries.  The head is
 * what the server is answering now.  Markers (type c) stand where the client ended a
 * COPY; they owe nothing and fall off when they reach the head.
 *
 * fits() says what a message is to an entry, without changing anything; the rest
 * carries it out.  Only types are known here, never content.
 */
#include "wire/pipeline.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

enum { RING_LEAST = 8, RING_KEPT = 16, RING_MOST = 1 << 30 };

/* What a message is to the entry at the head. */
enum fit {
	FIT_NONE,  /* out of order */
	FIT_PART,  /* more is to come */
	FIT_DONE,  /* completes it */
	FIT_FAILS, /* ErrorResponse */
};

/* How far the answer to an entry has come. */
struct progress {
	uint8_t copy;
	bool copy_open;
	bool failed;
	bool in_answer;
};

static const struct progress untouched;

/* ---- the ring ---- */

static struct pipeline_entry *entry_at(const struct pipeline *p, uint32_t i)
{
	assert(i < p->count);
	return &p->ring[(p->head + i) & (p->cap - 1)];
}

static struct pipeline_entry *head_of(const struct pipeline *p)
{
	return p->count ? entry_at(p, 0) : NULL;
}

static bool is_run(uint8_t type)
{
	switch (type) {
	case 'P':
	case 'B':
	case 'D':
	case 'E':
	case 'C':
		return true;
	default:
		return false;
	}
}

static bool has_ready(const struct pipeline_entry *e)
{
	return !e->maybe && (e->type == 'S' || e->type == 'Q' || e->type == 'F');
}

/* Is it the server who has to answer it? */
static bool is_servers(const struct pipeline_entry *e)
{
	return e->type != 'c' && e->to != OWED_MADE_UP;
}

static int grow(struct pipeline *p)
{
	uint32_t cap = p->cap ? p->cap * 2 : RING_LEAST;

	if (p->cap >= RING_MOST)
		return -1;
	struct pipeline_entry *ring = try_alloc(cap * sizeof(*ring));
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
	p->count++;
	*entry_at(p, p->count - 1) = e;
	p->syncs += has_ready(&e);
	p->maybes += e.maybe;
	return 0;
}

static struct pipeline_entry take_head(struct pipeline *p)
{
	struct pipeline_entry e = *entry_at(p, 0);

	p->head = (p->head + 1) & (p->cap - 1);
	p->count--;
	p->syncs -= has_ready(&e);
	p->maybes -= e.maybe;
	if (!p->count && p->cap > RING_KEPT) {
		mem_free(p->ring);
		p->ring = NULL;
		p->head = p->cap = 0;
	}
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

/* Markers at the head: the COPY they could have ended is over or never was. */
static void trim(struct pipeline *p)
{
	while (p->count && entry_at(p, 0)->type == 'c')
		take_head(p);
}

static struct pipeline_entry take_answered(struct pipeline *p)
{
	struct pipeline_entry e = take_head(p);

	p->in_answer = p->failed_head = false;
	trim(p);
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

void pipeline_clear(struct pipeline *p)
{
	pipeline_drop_fn *fn = p->on_drop;
	void *arg = p->on_drop_arg;

	pipeline_done(p);
	pipeline_on_drop(p, fn, arg);
}

/* ---- entering ---- */

static bool is_forked(const struct pipeline *p)
{
	return p->fork > 0;
}

/* The second head is never a marker. */
static void pass_markers(struct pipeline *p)
{
	while (p->fork < p->count && entry_at(p, p->fork)->type == 'c')
		p->fork++;
}

/* The server throws away what it reads now, for certain. */
static bool is_skipping_surely(const struct pipeline *p)
{
	return p->skipping && !p->uncertain;
}

/* CopyDone or CopyFail. */
static int owe_copy_end(struct pipeline *p)
{
	p->copy_open = false;
	/* Nothing is owed: no COPY can come that this would end. */
	if (!p->count || is_skipping_surely(p))
		return 0;
	struct pipeline_entry marker = {.type = 'c'};
	if (push(p, marker))
		return -1;
	if (is_forked(p))
		pass_markers(p);
	return 0;
}

/* Is nothing owed but what we make up, if the second head is the right one? */
static bool is_second_idle(const struct pipeline *p)
{
	for (uint32_t i = p->fork; i < p->count; i++)
		if (is_servers(entry_at(p, i)))
			return false;
	return true;
}

/* Our question which head is the right one: what we make up has to wait for the answer,
 * so it stands behind it. */
static void put_question_first(struct pipeline *p)
{
	struct pipeline_entry question = *entry_at(p, p->count - 1);

	for (uint32_t i = p->count - 1; i > p->fork; i--)
		*entry_at(p, i) = *entry_at(p, i - 1);
	*entry_at(p, p->fork) = question;
}

static int owe_entry(struct pipeline *p, struct pipeline_entry e)
{
	if (e.type == 'S')
		e.maybe = p->copy == 'G' && p->copy_open;
	else if (!p->copy)
		/* A client that sends this has left COPY, having seen its error. */
		p->copy_open = false;
	if (is_skipping_surely(p) && e.type != 'S') {
		report_drop(p, &e);
		return 0;
	}
	bool is_question =
	    is_forked(p) && e.to == OWED_SELF && e.type == 'Q' && is_second_idle(p);
	if (push(p, e))
		return -1;
	if (is_question)
		put_question_first(p);
	if (e.type == 'S')
		p->skipping = false;
	else if (p->skipping)
		p->fork++;
	return 0;
}

int pipeline_owe(struct pipeline *p, uint8_t front_type, enum owed_to to, uint32_t tag)
{
	struct pipeline_entry e = {.type = front_type, .to = (uint8_t)to, .tag = tag};

	switch (front_type) {
	case 'c':
	case 'f':
		return owe_copy_end(p);
	case 'P':
	case 'B':
	case 'D':
	case 'E':
	case 'C':
	case 'S':
	case 'Q':
	case 'F':
		return owe_entry(p, e);
	default:
		return 0;
	}
}

/* ---- what fits ---- */

static enum fit fits_when(bool ok, enum fit fit)
{
	return ok ? fit : FIT_NONE;
}

/* While COPY is on, within a Query or an Execute. */
static enum fit fits_copy(const struct progress *so_far, uint8_t back)
{
	switch (so_far->copy) {
	case 'G':
		return fits_when(back == 'C' && !so_far->copy_open, FIT_DONE);
	case 'H':
		return fits_when(back == 'd' || back == 'c', FIT_PART);
	default: /* after CopyBoth its end may be told in rows */
		if (back == 'C')
			return FIT_DONE;
		return fits_when(memchr("dcTD", back, 4), FIT_PART);
	}
}

static enum fit fits_query(const struct progress *so_far, uint8_t back)
{
	if (back == 'Z')
		return fits_when(so_far->in_answer && !so_far->copy, FIT_DONE);
	if (so_far->failed)
		return FIT_NONE;
	if (so_far->copy)
		return fits_copy(so_far, back) ? FIT_PART : FIT_NONE;
	switch (back) {
	case 'T':
	case 'D':
	case 'C':
	case 'I':
	case 'G':
	case 'H':
	case 'W':
		return FIT_PART;
	default:
		return FIT_NONE;
	}
}

static enum fit fits_execute(const struct progress *so_far, uint8_t back)
{
	if (so_far->copy)
		return fits_copy(so_far, back);
	switch (back) {
	case 'D':
	case 'G':
	case 'H':
	case 'W':
		return FIT_PART;
	case 'C':
	case 'I':
	case 's':
		return FIT_DONE;
	default:
		return FIT_NONE;
	}
}

static enum fit fits_describe(const struct progress *so_far, uint8_t back)
{
	if (back == 't')
		return fits_when(!so_far->in_answer, FIT_PART);
	return fits_when(back == 'T' || back == 'n', FIT_DONE);
}

static enum fit fits_function(const struct progress *so_far, uint8_t back)
{
	if (back == 'V')
		return fits_when(!so_far->in_answer, FIT_PART);
	return fits_when(back == 'Z' && so_far->in_answer, FIT_DONE);
}

static enum fit fits(
    const struct pipeline_entry *e, const struct progress *so_far, uint8_t back)
{
	if (e->to == OWED_MADE_UP)
		return FIT_NONE;
	if (back == 'E')
		return FIT_FAILS;
	switch (e->type) {
	case 'P':
		return fits_when(back == '1', FIT_DONE);
	case 'B':
		return fits_when(back == '2', FIT_DONE);
	case 'C':
		return fits_when(back == '3', FIT_DONE);
	case 'S':
		return fits_when(back == 'Z', FIT_DONE);
	case 'D':
		return fits_describe(so_far, back);
	case 'E':
		return fits_execute(so_far, back);
	case 'Q':
		return fits_query(so_far, back);
	case 'F':
		return fits_function(so_far, back);
	default:
		return FIT_NONE;
	}
}

static enum fit fits_head(const struct pipeline *p, uint8_t back)
{
	struct progress so_far = {
	    .copy = p->copy,
	    .copy_open = p->copy_open,
	    .failed = p->failed_head,
	    .in_answer = p->in_answer,
	};

	return p->count ? fits(entry_at(p, 0), &so_far, back) : FIT_NONE;
}

/* ---- COPY ---- */

/* Where, behind the head, the client ended the COPY; count when it has not. */
static uint32_t find_copy_end(const struct pipeline *p)
{
	uint32_t i = 1;

	while (i < p->count && entry_at(p, i)->type != 'c')
		i++;
	return i;
}

/* CopyInResponse or CopyBothResponse: what the client sent eagerly is now read as COPY
 * data, Syncs included. */
static void begin_copy_in(struct pipeline *p, uint8_t back)
{
	uint32_t end = find_copy_end(p);

	p->copy = back;
	p->copy_open = end == p->count;
	for (uint32_t i = 1; back == 'G' && i < end; i++) {
		struct pipeline_entry *e = entry_at(p, i);
		if (e->type == 'S' && !e->maybe) {
			e->maybe = 1;
			p->maybes++;
			p->syncs--;
		}
	}
}

/* Takes the doubtful Syncs and the marker of the COPY that ends out of the ring; what
 * is kept moves up to them, which is little, for they stand close to the head. */
static void take_out_copy(struct pipeline *p)
{
	uint32_t end = p->copy_open ? p->count : find_copy_end(p);
	uint32_t to = end < p->count ? end + 1 : end;
	uint32_t kept = 0;

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

/* COPY IN or BOTH came to its end; a COPY OUT has no entries of its own. */
static void end_copy(struct pipeline *p)
{
	if (p->copy == 'G' || p->copy == 'W')
		take_out_copy(p);
	p->copy = 0;
}

static void note_part(struct pipeline *p, uint8_t back)
{
	p->in_answer = true;
	if (back == 'G' || back == 'W')
		begin_copy_in(p, back);
	else if (back == 'H')
		p->copy = back;
	else if (back == 'c' && p->copy == 'H')
		p->copy = 0;
	else if (back == 'C' && p->copy)
		end_copy(p);
}

/* ---- errors ---- */

static void set_strays(struct pipeline *p, uint32_t strays)
{
	p->strays = strays;
	p->uncertain = strays > 0;
}

/* Something in the run up to the next Sync failed, COPY with Syncs inside it: it is not
 * known which Sync the server goes on from. */
static void fork_run(struct pipeline *p, uint32_t strays)
{
	while (p->maybes)
		drop_head(p);
	trim(p);
	set_strays(p, strays);
	p->stray_due = true;
	p->fork = 0;
	while (p->fork < p->count && entry_at(p, p->fork)->type != 'S')
		p->fork++;
	p->skipping = p->fork == p->count;
}

static struct pipeline_entry fail_run(struct pipeline *p)
{
	uint32_t strays = p->maybes;
	struct pipeline_entry e = take_head(p);

	p->copy = 0;
	p->in_answer = false;
	if (strays) {
		fork_run(p, strays);
		return e;
	}
	while (p->count && entry_at(p, 0)->type != 'S')
		drop_head(p);
	p->skipping = !p->count;
	return e;
}

/* The Query itself still gets its ReadyForQuery; a second error is the end of the
 * connection and changes nothing. */
static void fail_cycle(struct pipeline *p)
{
	uint32_t strays = p->maybes;

	p->failed_head = p->in_answer = true;
	if (p->copy)
		end_copy(p);
	if (strays)
		set_strays(p, strays);
}

/* ---- answering ---- */

static enum answer pass_to(const struct pipeline_entry *e)
{
	return e && e->to == OWED_SELF ? ANSWER_SWALLOW : ANSWER_FORWARD;
}

/* An answer that is not to a Sync comes after all strays.  (An error at a Sync may be
 * about any of the Syncs.) */
static void note_no_strays(struct pipeline *p, uint8_t back)
{
	if (p->uncertain && !p->failed_head && back != 'Z' &&
	    entry_at(p, 0)->type != 'S')
		set_strays(p, 0);
}

static enum answer answer_head(
    struct pipeline *p, uint8_t back, enum fit fit, struct pipeline_entry *done)
{
	enum answer answer = pass_to(head_of(p));

	note_no_strays(p, back);
	if (fit == FIT_PART) {
		note_part(p, back);
	} else if (fit == FIT_DONE) {
		if (p->copy)
			end_copy(p);
		*done = take_answered(p);
	} else if (is_run(entry_at(p, 0)->type)) {
		*done = fail_run(p);
	} else {
		fail_cycle(p);
	}
	return answer;
}

/* What nobody asked for: a ReadyForQuery may be a stray, and an error is the server's
 * last word. */
static enum answer answer_unasked(struct pipeline *p, uint8_t back)
{
	if (back == 'E')
		return ANSWER_FORWARD;
	if (back != 'Z' || !p->strays)
		return ANSWER_BROKEN;
	set_strays(p, p->strays - 1);
	p->skipping = false;
	return ANSWER_FORWARD;
}

static enum answer answer_certain(
    struct pipeline *p, uint8_t back, struct pipeline_entry *done)
{
	enum fit fit = fits_head(p, back);

	return fit ? answer_head(p, back, fit, done) : answer_unasked(p, back);
}

/* There was a stray: the entries at the head are being answered. */
static enum answer answer_first_branch(
    struct pipeline *p, uint8_t back, struct pipeline_entry *done)
{
	p->fork = 0;
	p->skipping = false;
	return answer_certain(p, back, done);
}

/* There was none: the entries at the head were skipped. */
static enum answer answer_second_branch(
    struct pipeline *p, uint8_t back, struct pipeline_entry *done)
{
	for (; p->fork; p->fork--)
		drop_head(p);
	set_strays(p, 0);
	trim(p);
	return answer_certain(p, back, done);
}

/* Would the server's next answer, from this place on, be of this type? */
static bool has_fit(const struct pipeline *p, uint32_t from, uint8_t back)
{
	while (from < p->count && !is_servers(entry_at(p, from)))
		from++;
	if (from == p->count)
		return false;
	struct pipeline_entry *e = entry_at(p, from);
	/* An error at a Sync may be about any of the Syncs, so it tells nothing. */
	return fits(e, &untouched, back) && !(back == 'E' && e->type == 'S');
}

/* Two heads are possible: the message usually fits one only and so tells which.  What
 * we make up would have had to come before it: then it is too late, as it is when both
 * fit. (Only a client that sends Sync within COPY data and goes on without another one,
 * or does not wait for the outcome, gets here at all.) */
static enum answer answer_forked(
    struct pipeline *p, uint8_t back, struct pipeline_entry *done)
{
	bool is_stray = back == 'Z' && p->strays;
	bool first = is_stray || (!p->stray_due && has_fit(p, 0, back));
	bool second = has_fit(p, p->fork, back);

	if (!first && !second)
		return back == 'E' ? ANSWER_FORWARD : ANSWER_BROKEN;
	if (second && entry_at(p, p->fork)->to == OWED_MADE_UP)
		return ANSWER_BROKEN;
	if (!first)
		return answer_second_branch(p, back, done);
	if (!is_stray && (second || entry_at(p, 0)->to == OWED_MADE_UP))
		return ANSWER_BROKEN;
	if (!second)
		return answer_first_branch(p, back, done);
	if (entry_at(p, p->fork)->to != OWED_CLIENT)
		return ANSWER_BROKEN;
	/* A stray, or the Sync of the other branch. */
	p->strays--;
	p->stray_due = false;
	p->fork++;
	pass_markers(p);
	return ANSWER_FORWARD;
}

static bool is_status(uint8_t status)
{
	return status == 'I' || status == 'T' || status == 'E';
}

enum answer pipeline_answer(
    struct pipeline *p, uint8_t back_type, uint8_t status, struct pipeline_entry *done)
{
	struct pipeline_entry unwanted;

	if (!done)
		done = &unwanted;
	memset(done, 0, sizeof(*done));
	if (back_type == 'N' || back_type == 'S' || back_type == 'A')
		return pass_to(is_forked(p) ? NULL : head_of(p));
	if (back_type == 'Z' && !is_status(status))
		return ANSWER_BROKEN;
	return is_forked(p) ? answer_forked(p, back_type, done)
			    : answer_certain(p, back_type, done);
}

bool pipeline_next_made_up(struct pipeline *p, struct pipeline_entry *entry)
{
	struct pipeline_entry *e = head_of(p);

	if (!e || e->to != OWED_MADE_UP || is_forked(p))
		return false;
	*entry = take_answered(p);
	return true;
}

/* ---- asking ---- */

bool pipeline_is_settled(const struct pipeline *p)
{
	return !p->count && !p->copy && !p->copy_open && !p->skipping && !p->uncertain;
}

bool pipeline_is_uncertain(const struct pipeline *p)
{
	return p->uncertain && !p->copy_open && !p->skipping && is_second_idle(p);
}

bool pipeline_is_copy_in(const struct pipeline *p)
{
	return (p->copy == 'G' || p->copy == 'W') && p->copy_open;
}

size_t pipeline_count(const struct pipeline *p)
{
	return p->count;
}

uint32_t pipeline_head_tag(const struct pipeline *p)
{
	const struct pipeline_entry *e = head_of(p);

	return e ? e->tag : 0;
}
