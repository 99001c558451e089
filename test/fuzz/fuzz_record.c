/* links: handoff broker session pool wire auth net conf base */
/*
 * Any bytes as a record of the kind that the first byte says; its highest bit says
 * whether the format is the newest or the oldest one.  An accepted record is encoded to
 * the same bytes, or to others of this version where an older one has sent it, which
 * are encoded to the same bytes; and its ledger is refused or consistent.
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
	int format = len > 0 && data[0] & 0x80 ? RECORD_FORMAT : RECORD_FORMAT_OLDEST;
	enum record_kind kind = len > 0 ? (enum record_kind)(data[0] & 0x7f) : 0;
	struct record record;
	struct buf again, third;

	buf_init(&again, 0);
	buf_init(&third, 0);
	if (len > 0 &&
	    record_decode(&record, kind, format, data + 1, len - 1, arena) == 0) {
		record_encode(&record, format, &again);
		check(again.len == len - 1 && !again.failed);
		check(record_decode(
			  &record, kind, format, again.bytes, again.len, arena) == 0);
		record_encode(&record, format, &third);
		check(third.len == again.len && !third.failed);
		check(
		    third.len == 0 || memcmp(third.bytes, again.bytes, third.len) == 0);
		check(kind == RECORD_SERVER || again.len == 0 ||
		      memcmp(again.bytes, data + 1, again.len) == 0);
		if (record.kind == RECORD_SERVER)
			check_ledger(&record.server);
	}
	buf_done(&third);
	buf_done(&again);
	arena_free(&arena);
	return 0;
}
