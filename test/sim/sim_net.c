/*
 * The simulated kernel: connections between the pooler and simulated peers, with
 * segments that are split and late, queues that fill, resets and half closed ends; and
 * the sets of descriptors that the loops wait for, with the kernel's rules for edges.
 */
#include "sim_net.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "sim_process.h"
#include "sim_tls.h"

enum { TIMED_OUT_US = 120000000, HANDSHAKE_US = 200, NARROW_US = 10 };

static struct {
	struct file *files[SIM_FDS];
	struct process *owners[SIM_FDS], *real_owners[SIM_FD_FIRST];
	struct list listeners; /* struct file by .node */
	struct list places;
	uint64_t wire_count;
} net;

struct replay {
	struct event event;
	struct end *to;
	bool is_fin;
	bool is_reset;
	size_t len;
	uint8_t bytes[];
};

static void net_prepare(void)
{
	if (net.listeners.head.next)
		return;
	list_init(&net.listeners);
	list_init(&net.places);
}

/* ---- descriptors ---- */

struct file *file_of(int fd)
{
	return fd >= SIM_FD_FIRST && fd < SIM_FD_FIRST + SIM_FDS
		   ? net.files[fd - SIM_FD_FIRST]
		   : NULL;
}

int file_new(enum file_kind kind, struct file **out)
{
	static uint64_t rng;

	if (!rng)
		rng = rng_for("descriptors", 0);
	net_prepare();
	if (kind == FILE_SOCKET && draw_fault(&rng, FAULT_CALLS, 2000)) {
		errno = draw_chance(&rng, 500) ? EMFILE : ENOBUFS;
		return -1;
	}
	struct file *f = *out = mem_zero(sizeof(*f));
	f->kind = kind;
	f->refs = 1;
	list_init(&f->items);
	list_init(&f->ready);
	list_init(&f->queue);
	return file_adopt(f);
}

int file_adopt(struct file *f)
{
	for (int i = 0; i < SIM_FDS; i++) {
		if (net.files[i])
			continue;
		net.files[i] = f;
		net.owners[i] = process_current();
		return SIM_FD_FIRST + i;
	}
	failed("there are no more descriptors");
}

int file_dup(int fd)
{
	struct file *f = file_of(fd);

	f->refs++;
	return file_adopt(f);
}

static void item_free(struct epoll_item *item)
{
	struct file *epoll = item->epoll;

	if (epoll->set[item->fd - SIM_FD_FIRST] == item)
		epoll->set[item->fd - SIM_FD_FIRST] = NULL;
	if (node_is_linked(&item->ready_node))
		list_remove(&epoll->ready, &item->ready_node);
	list_remove(&item->file->items, &item->node);
	mem_free(item);
}

static void end_close(struct end *end, bool is_reset);

static void file_free(struct file *f)
{
	struct node *n;

	while ((n = list_first(&f->items)))
		item_free(container_of(n, struct epoll_item, node));
	if (f->kind == FILE_EPOLL && f->set)
		for (int i = 0; i < SIM_FDS; i++)
			if (f->set[i])
				item_free(f->set[i]);
	mem_free(f->set);
	if (f->real)
		close(f->real);
	if (node_is_linked(&f->node))
		list_remove(&net.listeners, &f->node);
	while ((n = list_pop_front(&f->queue))) {
		struct pending *p = container_of(n, struct pending, node);
		p->end->file = NULL;
		end_close(p->end, true);
		mem_free(p);
	}
	if (f->end) {
		f->end->file = NULL;
		end_close(f->end, false);
	}
	event_cancel(&f->alarm);
	mem_free(f);
}

int file_close(int fd)
{
	struct file *f = file_of(fd);

	assert(f);
	net.files[fd - SIM_FD_FIRST] = NULL;
	net.owners[fd - SIM_FD_FIRST] = NULL;
	file_unref(f);
	return 0;
}

void file_unref(struct file *f)
{
	if (--f->refs == 0)
		file_free(f);
}

