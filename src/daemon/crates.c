/*
 * Shares out crates.  Each site gets a batch, which is unpacked on its thread while the
 * control thread waits; a worker that does not answer in time unpacks its batch later.
 */
#include "daemon/crates.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "session/crew.h"

struct crate *crate_new(
    enum parcel_kind kind, int format, const uint8_t *bytes, size_t len, int fd)
{
	struct crate *crate = mem_alloc(sizeof(*crate) + len);

	*crate = (struct crate){.kind = kind, .format = format, .fd = fd, .len = len};
	memcpy(crate->bytes, bytes, len);
	return crate;
}

void crate_free(struct crate **cp)
{
	struct crate *crate = *cp;

	*cp = NULL;
	if (!crate)
		return;
	if (crate->fd >= 0)
		close(crate->fd);
	mem_wipe(crate->bytes, crate->len);
	mem_free(crate);
}

/* Cannot fail: it has succeeded when the crate arrived. */
static void decode(
    struct parcel *parcel, const struct crate *crate, struct arena *arena)
{
	(void)parcel_decode(
	    parcel, crate->kind, crate->format, crate->bytes, crate->len, arena);
}

/* ---- batches ---- */

struct batch {
	struct letter letter;
	struct site *site;
	struct crate *origin; /* owned, as the crates of the list */
	struct list crates;
};

static struct crate *copy(const struct crate *crate)
{
	return crate_new(crate->kind, crate->format, crate->bytes, crate->len, -1);
}

static struct crate *take_first(struct list *crates)
{
	struct crate *crate = container_of(list_first(crates), struct crate, node);

	list_remove(crates, &crate->node);
	return crate;
}

/* ---- unpacking, on the site's thread ---- */

static int take_fd(struct crate *crate)
{
	int fd = crate->fd;

	crate->fd = -1;
	return fd;
}

static void unpack_pair(struct batch *batch, struct moving *moving,
    const struct parcel_client *client, int fd, struct arena *arena)
{
	struct crate *next = take_first(&batch->crates);
	struct parcel server;

	decode(&server, next, arena);
	moving_take_client(moving, client, fd, &server.server, take_fd(next));
	crate_free(&next);
}

/* The client has been counted when it was shared out. */
static void unpack_client(struct batch *batch, struct moving *moving,
    struct crate *crate, const struct parcel_client *client, struct arena *arena)
{
	struct crew_member *member = batch->site->crew;

	if (member)
		crew_arrival_begins(member);
	if (crate->is_linked)
		unpack_pair(batch, moving, client, take_fd(crate), arena);
	else
		moving_take_client(moving, client, take_fd(crate), NULL, -1);
	if (member)
		crew_arrival_ends(member);
}

static void unpack(struct batch *batch, struct moving *moving, struct crate *crate)
{
	struct arena *arena = arena_new();
	struct parcel parcel;

	decode(&parcel, crate, arena);
	if (parcel.kind == PARCEL_CLIENT)
		unpack_client(batch, moving, crate, &parcel.client, arena);
	else if (parcel.kind == PARCEL_SERVER) {
		if (moving_has_place(moving, &parcel.server))
			moving_take_server(moving, &parcel.server, take_fd(crate));
		else
			moving_dismiss_server(moving, &parcel.server, take_fd(crate));
	} else {
		moving_note(moving, &parcel);
	}
	mem_wipe(&parcel, sizeof(parcel));
	arena_free(&arena);
}

static struct moving *open_origin(struct batch *batch)
{
	struct arena *arena = arena_new();
	struct crate *from = batch->origin;
	struct parcel parcel;
	struct err ignored;

	decode(&parcel, from, arena);
	struct moving *moving = moving_new(batch->site, &parcel.origin, &ignored);
	arena_free(&arena);
	return moving;
}

static void unpack_batch(struct batch *batch)
{
	struct moving *moving = open_origin(batch);

	/* The old process still has the descriptors open, too. */
	loop_note_shared(batch->site->loop, true);
	while (!list_is_empty(&batch->crates)) {
		struct crate *crate = take_first(&batch->crates);
		unpack(batch, moving, crate);
		crate_free(&crate);
	}
	moving_free(&moving);
	crate_free(&batch->origin);
	mem_free(batch);
}

static void unpack_called(struct site *site, void *ctx)
{
	(void)site;
	unpack_batch(ctx);
}

static void unpack_opened(struct letter *letter)
{
	unpack_batch(container_of(letter, struct batch, letter));
}

/* ---- sharing out ---- */

struct sharing {
	struct site *control;
	struct moving *moving; /* the control site's */
	struct batch *batches[CREW_MOST];
	unsigned count;
	unsigned next_server; /* the batch that gets the next idle server */
	struct crates_counts *counts;
};

static void sharing_init(struct sharing *s, const struct crate *origin)
{
	struct crew *crew = s->control->crew ? s->control->crew->crew : NULL;

	s->count = crew ? crew->worker_count : 1;
	for (unsigned i = 0; i < s->count; i++) {
		struct site *site = crew ? crew->members[i].site : s->control;
		struct batch *batch = mem_zero(sizeof(*batch));
		batch->site = site;
		batch->origin = copy(origin);
		list_init(&batch->crates);
		s->batches[i] = batch;
	}
}

/* The control site also needs what concerns databases, because consoles ask it. */
static void note_at_control(struct sharing *s, const struct crate *crate)
{
	struct arena *arena = arena_new();
	struct parcel parcel;

	decode(&parcel, crate, arena);
	moving_note(s->moving, &parcel);
	arena_free(&arena);
}

static void share(struct sharing *s, struct list *crates)
{
	while (!list_is_empty(crates)) {
		struct crate *crate = take_first(crates);
		if (crate->kind == PARCEL_CLIENT) {
			/* the site for the next client, which counts there from now on
			 */
			struct crew_member *own = s->control->crew;
			struct batch *batch =
			    s->batches[own ? crew_pick(own->crew)->index : 0];

			s->counts->clients++;
			list_push_back(&batch->crates, &crate->node);
			if (crate->is_linked)
				list_push_back(
				    &batch->crates, &take_first(crates)->node);
		} else if (crate->kind == PARCEL_SERVER) {
			s->counts->servers++;
			list_push_back(
			    &s->batches[s->next_server]->crates, &crate->node);
			s->next_server = (s->next_server + 1) % s->count;
		} else {
			if (s->control->crew && crate->kind == PARCEL_DATABASE)
				note_at_control(s, crate);
			for (unsigned i = 1; i < s->count; i++)
				list_push_back(
				    &s->batches[i]->crates, &copy(crate)->node);
			list_push_back(&s->batches[0]->crates, &crate->node);
		}
	}
}

static void deliver(struct sharing *s)
{
	struct crew *crew = s->control->crew ? s->control->crew->crew : NULL;

	if (!crew) {
		unpack_batch(s->batches[0]);
		return;
	}
	for (unsigned i = 0; i < s->count; i++) {
		struct batch *batch = s->batches[i];
		batch->letter.open = unpack_opened;
		if (!crew_call(&crew->members[i], unpack_called, batch))
			crew_post(&crew->members[i], &batch->letter);
	}
}

void crates_unpack(struct site *control, struct moving *moving, struct list *crates,
    const struct crate *origin, struct crates_counts *counts)
{
	struct sharing s = {.control = control, .moving = moving, .counts = counts};

	sharing_init(&s, origin);
	share(&s, crates);
	deliver(&s);
}
