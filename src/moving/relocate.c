/*
 * Clients that go from one worker to another.  What a client sends meanwhile stays in
 * its socket, or is described with it.
 */
#include "moving/relocate.h"

#include <unistd.h>

#include "moving/bundle.h"
#include "pool/activity.h"
#include "session/client.h"
#include "session/client_snapshot.h"

/* How many clients are described in one step, which is about a millisecond's work, and
 * how many are looked at to find some that rest. */
enum { GO_AT_ONCE = 16, LOOK_AT_ONCE = 256 };

/* The clients that were chosen. */
struct relocation {
	struct client_snapshot snapshot;
};

/* A client on its way. */
struct traveller {
	struct letter letter;
	struct node node; /* until it is posted */
	struct crew_member *to;
	struct cancel_key key; /* until it is admitted */
	/* owned; where it counts until it is admitted */
	char *database, *user;
	struct bundle parcels;
	int fd;            /* owned until it is admitted */
	struct tls *tls;   /* owned until it is admitted; NULL: no TLS */
	struct buf sealed; /* records received but not read */
};

/* ---- the choice ---- */

void relocate_watch(struct site *site)
{
	relocate_end(site);
	activity_begin(site->catalog);
}

static struct relocation *begin(struct site *site)
{
	site->relocation = mem_zero(sizeof(*site->relocation));
	client_snapshot_begin(&site->relocation->snapshot, site);
	return site->relocation;
}

static void choose_from(
    struct relocation *r, const struct activity *activity, unsigned percent)
{
	/* by how much the one worker would still do more than the other */
	uint64_t ahead = activity->total * percent / 100 * 2;

	for (size_t i = 0; i < activity->count; i++) {
		const struct activity_entry *entry = &activity->entries[i];
		/* A client that makes most of the difference alone would only turn it
		 * round, and move again and again. */
		if (!entry->ask || entry->count * 4 > ahead * 3)
			continue;
		client_snapshot_add(
		    &r->snapshot, container_of(entry->ask, struct client, request.ask));
		ahead -= entry->count * 2 < ahead ? entry->count * 2 : ahead;
	}
}

size_t relocate_choose_active(struct site *site, unsigned percent)
{
	const struct activity *activity = site->catalog->activity;
	struct relocation *r;

	if (!activity)
		return 0;
	r = begin(site);
	choose_from(r, activity, percent);
	activity_end(site->catalog);
	return r->snapshot.count;
}

size_t relocate_choose_idle(struct site *site, size_t most)
{
	struct relocation *r;

	relocate_end(site);
	r = begin(site);
	if (!site->idle_walk.next)
		list_walk_begin(&site->idle_walk, &site->clients);
	for (int i = 0; i < LOOK_AT_ONCE && r->snapshot.count < most; i++) {
		struct node *node = list_walk_next(&site->idle_walk, &site->clients);
		if (!node)
			break;
		struct client *client = container_of(node, struct client, site_node);
		if (moving_is_at_rest(client))
			client_snapshot_add(&r->snapshot, client);
	}
	return r->snapshot.count;
}

/* ---- departure ---- */

static void gone(struct conn *conn, const char *reason)
{
	(void)conn;
	(void)reason;
}

/* It has left everything already. */
static const struct conn_ops gone_ops = {
    .name = "moved",
    .closed = gone,
};

static void traveller_free(struct traveller *t)
{
	cancel_keys_remove(t->to->crew->cancel_keys, &t->key);
	if (t->fd >= 0)
		close(t->fd);
	tls_free(&t->tls);
	bundle_done(&t->parcels);
	buf_wipe_done(&t->sealed);
	mem_free(t->database);
	mem_free(t->user);
	mem_free(t);
}

static struct traveller *traveller_new(
    const struct client *client, struct crew_member *to)
{
	struct traveller *t = mem_zero(sizeof(*t));

	t->to = to;
	t->database = mem_strdup(client->database->name);
	t->user = mem_strdup(client->user->name);
	bundle_init(&t->parcels);
	buf_init(&t->sealed, 0);
	t->fd = -1;
	return t;
}

/* The client counts for the receiver, and nothing here knows it any more. */
static void leave(struct client *client, struct crew_member *to)
{
	struct conn *conn = &client->conn;

	client->database->service->moves->let_go(client);
	database_carry(client->database);
	user_carry(client->user);
	client->is_counted = false;
	client->has_gone = true;
	crew_client_goes(conn->site, to);
	conn->site->relocate_counts.out++;
	conn_hand_on(conn, &gone_ops);
	client_leave(client);
	conn_doom_quietly(conn, "moved to another worker");
}