int file_dup_to(int fd, int to)
{
	struct file *f = file_of(fd);

	f->refs++;
	file_close(to);
	net.files[to - SIM_FD_FIRST] = f;
	net.owners[to - SIM_FD_FIRST] = process_current();
	return to;
}

size_t files_open(const struct process *p)
{
	size_t count = 0;

	for (int i = 0; i < SIM_FDS; i++)
		count += net.owners[i] == p;
	return count;
}

bool file_is_of(const struct file *f, const struct process *p)
{
	for (int i = 0; i < SIM_FDS; i++)
		if (net.files[i] == f && net.owners[i] == p)
			return true;
	return false;
}

void file_note_real(int fd, struct process *p)
{
	if (fd >= 0 && fd < SIM_FD_FIRST)
		net.real_owners[fd] = p;
}

void files_kill(struct process *p)
{
	for (int i = 0; i < SIM_FDS; i++)
		if (net.owners[i] == p)
			file_close(SIM_FD_FIRST + i);
	for (int fd = 0; fd < SIM_FD_FIRST; fd++)
		if (net.real_owners[fd] == p)
			close(fd);
}

void files_note_end(struct process *p)
{
	for (int i = 0; i < SIM_FDS; i++)
		if (net.files[i] && net.files[i]->process == p)
			file_wake(net.files[i], EPOLLIN);
}

/* ---- what is ready ---- */

static size_t room_of(const struct end *end)
{
	size_t used = end->in.len - end->in_from + end->flying;

	return used < end->wire->room ? end->wire->room - used : 0;
}

static uint32_t end_ready(const struct end *e)
{
	uint32_t what = 0;

	if (!e->is_connected && !e->error && !e->is_reset)
		return e->wire ? 0 : EPOLLOUT | EPOLLHUP;
	if (e->in.len > e->in_from || e->has_fin || e->is_reset || e->error)
		what |= EPOLLIN;
	if (e->has_fin || e->is_reset)
		what |= EPOLLRDHUP;
	if ((e->has_fin && e->has_sent_fin) || e->is_reset)
		what |= EPOLLHUP;
	if (e->error)
		what |= EPOLLERR;
	if (e->is_deaf)
		what |= EPOLLIN | EPOLLRDHUP;
	if (e->is_reset || e->has_sent_fin || room_of(e->peer) >= e->wire->room / 3 + 1)
		what |= EPOLLOUT;
	return what;
}

uint32_t file_ready(const struct file *f)
{
	switch (f->kind) {
	case FILE_SOCKET:
		return f->end ? end_ready(f->end) : EPOLLOUT | EPOLLHUP;
	case FILE_LISTENER:
		return f->queue.count ? EPOLLIN : 0;
	case FILE_EVENT:
		return EPOLLOUT | (f->counter ? EPOLLIN : 0);
	case FILE_TIMER:
		return f->counter ? EPOLLIN : 0;
	case FILE_EPOLL:
		return f->ready.count ? EPOLLIN : 0;
	case FILE_PROCESS:
		return f->process->is_over ? EPOLLIN : 0;
	}
	return 0;
}

void file_wake(struct file *f, uint32_t what)
{
	struct epoll_item *item;

	list_for (item, &f->items, node) {
		if (!(what & (item->events | EPOLLERR | EPOLLHUP)))
			continue;
		if (!node_is_linked(&item->ready_node))
			list_push_back(&item->epoll->ready, &item->ready_node);
		task_wake(item->epoll);
	}
}

static void end_wake(struct end *e, uint32_t what)
{
	if (e->file)
		file_wake(e->file, what);
}

/* ---- sets ---- */

