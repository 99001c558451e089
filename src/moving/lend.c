/*
 * Letters between sites: a resting server with everything that belongs to it, the
 * welcome of a pool, wishes, and the answers to wishes.  The pools decide who gets
 * what.
 */
#include "moving/lend.h"

#include <string.h>
#include <unistd.h>

#include "moving/bundle.h"
#include "session/server.h"

/* ---- loans: parcels on their way ---- */

struct loan {
	struct letter letter;
	struct crew_member *to;
	unsigned from;
	unsigned after; /* the last order when what it has was true */
	/* owned; names of the pool that it is about */
	char *database, *user;
	struct bundle parcels;
	int fd;            /* owned; -1: no server */
	struct tls *tls;   /* owned; NULL: no TLS */
	struct buf sealed; /* records received but not read */
};

static struct loan *loan_new(
    struct site *from, unsigned to, const char *database, const char *user)
{
	struct loan *loan = mem_zero(sizeof(*loan));

	loan->to = &from->crew->crew->members[to];
	loan->from = from->crew->index;
	loan->after = from->crew->order;
	loan->database = mem_strdup(database);
	loan->user = mem_strdup(user);
	bundle_init(&loan->parcels);
	buf_init(&loan->sealed, 0);
	loan->fd = -1;
	return loan;
}

static struct loan *loan_of_pool(
    struct site *from, unsigned to, const struct pool *pool)
{
	return loan_new(from, to, pool->database->name, pool->user->name);
}

static void loan_free(struct loan *loan)
{
	if (loan->fd >= 0)
		close(loan->fd);
	tls_free(&loan->tls);
	bundle_done(&loan->parcels);
	buf_wipe_done(&loan->sealed);
	mem_free(loan->database);
	mem_free(loan->user);
	mem_free(loan);
}

/* ---- arrival ---- */

static void count_arrival(struct site *site, const struct pool *pool)
{
	site->lend_counts.in++;
	if (pool && !list_is_empty(&pool->seekers))
		site->lend_counts.waits_served++;
}

/* Makes the server at this site. */
static void take_server(struct loan *loan, struct moving *moving, struct parcel *parcel)
{
	struct site *site = loan->to->site;
	struct server *server;
	int fd = loan->fd;

	parcel->server.seat.is_carried = true;
	parcel->server.seat.carried_from = loan->from;
	loan->fd = -1;
	/* the next client would take what nobody has asked for as its answer */
	if (!server_may_send_any_time(
		parcel->server.conn.unread.at, parcel->server.conn.unread.len))
		parcel->server.seat.is_dirty = true;
	count_arrival(site, wishes_pool(site->catalog, loan->database, loan->user));
	server = moving_take_server(moving, &parcel->server, fd);
	if (loan->tls && stream_give_tls(&server->conn.stream, &loan->tls,
			     loan->sealed.bytes, loan->sealed.len) < 0)
		conn_doom(&server->conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
	/* the site was suspended while the server was on its way */
	if (site->catalog->suspended && server->seat.state == SEAT_IDLE)
		conn_hush(&server->conn);
}

static void take_one(void *ctx, struct moving *moving, struct parcel *parcel)
{
	struct loan *loan = ctx;

	/* RECONNECT, or another configuration: what was known of servers there counts
	 * for as little as what was known here. */
	if (crew_has_missed(loan->to, loan->after) && parcel->kind == PARCEL_SERVER)
		parcel->server.seat.is_dirty = true;
	else if (crew_has_missed(loan->to, loan->after) && parcel->kind == PARCEL_POOL)
		parcel->pool.has_welcome = false;
	if (parcel->kind == PARCEL_SERVER)
		take_server(loan, moving, parcel);
	else
		moving_note(moving, parcel);
}

static void unpack(struct loan *loan)
{
	struct site *site = loan->to->site;

	bundle_open(&loan->parcels, site, take_one, loan);
	/* the server was not accepted */
	if (loan->fd >= 0)
		wishes_lost(site->catalog, loan->database, loan->user, loan->from);
}

static void loan_opened(struct letter *letter)
{
	struct loan *loan = container_of(letter, struct loan, letter);
	struct catalog *catalog = loan->to->site->catalog;
	struct pool *pool;

	if (loan->to->site->shutdown != SHUTDOWN_NOW) {
		bool has_server = loan->fd >= 0;
		unpack(loan);
		pool = wishes_pool(catalog, loan->database, loan->user);
		if (pool)
			wishes_answered(
			    pool, has_server, loop_now(loan->to->site->loop));
	}
	loan_free(loan);
}

static void post(struct loan *loan)
{
	loan->letter.open = loan_opened;
	crew_post(loan->to, &loan->letter);
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

/* Sends the descriptor; what is left here is closed like any other connection. */
static void send_off(struct conn *conn)
{
	struct server *server = conn_server(conn);
	struct loan *loan =
	    loan_of_pool(conn->site, server->lent_to, server->seat.pool);

	loan->after = server->lent_after;
	if (moving_offer_server(conn->site, server, bundle_put, &loan->parcels) < 0) {
		loan_free(loan);
		server_retire(server, "cannot be handed to another worker");
		return;
	}
	loan->tls = stream_take_tls(&conn->stream, &loan->sealed);
	if (loan->sealed.failed) {
		loan_free(loan);
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
		return;
	}
	loan->fd = stream_take_fd(&conn->stream);
	pool_carried(&server->seat);
	conn->site->lend_counts.out++;
	post(loan);
	conn_hand_on(conn, &lent_ops);
	/* no Terminate is sent, because the server connection lives on */
	server->is_cut = true;
	conn_doom_quietly(conn, "lent to another worker");
}

static const struct conn_ops lending_ops = {
    .name = "lending",
    .silent = send_off,
    .malformed = server_malformed,
    .ended = server_ended,
    .closed = lending_closed,
};

void lend_hand(struct server *server, unsigned site)
{
	server->lent_to = (uint8_t)site;
	server->lent_after = server->conn.site->crew->order;
	conn_hand_on(&server->conn, &lending_ops);
	conn_hush_to_go(&server->conn);
}

/* ---- welcomes ---- */

static void send_welcome(struct pool *pool, unsigned to)
{
	struct site *site = pool->database->catalog->events_ctx;
	struct loan *loan = loan_of_pool(site, to, pool);

	(void)moving_offer_pool(site, pool, bundle_put, &loan->parcels);
	if (loan->parcels.bytes.failed)
		buf_clear(&loan->parcels.bytes);
	post(loan);
}

void lend_welcome(struct pool *pool)
{
	const struct tally_view *view = &pool->database->catalog->view;

	for (unsigned i = 0; i < view->site_count; i++)
		if (i != view->site &&
		    atomic_load(&pool->tally->slots[i].wants_welcome))
			send_welcome(pool, i);
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

	if (pool)
		send_welcome(pool, wish->from);
	else /* the pool was freed meanwhile */
		post(loan_new(site, wish->from, wish->database, wish->user));
}

static bool is_answered_by(const struct wish *wish, const struct verdict *v)
{
	bool is_awaited = wish->kind == WISH_SERVER || wish->kind == WISH_WELCOME;

	return !is_awaited || (v->kind == VERDICT_HAND && v->site == wish->from);
}

static void hear(struct site *site, const struct wish *wish)
{
	struct verdict v = wishes_hear(site->catalog, wish, loop_now(site->loop));

	if (v.kind == VERDICT_HAND)
		lend_hand(seat_server(v.seat), v.site);
	else if (v.kind == VERDICT_RETIRE)
		server_retire(seat_server(v.seat), v.text);
	if (!is_answered_by(wish, &v))
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