/* NULL: no memory; the client stays, or is closed. */
static struct traveller *depart(struct client *client, struct crew_member *to)
{
	struct conn *conn = &client->conn;
	struct traveller *t = traveller_new(client, to);

	client_snapshot_leave(conn->site, client);
	cancel_keys_move(conn->site->cancel_keys, &client->cancel_key, &t->key,
	    crew_control(to->crew)->index, to->index);
	if (moving_offer_client(conn->site, client, bundle_put, &t->parcels) < 0) {
		cancel_keys_move(conn->site->cancel_keys, &t->key, &client->cancel_key,
		    crew_place(conn->site), crew_place(conn->site));
		traveller_free(t);
		conn_start(conn);
		return NULL;
	}
	t->tls = stream_take_tls(&conn->stream, &t->sealed);
	if (t->sealed.failed) {
		traveller_free(t);
		conn_doom(conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
		return NULL;
	}
	t->fd = stream_take_fd(&conn->stream);
	leave(client, to);
	return t;
}

/* Does the client stand still, ready to go?  Stops it if it rests. */
static bool is_ready(struct client *client)
{
	struct conn *conn = &client->conn;

	if (!moving_is_at_rest(client))
		return false;
	if (!conn->is_stopped)
		conn_hush(conn);
	return conn_is_silent(conn);
}

size_t relocate_step(struct site *site, struct crew_member *to, struct list *list)
{
	struct client_snapshot *snapshot =
	    site->relocation ? &site->relocation->snapshot : NULL;
	size_t left = 0, gone_count = 0;

	for (size_t i = 0; snapshot && i < snapshot->count; i++) {
		struct client *client = snapshot->clients[i];
		if (!client || client->conn.is_doomed) {
			snapshot->clients[i] = NULL;
		} else if (gone_count == GO_AT_ONCE || !is_ready(client)) {
			left++;
		} else {
			struct traveller *t = depart(client, to);
			snapshot->clients[i] = NULL;
			gone_count++;
			if (t)
				list_push_back(list, &t->node);
		}
	}
	return left;
}

void relocate_end(struct site *site)
{
	struct relocation *r = site->relocation;
	struct client *client;

	activity_end(site->catalog);
	if (!r)
		return;
	while ((client = client_snapshot_next(&r->snapshot)))
		conn_start(&client->conn);
	client_snapshot_end(&r->snapshot, site);
	mem_free(r);
	site->relocation = NULL;
}

/* ---- arrival ---- */

static void take_client(
    struct traveller *t, struct moving *moving, struct parcel_client *from)
{
	struct client *client;
	int fd = t->fd;

	from->was_carried = true;
	t->fd = -1;
	t->to->site->relocate_counts.in++;
	client = moving_take_client(moving, from, fd, NULL, -1);
	cancel_keys_move(t->to->crew->cancel_keys, &t->key, &client->cancel_key,
	    t->to->index, t->to->index);
	if (t->tls && stream_give_tls(&client->conn.stream, &t->tls, t->sealed.bytes,
			  t->sealed.len) < 0)
		conn_doom(&client->conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
}

static void take_one(void *ctx, struct moving *moving, struct parcel *parcel)
{
	struct traveller *t = ctx;

	if (parcel->kind == PARCEL_CLIENT)
		take_client(t, moving, &parcel->client);
	else
		moving_note(moving, parcel);
}

static void admit(struct traveller *t)
{
	struct site *site = t->to->site;

	crew_arrival_begins(t->to);
	bundle_open(&t->parcels, site, take_one, t);
	crew_arrival_ends(t->to);
	/* it was not accepted */
	if (t->fd >= 0)
		catalog_lose_client(site->catalog, t->database, t->user);
}

static void arrived(struct letter *letter)
{
	struct traveller *t = container_of(letter, struct traveller, letter);

	if (t->to->site->shutdown != SHUTDOWN_NOW)
		admit(t);
	traveller_free(t);
}

void relocate_post(struct list *list)
{
	while (!list_is_empty(list)) {
		struct traveller *t =
		    container_of(list_pop_front(list), struct traveller, node);
		t->letter.open = arrived;
		crew_post(t->to, &t->letter);
	}
}