int epoll_change(struct file *epoll, int op, int fd, struct epoll_event *event)
{
	struct file *f = file_of(fd);
	struct epoll_item **place, *item;

	if (!f)
		return fd < SIM_FD_FIRST ? 0 : (errno = EBADF, -1);
	if (!epoll->set)
		epoll->set = mem_zero(SIM_FDS * sizeof(struct epoll_item *));
	place = &epoll->set[fd - SIM_FD_FIRST];
	item = *place && (*place)->file == f ? *place : NULL;
	if (op == EPOLL_CTL_ADD ? item != NULL : !item) {
		errno = item ? EEXIST : ENOENT;
		return -1;
	}
	if (op == EPOLL_CTL_DEL) {
		item_free(item);
		return 0;
	}
	if (!item) {
		item = mem_zero(sizeof(*item));
		item->fd = fd;
		item->file = f;
		item->epoll = epoll;
		list_push_back(&f->items, &item->node);
		*place = item;
	}
	item->events = event->events;
	item->data = event->data;
	if (file_ready(f) & (item->events | EPOLLERR | EPOLLHUP) &&
	    !node_is_linked(&item->ready_node))
		list_push_back(&epoll->ready, &item->ready_node);
	return 0;
}

int epoll_collect(struct file *epoll, struct epoll_event *events, int most)
{
	size_t left = epoll->ready.count;
	int count = 0;

	while (left-- && count < most) {
		struct epoll_item *item = container_of(
		    list_pop_front(&epoll->ready), struct epoll_item, ready_node);
		uint32_t what =
		    file_ready(item->file) & (item->events | EPOLLERR | EPOLLHUP);
		if (!what)
			continue;
		events[count].events = what;
		events[count++].data = item->data;
		if (!(item->events & EPOLLET))
			list_push_back(&epoll->ready, &item->ready_node);
	}
	return count;
}

/* ---- connections ---- */

static struct wire *wire_new(void)
{
	static const size_t rooms[] = {4096, 16384, 65536, 212992, 1048576};
	struct wire *w = mem_zero(sizeof(*w));

	w->rng = rng_for("wire", net.wire_count++);
	w->room = rooms[draw_below(&w->rng, 5)];
	if (draw_fault(&w->rng, FAULT_SPLIT, 100000))
		w->room = draw_between(&w->rng, 1, 600);
	w->latency_us =
	    draw_between(&w->rng, 5, draw_chance(&w->rng, 100) ? 40000 : 300);
	/* the largest result passes within half a minute: others wait for its server */
	if (w->room < world.habits.turn_us / NARROW_US)
		w->room = world.habits.turn_us / NARROW_US;
	if (w->latency_us > w->room * NARROW_US)
		w->latency_us = w->room * NARROW_US;
	w->refs = 2;
	for (int i = 0; i < 2; i++) {
		w->ends[i].wire = w;
		w->ends[i].peer = &w->ends[!i];
		w->ends[i].is_open = true;
		list_init(&w->ends[i].passed);
		buf_init(&w->ends[i].in, 0);
	}
	return w;
}

struct wire *net_local_wire(void)
{
	struct wire *w = wire_new();

	w->is_local = true;
	w->room = 212992;
	for (int i = 0; i < 2; i++) {
		w->ends[i].is_connected = true;
		w->ends[i].local.ss_family = w->ends[i].remote.ss_family = AF_UNIX;
		w->ends[i].local_len = w->ends[i].remote_len = sizeof(sa_family_t);
	}
	return w;
}

static void wire_unref(struct wire *w)
{
	if (--w->refs)
		return;
	event_cancel(&w->death);
	for (int i = 0; i < 2; i++) {
		local_drop(&w->ends[i]);
		buf_done(&w->ends[i].in);
	}
	mem_free(w);
}

static void actor_pump(struct actor *a);

static void wire_unref(struct wire *w);
static void end_take(struct end *e, size_t n);
static void note_room(struct end *e);

static void tell_actor(struct end *e)
{
	struct actor *a = e->actor;
	size_t len = e->in.len - e->in_from;

	if (!a || !e->is_open || a->is_unresponsive)
		return;
	e->wire->refs++;
	if (len) {
		if (a->secure)
			sim_tls_take(a, e->in.bytes + e->in_from, len);
		else
			buf_put(&a->in, e->in.bytes + e->in_from, len);
		end_take(e, len);
		note_room(e);
		actor_pump(a);
		a->ops->received(a);
	}
	/* it may have closed, or gone */
	if (e->is_open && e->actor == a && !a->is_unresponsive &&
	    (e->is_reset || e->has_fin || sim_tls_has_failed(a)))
		a->ops->ended(a, e->error);
	wire_unref(e->wire);
}

