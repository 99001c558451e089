/*
 * Letters between sites: a server at rest with all that belongs to it, a pool's
 * welcome, wishes and the answers to them.  Who gets what is the pool's decision.
 */
#include "moving/lend.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "moving/moving.h"
#include "session/server.h"
#include "session/spares.h"

/* ---- crates: parcels on their way ---- */

struct crate {
	struct letter letter;
	struct crew_member *to;
	unsigned from;
	/* of the pool that it is about; owned */
	char *database, *user;
	struct buf parcels; /* of each: kind, length, bytes */
	int fd;             /* owned; -1: there is no server */
	struct tls *tls;    /* owned; NULL: in clear */
	struct buf sealed;  /* records of it that came and were not read */
	bool is_answer;     /* to a wish */
};

static struct crate *crate_new(
    struct crew_member *to, const struct pool *pool, bool is_answer)
{
	struct crate *crate = mem_zero(sizeof(*crate));

	crate->to = to;
	crate->from = pool->database->catalog->view.site;
	crate->database = mem_strdup(pool->database->name);
	crate->user = mem_strdup(pool->user->name);
	buf_init(&crate->parcels, 0);
	buf_init(&crate->sealed, 0);
	crate->fd = -1;
	crate->is_answer = is_answer;
	return crate;
}

static void crate_free(struct crate *crate)
{
	if (crate->fd >= 0)
		close(crate->fd);
	tls_free(&crate->tls);
	buf_wipe_done(&crate->parcels);
	buf_wipe_done(&crate->sealed);
	mem_free(crate->database);
	mem_free(crate->user);
	mem_free(crate);
}

static int put_parcel(void *ctx, const struct parcel *parcel, int fd)
{
	struct crate *crate = ctx;
	struct buf bytes;

	(void)fd;
	buf_init(&bytes, 0);
	parcel_encode(parcel, &bytes);
	buf_put_u8(&crate->parcels, (uint8_t)parcel->kind);
	buf_put_u32(&crate->parcels, (uint32_t)bytes.len);
	buf_put(&crate->parcels, bytes.bytes, bytes.len);
	bool has_failed = bytes.failed || crate->parcels.failed;
	buf_wipe_done(&bytes);
	return has_failed ? -1 : 0;
}

/* ---- arrival ---- */

static struct moving *site_moving(struct site *site)
{
	if (!site->lent)
		site->lent = moving_new_within(site);
	return site->lent;
}

static void count_arrival(struct site *site, const struct pool *pool)
{
	site->lend_counts.in++;
	if (pool && !list_is_empty(&pool->seekers))
		site->lend_counts.waits_served++;
}

