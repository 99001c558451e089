/*
 * Sends connections from one site of the process to another.  login/listen.c admits
 * them there.
 */
#include "session/passing.h"

#include <string.h>
#include <unistd.h>

/* How often it is checked whether workers take what was sent to them. */
enum { LOOK_US = 50000 };

static struct passage *passage_new(struct crew_member *to, int fd)
{
	struct passage *p = mem_zero(sizeof(*p));

	p->refs = 1;
	p->to = to;
	p->fd = fd;
	buf_init(&p->sealed, 0);
	buf_init(&p->unread, 0);
	return p;
}

static void passage_free(struct passage *p)
{
	if (p->fd >= 0)
		close(p->fd);
	tls_free(&p->tls);
	buf_wipe_done(&p->sealed);
	buf_wipe_done(&p->unread);
	mem_free(p);
}

static void passage_unref(struct passage *p)
{
	if (atomic_fetch_sub(&p->refs, 1) == 1)
		passage_free(p);
}

static bool may_claim(struct passage *p)
{
	return !atomic_exchange(&p->is_claimed, true);
}

static void admit(struct passage *p)
{
	crew_arrival_begins(p->to);
	if (p->to->site->shutdown != SHUTDOWN_NOW)
		p->to->crew->ops->admit(p->to->site, p);
	crew_arrival_ends(p->to);
}

static void arrived(struct letter *letter)
{
	struct passage *p = container_of(letter, struct passage, letter);

	if (may_claim(p))
		admit(p);
	passage_unref(p);
}

static void post(struct passage *p)
{
	p->letter.open = arrived;
	crew_post(p->to, &p->letter);
}

/* ---- connections that may be taken back ---- */

static void look_soon(struct crew_member *own)
{
	struct loop *loop = own->site->loop;

	if (own->look.at_us == UINT64_MAX)
		deadline_set(loop, &own->look, loop_now(loop) + LOOK_US);
}

void passing_send_new(
    struct crew_member *to, int fd, const struct sock_addr *remote, bool is_unix)
{
	struct crew_member *own = crew_control(to->crew);
	struct passage *p = passage_new(to, fd);

	/* the sender sees to it that somebody takes it */
	p->refs = 2;
	list_push_back(&own->given, &p->node);
	look_soon(own);
	p->remote = *remote;
	p->is_new = true;
	p->is_unix = is_unix;
	post(p);
}

/* Does nobody need to look after it any more?  If its worker leaves it unopened, it is
 * given to one that answers. */
static bool settle(struct passage *p)
{
	struct crew_member *to;

	if (atomic_load(&p->is_claimed))
		return true;
	if (!crew_is_deaf(p->to->crew, p->to->index))
		return false;
	to = crew_pick(p->to->crew);
	bool is_deaf = crew_is_deaf(to->crew, to->index);
	if (is_deaf || !may_claim(p)) {
		crew_unpick(to);
		return !is_deaf;
	}
	crew_unpick(p->to);
	passing_send_new(to, p->fd, &p->remote, p->is_unix);
	p->fd = -1;
	return true;
}

static void forget(struct crew_member *own, struct passage *p)
{
	list_remove(&own->given, &p->node);
	passage_unref(p);
}

static void look_expired(struct deadline *d)
{
	struct crew_member *own = container_of(d, struct crew_member, look);
	struct passage *p, *after;

	list_for_safe (p, after, &own->given, node) {
		if (settle(p))
			forget(own, p);
	}
	if (!list_is_empty(&own->given))
		look_soon(own);
}

void passing_init(struct site *site)
{
	if (!site->crew)
		return;
	list_init(&site->crew->given);
	deadline_init(&site->crew->look, look_expired);
}

void passing_done(struct site *site)
{
	struct crew_member *own = site->crew;

	if (!own)
		return;
	deadline_clear(site->loop, &own->look);
	while (!list_is_empty(&own->given))
		forget(
		    own, container_of(list_first(&own->given), struct passage, node));
}

/* ---- clients that have sent a first packet ---- */

static void passing_closed(struct conn *conn, const char *reason)
{
	(void)reason;
	client_leave(conn_client(conn));
}

static const struct conn_ops gone_ops = {
    .name = "passed on",
    .closed = passing_closed,
};

/* Many drivers close the socket of a cancel request immediately: that goes along. */
static void passing_ended(struct conn *conn, const struct err *err)
{
	if (err)
		conn_doom_quietly(conn, "client unexpected eof");
}

static void pass_on(struct conn *conn)
{
	struct client *client = conn_client(conn);
	struct passage *p = passage_new(client->passes_to, -1);

	p->remote = conn->remote;
	p->peer_pid = conn->peer_pid;
	p->connect_us = conn->connect_us;
	p->is_unix_owner = client->is_unix_owner;
	p->is_proxied = client->is_proxied;
	conn_put_unread(conn, &p->unread);
	p->tls = stream_take_tls(&conn->stream, &p->sealed);
	if (p->unread.failed || p->sealed.failed) {
		passage_free(p);
		conn_doom(conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
		return;
	}
	p->fd = stream_take_fd(&conn->stream);
	client->has_gone = true;
	crew_client_goes(conn->site, p->to);
	post(p);
	conn_hand_on(conn, &gone_ops);
	conn_doom_quietly(conn, "passed on");
}

static const struct conn_ops passing_ops = {
    .name = "passing on",
    .silent = pass_on,
    .malformed = client_malformed,
    .ended = passing_ended,
    .closed = passing_closed,
};

void passing_begin(struct client *client, struct crew_member *to)
{
	struct conn *conn = &client->conn;

	client->passes_to = to;
	client->is_passing = true;
	conn_hand_on(conn, &passing_ops);
	conn_hush_to_go(conn);
}

/* ---- arrival ---- */

int passing_open(struct client *client, struct passage *p)
{
	struct conn *conn = &client->conn;
	int fd = p->fd;

	conn->remote = p->remote;
	conn->peer_pid = p->peer_pid;
	conn->connect_us = p->connect_us;
	client->is_unix_owner = p->is_unix_owner;
	client->is_proxied = p->is_proxied;
	p->fd = -1;
	if (conn_restore(conn, fd, 0, p->unread.bytes, p->unread.len) < 0 ||
	    (p->tls && stream_give_tls(&conn->stream, &p->tls, p->sealed.bytes,
			   p->sealed.len) < 0)) {
		conn_doom(conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
		return -1;
	}
	return 0;
}
