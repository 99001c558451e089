/*
 * Sends connections from one site of the process to another.  login/listen.c admits
 * them there.
 */
#include "session/passing.h"

#include <string.h>
#include <unistd.h>

#include "session/reserved_fds.h"

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

/* Posts a client, which counts for the receiver from now on. */
static void post_client(struct passage *p, struct client *client)
{
	client->has_gone = true;
	crew_client_goes(client->conn.site, p->to);
	post(p);
}

/* ---- connections that may be taken back ---- */

static void look_soon(struct crew_member *own)
{
	struct loop *loop = own->site->loop;

	if (own->look.at_us == UINT64_MAX)
		deadline_set(loop, &own->look, loop_now(loop) + LOOK_US);
}

/* The sender sees to it that somebody takes it. */
static void give(struct crew_member *own, struct passage *p)
{
	p->refs = 2;
	list_push_back(&own->given, &p->node);
	look_soon(own);
}

void passing_send_new(
    struct crew_member *to, int fd, const struct sock_addr *remote, bool is_unix)
{
	struct passage *p = passage_new(to, fd);

	p->remote = *remote;
	p->is_new = true;
	p->is_unix = is_unix;
	give(crew_control(to->crew), p);
	post(p);
}

/* Gives a new connection that its worker does not take to one that answers.  False:
 * there is none. */
static bool may_give_to_another(struct passage *p)
{
	struct crew_member *to = crew_pick(p->to->crew);

	if (crew_is_deaf(to->crew, to->index)) {
		crew_unpick(to);
		return false;
	}
	if (!may_claim(p)) {
		crew_unpick(to);
		return true;
	}
	crew_unpick(p->to);
	passing_send_new(to, p->fd, &p->remote, p->is_unix);
	p->fd = -1;
	return true;
}

/* A cancel request on its round over the sites (see struct client). */
struct round {
	unsigned left; /* how many sites have not seen it */
	bool has_skipped, skips_none;
};

/* The next site behind this one that answers, or just the next one in the second round;
 * NULL: there is none. */
static struct crew_member *next_to_ask(
    const struct crew_member *behind, struct round *round)
{
	struct crew *crew = behind->crew;
	unsigned index = behind->index;

	while (round->left > 0) {
		index = (index + 1) % (crew->worker_count + 1);
		round->left--;
		if (round->skips_none || !crew_is_deaf(crew, index))
			return &crew->members[index];
		round->has_skipped = true;
	}
	return NULL;
}

/* Sends a cancel request that its worker does not read to the next site, and it comes
 * back to that worker when all others have seen it.  If they have, it stays there. */
static void pass_by(struct crew_member *own, struct passage *p)
{
	struct round round = {p->hops_left, true, p->skips_none};
	struct crew_member *to = next_to_ask(p->to, &round);
	struct passage *again;

	if (p->skips_none || !to || !may_claim(p))
		return;
	again = passage_new(to, p->fd);
	again->remote = p->remote;
	again->peer_pid = p->peer_pid;
	again->connect_us = p->connect_us;
	again->is_unix = p->is_unix;
	again->is_unix_owner = p->is_unix_owner;
	again->is_proxied = p->is_proxied;
	again->passed_from = p->passed_from;
	again->moves_seen = p->moves_seen;
	again->has_skipped = true;
	again->hops_left = (uint8_t)round.left;
	buf_put(&again->unread, p->unread.bytes, p->unread.len);
	p->fd = -1;
	crew_client_goes(p->to->site, to);
	give(own, again);
	post(again);
}