/* The end gets a reset: what it has received can still be read. */
static void end_break(struct end *e, int errnum)
{
	if (!e->is_open || e->is_reset)
		return;
	e->is_reset = true;
	e->error = errnum;
	note("break", (uint64_t)errnum, 0);
	end_wake(e, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLHUP | EPOLLERR);
	if (e->actor)
		tell_actor(e);
}

static void break_both(struct wire *w, int errnum)
{
	w->refs++;
	end_break(&w->ends[0], errnum);
	end_break(&w->ends[1], errnum);
	wire_unref(w);
}

static void died(struct event *e)
{
	break_both(container_of(e, struct wire, death), ETIMEDOUT);
}

static void was_reset(struct event *e)
{
	break_both(container_of(e, struct wire, death), ECONNRESET);
}

static uint64_t arrival(struct end *to)
{
	struct wire *w = to->wire;
	uint64_t at_us =
	    world.now_us + w->latency_us + draw_below(&w->rng, w->latency_us + 1);

	if (draw_fault(&w->rng, FAULT_LATE, 3000))
		at_us += draw_between(
		    &w->rng, 1000, draw_chance(&w->rng, 100) ? 20000000 : 400000);
	if (at_us < to->last_us)
		at_us = to->last_us;
	return to->last_us = at_us;
}

static void arrived(struct event *event);

/* The reset overtakes nothing that was sent before it, as on a real network. */
static void send_reset(struct end *to)
{
	struct replay *s;

	if (to->wire->is_local) {
		end_break(to, ECONNRESET);
		return;
	}
	s = mem_zero(sizeof(*s));
	s->to = to;
	s->is_reset = true;
	s->event.run = arrived;
	to->wire->refs++;
	event_at(&s->event, arrival(to));
}

static void deliver(struct end *to, const uint8_t *bytes, size_t len, bool is_fin)
{
	if (!to->is_open && len) {
		send_reset(to->peer); /* nobody is there any more */
	} else if (to->is_open && !to->is_reset) {
		buf_put(&to->in, bytes, len);
		to->has_fin = to->has_fin || is_fin;
		end_wake(to,
		    EPOLLIN |
			(is_fin ? EPOLLRDHUP | (to->has_sent_fin ? EPOLLHUP : 0) : 0));
		tell_actor(to);
	}
}

static void arrived(struct event *event)
{
	struct replay *s = container_of(event, struct replay, event);
	struct wire *w = s->to->wire;
	bool is_lost = w->dead_us && world.now_us >= w->dead_us;

	s->to->flying -= s->len;
	if (!is_lost && s->is_reset)
		end_break(s->to, ECONNRESET);
	else if (!is_lost)
		deliver(s->to, s->bytes, s->len, s->is_fin);
	mem_free(s);
	wire_unref(w);
}

static void send_segment(
    struct end *from, const uint8_t *bytes, size_t len, bool is_fin)
{
	struct replay *s;

	/* nothing is on its way between two ends of a unix socket */
	if (from->wire->is_local) {
		from->peer->sent += len;
		deliver(from->peer, bytes, len, is_fin);
		return;
	}
	s = mem_zero(sizeof(*s) + len);
	s->to = from->peer;
	s->len = len;
	s->is_fin = is_fin;
	if (len)
		memcpy(s->bytes, bytes, len);
	s->to->flying += len;
	s->to->sent += len;
	s->event.run = arrived;
	from->wire->refs++;
	event_at(&s->event, arrival(s->to));
}

