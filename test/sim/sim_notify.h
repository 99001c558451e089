/*
 * What sessions of servers have beside parameters, for session_state=keep.
 */
#ifndef TEST_SIM_SIM_NOTIFY_H
#define TEST_SIM_SIM_NOTIFY_H

#include "sim.h"

enum { PLANS = 64, NAME_MAX_LEN = 64 };

enum plan_kind { PLAN_LISTEN, PLAN_UNLISTEN, PLAN_NOTIFY };
/* What a COMMIT does. */
struct plan {
	enum plan_kind kind;
	int channel; /* -1: all */
	char payload[40];
};

struct belongings {
	struct node node;
	uint32_t pid;
	long temp;         /* the number of its temporary table; 0: none */
	unsigned channels; /* bits */
	struct plan plans[PLANS];
	unsigned plan_count;
	struct buf notes;    /* notifications that wait for the end of a transaction */
	struct event signal; /* some have come */
};

void belongings_init(struct belongings *b, uint32_t pid, void (*run)(struct event *e));
void belongings_done(struct belongings *b);
void belongings_plan(
    struct belongings *b, enum plan_kind kind, int channel, const char *payload);
void belongings_end(struct belongings *b, bool is_commit);   /* of a transaction */
void belongings_take(struct belongings *b, struct buf *out); /* what waits */
void belongings_discard(struct belongings *b);
/* Does the pooler ask what is left in the session?  The rows of the answer, and how
 * many there are. */
bool belongings_is_question(const char *text);
int belongings_answer(const struct belongings *b, const struct gucs *gucs,
    const char *text, struct buf *out);
/* Settings that the pooler brings along. */
void belongings_put(struct gucs *gucs, const char *text);

#endif