static bool is_settled(struct crew_member *own, struct passage *p)
{
	if (atomic_load(&p->is_claimed))
		return true;
	if (!crew_is_deaf(p->to->crew, p->to->index))
		return false;
	if (p->is_new)
		return may_give_to_another(p);
	pass_by(own, p);
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
		if (is_settled(own, p))
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

static void passing_ended(struct conn *conn, const struct err *err)
{
	(void)err;
	conn_doom_quietly(conn, "client unexpected eof");
}

static struct passage *describe(struct conn *conn, struct crew_member *to, int fd)
{
	const struct client *client = conn_client(conn);
	struct passage *p = passage_new(to, fd);

	p->remote = conn->remote;
	p->peer_pid = conn->peer_pid;
	p->connect_us = conn->connect_us;
	p->is_unix = conn->remote.family == AF_UNIX;
	p->is_unix_owner = client->is_unix_owner;
	p->is_proxied = client->is_proxied;
	p->passed_from = client->passed_from;
	p->moves_seen = client->moves_seen;
	return p;
}

static void pass_on(struct conn *conn)
{
	struct crew_member *to = conn_client(conn)->passes_to;
	struct passage *p = describe(conn, to, -1);

	conn_put_unread(conn, &p->unread);
	p->tls = stream_take_tls(&conn->stream, &p->sealed);
	if (p->unread.failed || p->sealed.failed) {
		passage_free(p);
		conn_doom(conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
		return;
	}
	p->fd = stream_take_fd(&conn->stream);
	post_client(p, conn_client(conn));
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

/* ---- cancel requests ---- */

static bool may_show_to(struct client *carrier, struct crew_member *to,
    const struct round *round, const uint8_t *packet, size_t len)
{
	struct conn *conn = &carrier->conn;
	struct passage *p;
	int fd = reserved_fds_duplicate(conn->site, conn->stream.fd);

	if (fd < 0)
		return false;
	/* the copy keeps the socket open, so the engine's requests must end first */
	conn_hush(conn);
	p = describe(conn, to, fd);
	p->hops_left = (uint8_t)round->left;
	p->has_skipped = round->has_skipped;
	p->skips_none = round->skips_none;
	buf_put(&p->unread, packet, len);
	give(conn->site->crew, p);
	post_client(p, carrier);
	return true;
}

/* A round ends where it began, because a client that goes to the first site may not
 * have been there yet. */
static void begin_round(
    struct client *carrier, const struct crew *crew, struct round *round)
{
	carrier->moves_seen = (uint16_t)crew_moves(crew);
	round->left = crew->worker_count + 1;
}

/* Not all sites were asked; or clients have changed sites meanwhile, and the request
 * may have missed its client. */
static bool must_ask_again(
    const struct client *carrier, const struct crew *crew, struct round *round)
{
	uint16_t moves = (uint16_t)crew_moves(crew);

	if (round->has_skipped && !round->skips_none) {
		round->skips_none = true;
		return true;
	}
	return carrier->moves_seen != moves || crew_are_moving(moves);
}

bool passing_may_ask_next(struct client *carrier, const uint8_t *packet, size_t len)
{
	struct crew_member *own = carrier->conn.site->crew;
	struct crew *crew = own ? own->crew : NULL;
	struct round round = {
	    carrier->hops_left, carrier->has_skipped, carrier->skips_none};

	if (!crew)
		return false;
	if (!carrier->was_passed)
		begin_round(carrier, crew, &round);
	struct crew_member *next = next_to_ask(own, &round);
	if (!next && must_ask_again(carrier, crew, &round)) {
		begin_round(carrier, crew, &round);
		next = next_to_ask(own, &round);
	}
	/* the control site is asked last, because it can ask other processes */
	if (!next && !crew_is_control(own->site))
		next = crew_control(crew);
	return next && may_show_to(carrier, next, &round, packet, len);
}

bool passing_may_ask_control(struct client *carrier, const uint8_t *packet, size_t len)
{
	struct site *site = carrier->conn.site;
	const struct round last = {0, carrier->has_skipped, carrier->skips_none};

	return !crew_is_control(site) &&
	       may_show_to(carrier, crew_control(site->crew->crew), &last, packet, len);
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
	client->passed_from = p->passed_from;
	client->was_passed = true;
	client->hops_left = p->hops_left;
	client->has_skipped = p->has_skipped;
	client->skips_none = p->skips_none;
	client->moves_seen = p->moves_seen;
	p->fd = -1;
	if (conn_restore(conn, fd, 0, p->unread.bytes, p->unread.len) < 0 ||
	    (p->tls && stream_give_tls(&conn->stream, &p->tls, p->sealed.bytes,
			   p->sealed.len) < 0)) {
		conn_doom(conn, "%s", error_text(ERROR_OUT_OF_MEMORY));
		return -1;
	}
	return 0;
}