static void maybe_break(struct wire *w)
{
	if (w->is_local) {
		return;
	} else if (draw_fault(&w->rng, FAULT_RESET, 150)) {
		w->death.run = was_reset;
		event_in(&w->death, 0);
	} else if (!w->dead_us && draw_fault(&w->rng, FAULT_RESET, 50)) {
		note("hole", 0, 0);
		w->dead_us = world.now_us;
		w->death.run = died;
		event_in(&w->death, draw_between(&w->rng, 30000000, 90000000));
	}
}

/* Sends what there is room for; -1 and errno. */
ssize_t end_send(struct end *e, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;
	struct wire *w = e->wire;
	size_t n, left;

	if (e->error && e->is_reset) {
		errno = e->error;
		e->error = 0;
		return -1;
	}
	if (e->is_reset || e->has_sent_fin ||
	    (w->is_local && (e->peer->is_deaf || !e->peer->is_open))) {
		errno = EPIPE;
		return -1;
	}
	if (!e->is_connected) {
		errno = EAGAIN;
		return -1;
	}
	n = room_of(e->peer);
	if (!n) {
		e->wants_room = true;
		errno = EAGAIN;
		return -1;
	}
	n = n < len ? n : len;
	if (n > 1 && !w->is_local && draw_fault(&w->rng, FAULT_SPLIT, 3000))
		n = draw_between(&w->rng, 1, n);
	e->wants_room = n < len;
	for (left = n; left;) {
		size_t piece = left;
		if (draw_fault(&w->rng, FAULT_SPLIT, 60000))
			piece = draw_between(&w->rng, 1,
			    left < 40 || draw_chance(&w->rng, 500) ? left : 40);
		send_segment(e, at, piece, false);
		at += piece;
		left -= piece;
	}
	world.counts.bytes += n;
	maybe_break(w);
	return (ssize_t)n;
}

static void note_room(struct end *e)
{
	struct end *peer = e->peer;

	if (!peer->wants_room || room_of(e) < e->wire->room / 3 + 1)
		return;
	peer->wants_room = false;
	end_wake(peer, EPOLLOUT);
	if (peer->actor)
		actor_pump(peer->actor);
}

static void end_take(struct end *e, size_t n)
{
	e->in_from += n;
	e->taken += n;
	if (e->in_from == e->in.len) {
		buf_clear(&e->in);
		e->in_from = 0;
	} else if (e->in_from > 65536) {
		buf_shift(&e->in, e->in_from);
		e->in_from = 0;
	}
}

ssize_t end_receive(struct end *e, void *bytes, size_t room, bool is_peek)
{
	size_t n = e->in.len - e->in_from;

	if (!n && e->error) {
		errno = e->error;
		if (!is_peek)
			e->error = 0;
		return -1;
	}
	if (!n && (e->has_fin || e->is_reset || e->is_deaf))
		return 0;
	if (!n) {
		errno = e->is_connected ? EAGAIN : ENOTCONN;
		return -1;
	}
	n = local_limit(e, n < room ? n : room);
	memcpy(bytes, e->in.bytes + e->in_from, n);
	if (is_peek)
		return (ssize_t)n;
	end_take(e, n);
	note_room(e);
	return (ssize_t)n;
}

void end_shut(struct end *e)
{
	if (e->has_sent_fin || e->is_reset || !e->is_connected)
		return;
	e->has_sent_fin = true;
	send_segment(e, NULL, 0, true);
}

/* Closing with unread bytes resets the connection, as TCP does. */
static void end_close(struct end *e, bool is_reset)
{
	struct wire *w = e->wire;

	if (!e->is_open)
		return;
	e->file = NULL;
	e->actor = NULL;
	if (!e->is_reset && e->is_connected) {
		if (is_reset || e->in.len > e->in_from) {
			e->has_sent_fin = true;
			send_reset(e->peer);
		} else {
			end_shut(e);
		}
	}
	e->is_open = false;
	local_drop(e);
	wire_unref(w);
}

/* ---- connecting ---- */

struct connecting {
	struct event event;
	struct end *end; /* who connects */
	char ip[20];
	int port;
};

