/*
 * Shares out packed records.  Each site gets a batch, which is unpacked on its thread
 * while the control thread waits; a worker that does not answer in time unpacks its
 * batch later.
 */
#include "daemon/takeover_unpack.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "session/workers.h"

struct packed_record *packed_record_new(
    enum record_kind kind, const uint8_t *bytes, size_t len, int fd)
{
	struct packed_record *packed = mem_alloc(sizeof(*packed) + len);

	*packed = (struct packed_record){.kind = kind, .fd = fd, .len = len};
	memcpy(packed->bytes, bytes, len);
	return packed;
}

void packed_record_free(struct packed_record **cp)
{
	struct packed_record *packed = *cp;

	*cp = NULL;
	if (!packed)
		return;
	if (packed->fd >= 0)
		close(packed->fd);
	mem_wipe(packed->bytes, packed->len);
	mem_free(packed);
}

/* Cannot fail: it has succeeded when the record arrived. */
static void decode(
    struct record *record, const struct packed_record *packed, struct arena *arena)
{
	(void)record_decode(record, packed->kind, packed->bytes, packed->len, arena);
}

/* ---- batches ---- */

struct batch {
	struct thread_message message;
	struct site *site;
	struct packed_record *origin; /* owned, as those of the list */
	struct list packed_records;
};

static struct packed_record *copy(const struct packed_record *packed)
{
	return packed_record_new(packed->kind, packed->bytes, packed->len, -1);
}

static struct packed_record *take_first(struct list *packed_records)
{
	struct packed_record *packed =
	    container_of(list_front(packed_records), struct packed_record, node);

	list_remove(packed_records, &packed->node);
	return packed;
}

/* ---- unpacking, on the site's thread ---- */

static int take_fd(struct packed_record *packed)
{
	int fd = packed->fd;

	packed->fd = -1;
	return fd;
}

/* The client has been counted when it was shared out. */
static void unpack_client(struct batch *batch, struct handoff *handoff,
    struct packed_record *packed, const struct record_client *client,
    struct arena *arena)
{
	struct worker *member = batch->site->worker;

	if (member)
		workers_arrival_begins(member);
	if (packed->is_linked) {
		struct packed_record *next = take_first(&batch->packed_records);
		struct record server;

		decode(&server, next, arena);
		handoff_take_client(
		    handoff, client, take_fd(packed), &server.server, take_fd(next));
		packed_record_free(&next);
	} else {
		handoff_take_client(handoff, client, take_fd(packed), NULL, -1);
	}
	if (member)
		workers_arrival_ends(member);
}

static void unpack(
    struct batch *batch, struct handoff *handoff, struct packed_record *packed)
{
	struct arena *arena = arena_new();
	struct record record;

	decode(&record, packed, arena);
	if (record.kind == RECORD_CLIENT)
		unpack_client(batch, handoff, packed, &record.client, arena);
	else if (record.kind == RECORD_SERVER) {
		if (handoff_has_place(handoff, &record.server))
			handoff_take_server(handoff, &record.server, take_fd(packed));
		else
			handoff_dismiss_server(
			    handoff, &record.server, take_fd(packed));
	} else {
		handoff_note(handoff, &record);
	}
	mem_wipe(&record, sizeof(record));
	arena_free(&arena);
}

static struct handoff *open_origin(struct batch *batch)
{
	struct arena *arena = arena_new();
	struct packed_record *from = batch->origin;
	struct record record;
	struct err ignored;

	decode(&record, from, arena);
	struct handoff *handoff = handoff_new(batch->site, &record.origin, &ignored);
	arena_free(&arena);
	return handoff;
}

static void unpack_batch(struct batch *batch)
{
	struct handoff *handoff = open_origin(batch);

	/* The old process still has the descriptors open, too. */
	loop_note_shared(batch->site->loop, true);
	while (!list_is_empty(&batch->packed_records)) {
		struct packed_record *packed = take_first(&batch->packed_records);
		unpack(batch, handoff, packed);
		packed_record_free(&packed);
	}
	handoff_free(&handoff);
	packed_record_free(&batch->origin);
	mem_free(batch);
}

static void unpack_called(struct site *site, void *ctx)
{
	(void)site;
	unpack_batch(ctx);
}

static void unpack_arrived(struct thread_message *message)
{
	unpack_batch(container_of(message, struct batch, message));
}

/* ---- sharing out ---- */

struct sharing {
	struct site *control;
	struct handoff *handoff; /* the control site's */
	struct batch *batches[WORKERS_MOST];
	unsigned count;
	unsigned next_server; /* the batch that gets the next idle server */
	struct unpacked_counts *counts;
};

static void sharing_init(struct sharing *s, const struct packed_record *origin)
{
	struct workers *workers =
	    s->control->worker ? s->control->worker->workers : NULL;

	s->count = workers ? workers->worker_count : 1;
	for (unsigned i = 0; i < s->count; i++) {
		struct site *site = workers ? workers->members[i].site : s->control;
		struct batch *batch = mem_zero(sizeof(*batch));
		batch->site = site;
		batch->origin = copy(origin);
		list_init(&batch->packed_records);
		s->batches[i] = batch;
	}
}

/* The control site also needs what concerns databases, because consoles ask it. */
static void note_at_control(struct sharing *s, const struct packed_record *packed)
{
	struct arena *arena = arena_new();
	struct record record;

	decode(&record, packed, arena);
	handoff_note(s->handoff, &record);
	arena_free(&arena);
}

static void share(struct sharing *s, struct list *packed_records)
{
	while (!list_is_empty(packed_records)) {
		struct packed_record *packed = take_first(packed_records);
		if (packed->kind == RECORD_CLIENT) {
			/* the site for the next client, which counts there from now on
			 */
			struct worker *own = s->control->worker;
			struct batch *batch =
			    s->batches[own ? workers_pick(own->workers)->index : 0];

			s->counts->clients++;
			list_push_back(&batch->packed_records, &packed->node);
			if (packed->is_linked)
				list_push_back(&batch->packed_records,
				    &take_first(packed_records)->node);
		} else if (packed->kind == RECORD_SERVER) {
			s->counts->servers++;
			list_push_back(
			    &s->batches[s->next_server]->packed_records, &packed->node);
			s->next_server = (s->next_server + 1) % s->count;
		} else {
			if (s->control->worker && packed->kind == RECORD_DATABASE)
				note_at_control(s, packed);
			for (unsigned i = 1; i < s->count; i++)
				list_push_back(&s->batches[i]->packed_records,
				    &copy(packed)->node);
			list_push_back(&s->batches[0]->packed_records, &packed->node);
		}
	}
}

static void deliver(struct sharing *s)
{
	struct workers *workers =
	    s->control->worker ? s->control->worker->workers : NULL;

	if (!workers) {
		unpack_batch(s->batches[0]);
		return;
	}
	for (unsigned i = 0; i < s->count; i++) {
		struct batch *batch = s->batches[i];
		batch->message.handle = unpack_arrived;
		if (!workers_call(&workers->members[i], unpack_called, batch))
			workers_post(&workers->members[i], &batch->message);
	}
}

void takeover_unpack(struct site *control, struct handoff *handoff,
    struct list *packed_records, const struct packed_record *origin,
    struct unpacked_counts *counts)
{
	struct sharing s = {.control = control, .handoff = handoff, .counts = counts};

	sharing_init(&s, origin);
	share(&s, packed_records);
	deliver(&s);
}