/* The server goes on here.  -1: it cannot. */
static int take_server(struct crate *crate, struct parcel *parcel)
{
	struct site *site = crate->to->site;
	struct server *server;
	int fd = crate->fd;
	struct err why;

	if (moving_check(site_moving(site), parcel, &why) < 0)
		return -1;
	parcel->server.seat.is_carried = true;
	parcel->server.seat.carried_from = crate->from;
	crate->fd = -1;
	count_arrival(site, wishes_pool(site->catalog, crate->database, crate->user));
	server = moving_take_server(site_moving(site), &parcel->server, fd);
	if (crate->tls && stream_give_tls(&server->conn.stream, &crate->tls,
			      crate->sealed.bytes, crate->sealed.len) < 0)
		conn_doom(&server->conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
	/* It was on its way when all else was stopped. */
	if (site->catalog->suspended && server->seat.state == SEAT_IDLE)
		conn_hush(&server->conn);
	return 0;
}

/* They were encoded by the same program a moment ago. */
static void unpack(struct crate *crate)
{
	struct site *site = crate->to->site;
	const uint8_t *at = crate->parcels.bytes;
	const uint8_t *end = at + crate->parcels.len;

	while (at < end) {
		struct arena *arena = arena_new();
		struct parcel parcel;
		enum parcel_kind kind = (enum parcel_kind)at[0];
		size_t len = (size_t)at[1] << 24 | (size_t)at[2] << 16 |
			     (size_t)at[3] << 8 | at[4];
		struct err ignored;
		int result = parcel_decode(&parcel, kind, at + 5, len, arena);
		if (result == 0 && kind == PARCEL_SERVER)
			result = take_server(crate, &parcel);
		else if (result == 0 &&
			 moving_check(site_moving(site), &parcel, &ignored) == 0)
			moving_note(site_moving(site), &parcel);
		if (result < 0)
			wishes_lost(
			    site->catalog, crate->database, crate->user, crate->from);
		mem_wipe(&parcel, sizeof(parcel));
		arena_free(&arena);
		at += 5 + len;
	}
	moving_forget_texts(site_moving(site));
}

static void crate_opened(struct letter *letter)
{
	struct crate *crate = container_of(letter, struct crate, letter);
	struct catalog *catalog = crate->to->site->catalog;
	struct pool *pool;

	if (crate->to->site->shutdown != SHUTDOWN_NOW) {
		unpack(crate);
		pool = wishes_pool(catalog, crate->database, crate->user);
		if (pool)
			wishes_answered(pool);
	}
	crate_free(crate);
}

static void post(struct crate *crate)
{
	crate->letter.open = crate_opened;
	crew_post(crate->to, &crate->letter);
}

/* ---- servers that go ---- */

static void lending_closed(struct conn *conn, const char *reason)
{
	server_leave(conn_server(conn), reason);
}

static const struct conn_ops lent_ops = {
    .name = "lent",
    .closed = lending_closed,
};

static void lending_expired(struct conn *conn)
{
	(void)conn;
}

static const struct conn_ops lending_ops = {
    .name = "lending",
    .expired = lending_expired,
    .malformed = server_malformed,
    .ended = server_ended,
    .closed = lending_closed,
};

/* Its descriptor is given away as a copy, so that it is closed here as any other. */
static void send_off(struct server *server)
{
	struct conn *conn = &server->conn;
	struct pool *pool = server->seat.pool;
	struct crew *crew = conn->site->crew->crew;
	struct crate *crate = crate_new(&crew->members[server->lent_to], pool, false);

	crate->fd = spares_duplicate(conn->site, conn->stream.fd);
	if (crate->fd < 0 ||
	    moving_offer_server(conn->site, server, put_parcel, crate) < 0) {
		crate_free(crate);
		server_retire(server, "cannot be handed to another worker");
		return;
	}
	crate->tls = stream_take_tls(&conn->stream, &crate->sealed);
	if (crate->sealed.failed) {
		crate_free(crate);
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
		return;
	}
	pool_carried(&server->seat);
	conn->site->lend_counts.out++;
	post(crate);
	conn_hand_on(conn, &lent_ops);
	server->is_cut = true; /* no Terminate: it lives on */
	conn_doom_quietly(conn, "lent to another worker");
}

/* The engine may still have a request under way that takes bytes from the socket. */
static void look(struct deadline *d)
{
	struct conn *conn = container_of(d, struct conn, deadline);

	if (conn->is_doomed)
		return;
	if (conn_is_silent(conn))
		send_off(conn_server(conn));
	else
		deadline_set(conn->site->loop, &conn->deadline, conn_now(conn));
}

void lend_hand(struct server *server, unsigned site)
{
	struct conn *conn = &server->conn;

	server->lent_to = (uint8_t)site;
	conn_hand_on(conn, &lending_ops);
	conn_hush(conn);
	/* A stopped connection has no clock but this one. */
	conn->deadline.expired = look;
	deadline_set(conn->site->loop, &conn->deadline, conn_now(conn));
}

/* ---- welcomes ---- */

static void send_welcome(struct pool *pool, unsigned to, bool is_answer)
{
	struct site *site = pool->database->catalog->events_ctx;
	struct crate *crate =
	    crate_new(&site->crew->crew->members[to], pool, is_answer);

	(void)moving_offer_pool(site, pool, put_parcel, crate);
	if (crate->parcels.failed)
		buf_clear(&crate->parcels);
	post(crate);
}

void lend_welcome(struct pool *pool)
{
	const struct tally_view *view = &pool->database->catalog->view;

	for (unsigned i = 0; i < view->site_count; i++)
		if (i != view->site &&
		    atomic_load(&pool->tally->slots[i].wants_welcome))
			send_welcome(pool, i, false);
}

/* ---- wishes ---- */

struct wish_letter {
	struct letter letter;
	struct crew_member *to;
	struct wish wish;
	char *database, *user; /* owned, or NULL */
};

static void answer(struct site *site, const struct wish *wish)
{
	struct pool *pool = wishes_pool(site->catalog, wish->database, wish->user);
	struct crate *crate;

	if (pool) {
		send_welcome(pool, wish->from, true);
		return;
	}
	/* It was freed meanwhile. */
	crate = mem_zero(sizeof(*crate));
	crate->to = &site->crew->crew->members[wish->from];
	crate->from = site->crew->index;
	crate->database = mem_strdup(wish->database);
	crate->user = mem_strdup(wish->user);
	buf_init(&crate->parcels, 0);
	buf_init(&crate->sealed, 0);
	crate->fd = -1;
	post(crate);
}

static void hear(struct site *site, const struct wish *wish)
{
	struct verdict v = wishes_hear(site->catalog, wish, loop_now(site->loop));

	if (v.kind == VERDICT_HAND)
		lend_hand(seat_server(v.seat), v.site);
	else if (v.kind == VERDICT_RETIRE)
		server_retire(seat_server(v.seat), v.text);
	else if (wish->kind == WISH_SERVER || wish->kind == WISH_WELCOME)
		answer(site, wish);
}

static void wish_opened(struct letter *letter)
{
	struct wish_letter *w = container_of(letter, struct wish_letter, letter);

	if (w->to->site->shutdown != SHUTDOWN_NOW)
		hear(w->to->site, &w->wish);
	mem_free(w->database);
	mem_free(w->user);
	mem_free(w);
}

void lend_wish(struct site *from, unsigned to, const struct wish *wish)
{
	struct wish_letter *w = mem_zero(sizeof(*w));

	w->letter.open = wish_opened;
	w->to = &from->crew->crew->members[to];
	w->wish = *wish;
	w->wish.database = w->database =
	    wish->database ? mem_strdup(wish->database) : NULL;
	w->wish.user = w->user = wish->user ? mem_strdup(wish->user) : NULL;
	crew_post(w->to, &w->letter);
}

void lend_done(struct site *site)
{
	moving_free(&site->lent);
}