void place_open(struct place *p)
{
	net_prepare();
	list_push_back(&net.places, &p->node);
}

void place_close(struct place *p)
{
	if (node_is_linked(&p->node))
		list_remove(&net.places, &p->node);
}

static struct place *find_place(const char *ip, int port)
{
	struct place *p;

	list_for (p, &net.places, node)
		if (p->port == port && strcmp(p->ip, ip) == 0)
			return p;
	return NULL;
}

static struct file *find_listener(int port)
{
	struct file *f;

	list_for (f, &net.listeners, node)
		if (f->port == port)
			return f;
	return NULL;
}

static void connected(struct end *e)
{
	e->is_connected = e->peer->is_connected = true;
	end_wake(e, EPOLLOUT);
	if (!e->actor)
		return;
	e->actor->ops->connected(e->actor);
	if (e->actor)
		actor_pump(e->actor);
}

static void refuse(struct end *e)
{
	struct wire *w = e->wire;

	w->refs++;
	if (e->peer->is_open) {
		e->peer->is_open = false;
		w->refs--;
	}
	end_break(e, ECONNREFUSED);
	wire_unref(w);
}

void net_enqueue(struct file *listener, struct end *client)
{
	struct pending *p = mem_zero(sizeof(*p));

	p->end = client->peer;
	list_push_back(&listener->queue, &p->node);
	file_wake(listener, EPOLLIN);
	connected(client);
}

static void connect_arrived(struct event *event)
{
	struct connecting *c = container_of(event, struct connecting, event);
	struct end *e = c->end;
	struct wire *w = e->wire;
	struct place *place = find_place(c->ip, c->port);
	struct file *listener = place ? NULL : find_listener(c->port);
	struct actor *actor;

	if (!e->is_open) {
		/* it has given up */
		if (e->peer->is_open) {
			e->peer->is_open = false;
			wire_unref(w);
		}
	} else if (place && place->hangs) {
		event_in(event, 1000000);
		if (world.now_us - e->last_us < TIMED_OUT_US)
			return;
		refuse(e);
	} else if (listener && listener->queue.count < 128) {
		net_enqueue(listener, e);
	} else if (place && (actor = place->accept(place))) {
		actor->end = e->peer;
		e->peer->actor = actor;
		connected(e);
		if (actor->end)
			actor->ops->connected(actor);
	} else {
		refuse(e);
	}
	event_cancel(event);
	mem_free(c);
	wire_unref(w);
}

