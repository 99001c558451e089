/* links: handoff broker session pool wire auth net conf base */
/*
 * Any bytes as a record of the kind that the first byte says, without its highest bit.
 * An accepted record is encoded to the same bytes, and its ledger is refused or
 * consistent.
 */
#include <stdlib.h>
#include <string.h>

#include "handoff/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void check_ledger(const struct record_server *server)
{
	struct pipeline p;
	struct pipeline_entry done;

	pipeline_init(&p);
	if (pipeline_restore(
		&p, &server->ledger, server->entries, server->entry_count) == 0) {
		check(pipeline_count(&p) == server->entry_count);
		for (int i = 0; i < 8; i++) {
			pipeline_answer(&p, (uint8_t) "CZ1D2EZG"[i], 'I', &done);
			while (pipeline_next_made_up(&p, &done))
				;
		}
	}
	pipeline_done(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct arena *arena = arena_new();
	enum record_kind kind = len > 0 ? (enum record_kind)(data[0] & 0x7f) : 0;
	struct record record;
	struct buf again;

	buf_init(&again, 0);
	if (len > 0 && record_decode(&record, kind, data + 1, len - 1, arena) == 0) {
		record_encode(&record, &again);
		check(again.len == len - 1 && !again.failed);
		check(again.len == 0 || memcmp(again.bytes, data + 1, again.len) == 0);
		if (record.kind == RECORD_SERVER)
			check_ledger(&record.server);
	}
	buf_done(&again);
	arena_free(&arena);
	return 0;
}
