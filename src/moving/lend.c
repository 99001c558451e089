/*
 * Letters between sites: a resting server with everything that belongs to it.  The
 * pools decide who gets it.
 */
#include "moving/lend.h"

#include <string.h>
#include <unistd.h>

#include "moving/bundle.h"
#include "pool/notes.h"
#include "session/crew.h"
#include "session/server.h"

/* ---- loans: parcels on their way ---- */

struct loan {
	struct letter letter;
	struct crew_member *to;
	unsigned after;            /* the last order when what it has was true */
	struct central_pool *pool; /* one reference: where the server counts */
	struct bundle parcels;
	int fd;            /* owned; -1: no server */
	struct tls *tls;   /* owned; NULL: no TLS */
	struct buf sealed; /* records received but not read */
};

/* At either of its sites. */
static void loan_free(struct loan *loan, struct site *site)
{
	if (loan->fd >= 0)
		close(loan->fd);
	tls_free(&loan->tls);
	bundle_done(&loan->parcels);
	buf_wipe_done(&loan->sealed);
	central_pool_unref(&site->catalog->view, &loan->pool);
	mem_free(loan);
}

/* ---- arrival ---- */

static void take_one(void *ctx, struct moving *moving, struct parcel *parcel)
{
	struct loan *loan = ctx;
	struct server *server;

	/* RECONNECT, or another configuration: what was known of servers there counts
	 * for as little as what was known here. */
	if (crew_has_missed(loan->to, loan->after) && parcel->kind == PARCEL_SERVER)
		parcel->server.seat.is_dirty = true;
	else if (crew_has_missed(loan->to, loan->after) && parcel->kind == PARCEL_POOL)
		parcel->pool.has_welcome = false;
	if (parcel->kind == PARCEL_SERVER) {
		/* makes the server at this site */
		struct site *site = loan->to->site;
		int fd = loan->fd;
		parcel->server.seat.is_carried = true;
		loan->fd = -1;
		/* the next client would take what nobody has asked for as its answer */
		if (!server_may_send_any_time(
			parcel->server.conn.unread.at, parcel->server.conn.unread.len))
			parcel->server.seat.is_dirty = true;
		site->lend_counts.in++;
		site->lend_counts.waits_served +=
		    notes_is_waited_for(site->catalog, loan->pool);
		server = moving_take_server(moving, &parcel->server, fd);
		if (loan->tls && stream_give_tls(&server->conn.stream, &loan->tls,
				     loan->sealed.bytes, loan->sealed.len) < 0)
			conn_doom(&server->conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
		/* the site was suspended while the server was on its way */
		if (site->catalog->suspended && server->seat.state == SEAT_IDLE)
			conn_hush(&server->conn);
	} else {
		moving_note(moving, parcel);
	}
}

static void loan_opened(struct letter *letter)
{
	struct loan *loan = container_of(letter, struct loan, letter);

	if (loan->to->site->shutdown != SHUTDOWN_NOW) {
		struct site *site = loan->to->site;
		bundle_open(&loan->parcels, site, take_one, loan);
		/* the server was not accepted */
		if (loan->fd >= 0)
			notes_lost(site->catalog, loan->pool);
	}
	loan_free(loan, loan->to->site);
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
	struct loan *loan = mem_zero(sizeof(*loan));
	loan->to = &conn->site->crew->crew->members[server->lent_to];
	loan->pool =
	    central_pool_ref(&conn->site->catalog->view, server->seat.pool->part.whole);
	bundle_init(&loan->parcels);
	buf_init(&loan->sealed, 0);
	loan->fd = -1;

	loan->after = server->lent_after;
	if (moving_offer_server(conn->site, server, bundle_put, &loan->parcels) < 0) {
		loan_free(loan, conn->site);
		server_retire(server, "cannot be handed to another worker");
		return;
	}
	loan->tls = stream_take_tls(&conn->stream, &loan->sealed);
	if (loan->sealed.failed) {
		loan_free(loan, conn->site);
		server_retire(server, error_text(ERROR_OUT_OF_MEMORY));
		return;
	}
	loan->fd = stream_take_fd(&conn->stream);
	pool_carried(&server->seat);
	conn->site->lend_counts.out++;
	loan->letter.open = loan_opened;
	crew_post(loan->to, &loan->letter);
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
