/* links: wire base */
/*
 * The ledger under any sequence of messages from both sides, also invalid ones: two
 * bytes a step, sender and message.  Its counts must agree with its ring after each.
 */
#include <stdlib.h>
#include <string.h>

#include "wire/pipeline.h"

enum who { FROM_CLIENT, FROM_US, MADE_UP, FROM_SERVER, WHO_COUNT };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void check_books(const struct pipeline *p)
{
	uint32_t syncs = 0, maybes = 0, early_ends = 0;

	for (uint32_t i = 0; i < p->count; i++) {
		const struct pipeline_entry *e = &p->ring[(p->head + i) & (p->cap - 1)];
		maybes += e->maybe;
		early_ends += e->is_early;
		syncs += !e->maybe && strchr("SQF", e->type);
	}
	check(p->syncs == syncs && p->maybes == maybes);
	check(p->early_ends == early_ends);
	check(p->count <= p->cap);
	check(!p->is_asked || p->is_uncertain);
	check(!p->strays || p->is_uncertain);
	check(!p->count || p->ring[p->head].type != 'c');
	check(!p->maybes || p->copy == 'G');
	check(!pipeline_is_settled(p) || (!p->count && !p->strays));
}

static void step(struct pipeline *p, uint8_t who, uint8_t type)
{
	struct pipeline_entry e;

	if (who % WHO_COUNT == FROM_SERVER)
		pipeline_answer(p, type, who & 4 ? 'I' : 'T', &e);
	else
		check(!pipeline_owe(p, type, (enum owed_to)(who % WHO_COUNT), type));
	if (who & 8 && pipeline_must_ask(p))
		check(!pipeline_ask(p));
	while (pipeline_next_made_up(p, &e))
		check(e.to == OWED_MADE_UP);
	check_books(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct pipeline p;

	pipeline_init(&p);
	for (size_t i = 0; i + 1 < len; i += 2)
		step(&p, data[i], data[i + 1]);
	pipeline_done(&p);
	check(pipeline_is_settled(&p));
	return 0;
}