static struct end *begin_connect(
    const struct sockaddr *from, socklen_t from_len, const char *ip, int port)
{
	struct wire *w = wire_new();
	struct end *e = &w->ends[0];
	struct connecting *c = mem_zero(sizeof(*c));
	struct sockaddr_in to = {
	    .sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	inet_pton(AF_INET, ip, &to.sin_addr);
	memcpy(&e->local, from, from_len);
	e->local_len = from_len;
	memcpy(&e->remote, &to, sizeof(to));
	e->remote_len = sizeof(to);
	e->peer->local = e->remote;
	e->peer->local_len = e->remote_len;
	e->peer->remote = e->local;
	e->peer->remote_len = e->local_len;
	e->last_us = world.now_us;
	c->end = e;
	snprintf(c->ip, sizeof(c->ip), "%s", ip);
	c->port = port;
	c->event.run = connect_arrived;
	w->refs++;
	event_in(&c->event, HANDSHAKE_US + draw_below(&w->rng, 2 * w->latency_us));
	return e;
}

int net_connect(struct file *f, const struct sockaddr *to)
{
	static uint16_t port = 40000;
	struct sockaddr_in from = {.sin_family = AF_INET};
	const struct sockaddr_in *in = (const void *)to;
	char ip[INET_ADDRSTRLEN];

	if (to->sa_family == AF_UNIX)
		return local_connect(f, to);
	port = port == 65000 ? 40000 : (uint16_t)(port + 1);
	from.sin_port = htons(port);
	inet_pton(AF_INET, "10.0.0.9", &from.sin_addr);
	inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
	f->end =
	    begin_connect((const void *)&from, sizeof(from), ip, ntohs(in->sin_port));
	f->end->file = f;
	note("connect", ntohs(in->sin_port), port);
	errno = EINPROGRESS;
	return -1;
}

int net_accept(struct file *listener, struct sockaddr *from, socklen_t *len)
{
	struct node *n = list_first(&listener->queue);
	struct pending *p;
	struct file *f;
	int fd;

	if (!n) {
		errno = EAGAIN;
		return -1;
	}
	fd = file_new(FILE_SOCKET, &f);
	if (fd < 0)
		return -1;
	list_remove(&listener->queue, n);
	p = container_of(n, struct pending, node);
	f->end = p->end;
	f->end->file = f;
	memcpy(from, &f->end->remote, f->end->remote_len);
	*len = f->end->remote_len;
	mem_free(p);
	note("accept", (uint64_t)fd, 0);
	return fd;
}

void net_listen(struct file *f)
{
	f->kind = FILE_LISTENER;
	f->pid = process_current()->pid;
	list_push_back(&net.listeners, &f->node);
}

struct file *net_next_listener(struct file *after)
{
	struct node *n = after ? list_next(&net.listeners, &after->node)
			       : list_first(&net.listeners);

	return n ? container_of(n, struct file, node) : NULL;
}

void net_pair(struct file *a, struct file *b)
{
	struct wire *w = net_local_wire();

	for (int i = 0; i < 2; i++) {
		w->ends[i].file = i ? b : a;
		w->ends[i].file->end = &w->ends[i];
	}
}

/* ---- simulated peers ---- */

void actor_init(struct actor *a, const struct actor_ops *ops)
{
	a->ops = ops;
	buf_init(&a->in, 0);
	buf_init(&a->out, 0);
}

void actor_connect(
    struct actor *a, const struct sockaddr_in *from, const char *ip, int port)
{
	net_prepare();
	a->end = begin_connect((const void *)from, sizeof(*from), ip, port);
	a->end->actor = a;
}

static void actor_pump(struct actor *a)
{
	while (a->end && a->out.len > a->out_from) {
		ssize_t n = end_send(
		    a->end, a->out.bytes + a->out_from, a->out.len - a->out_from);
		if (n < 0)
			break;
		a->out_from += (size_t)n;
		a->sent += (uint64_t)n;
	}
	if (a->out_from == a->out.len) {
		buf_clear(&a->out);
		a->out_from = 0;
		if (a->is_ending && a->end)
			actor_close(a, false);
	}
}

void actor_send(struct actor *a, const void *bytes, size_t len)
{
	if (!a->end)
		return;
	if (a->secure)
		sim_tls_put(a, bytes, len);
	else
		buf_put(&a->out, bytes, len);
	actor_pump(a);
}

const uint8_t *actor_bytes(const struct actor *a, size_t *len)
{
	*len = a->in.len - a->in_from;
	return *len ? a->in.bytes + a->in_from : NULL;
}

void actor_take(struct actor *a, size_t len)
{
	a->got += len;
	a->in_from += len;
	if (a->in_from == a->in.len) {
		buf_clear(&a->in);
		a->in_from = 0;
	}
}

void actor_listen_again(struct actor *a)
{
	if (a->end)
		tell_actor(a->end);
}

void actor_finish(struct actor *a)
{
	a->is_ending = true;
	actor_pump(a);
}

void actor_shut(struct actor *a)
{
	if (a->end)
		end_shut(a->end);
}

void actor_close(struct actor *a, bool is_reset)
{
	struct end *e = a->end;

	if (a->secure && e && !is_reset) {
		sim_tls_say_goodbye(a);
		actor_pump(a);
	}
	sim_tls_free(a);
	a->end = NULL;
	a->is_ending = a->is_unresponsive = false;
	buf_done(&a->in);
	buf_done(&a->out);
	a->in_from = a->out_from = 0;
	if (e)
		end_close(e, is_reset);
}
