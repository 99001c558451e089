/*
 * Finds a maximum flow by augmenting paths: first direct ones, then shortest ones
 * (Edmonds-Karp).  Databases without a limit need no node of their own.  Their flow is
 * used first, which is always right, because it takes nothing from other users.
 */
#include "tools/sizing_flow.h"

#include <string.h>

#include "base/mem.h"
#include "tools/sizing.h"

/* The nodes of the graph are the databases, followed by the users. */
struct search {
	int64_t *supply; /* for each database: what it may still give */
	int64_t *demand; /* for each user: what they may still take */
	int64_t *room;   /* for each database and user: what may still flow */
	int64_t *passed; /* for each database and user: the flow so far, which may be
			    taken back */
	size_t database_count, user_count;
	size_t *before; /* for each node: 1 + the node before it on the path; 0: not
			   reached */
	size_t *queue;
};

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t sum(int64_t a, int64_t b)
{
	return least(a + b, SIZING_NO_LIMIT);
}

void sizing_flow_init(struct sizing_flow *f, size_t user_count)
{
	memset(f, 0, sizeof(*f));
	f->user_count = user_count;
	f->users = mem_zero((user_count + 1) * sizeof(*f->users));
	f->direct = mem_zero((user_count + 1) * sizeof(*f->direct));
	buf_init(&f->supply, 0);
	buf_init(&f->rooms, 0);
}

void sizing_flow_done(struct sizing_flow *f)
{
	mem_free(f->users);
	mem_free(f->direct);
	buf_done(&f->supply);
	buf_done(&f->rooms);
}

void sizing_flow_user(struct sizing_flow *f, size_t user, int64_t limit)
{
	f->users[user] = limit;
}

void sizing_flow_database(struct sizing_flow *f, int64_t limit)
{
	f->limit = limit;
	if (limit < SIZING_NO_LIMIT)
		buf_put(&f->supply, &limit, sizeof(limit));
}

void sizing_flow_pool(struct sizing_flow *f, size_t user, int64_t room)
{
	if (f->limit < SIZING_NO_LIMIT)
		buf_put(&f->rooms, &room, sizeof(room));
	else
		f->direct[user] = sum(f->direct[user], room);
}

/* The capacity of the edge between two nodes. */
static int64_t *step_of(const struct search *s, size_t from, size_t to)
{
	if (from < s->database_count)
		return &s->room[from * s->user_count + to - s->database_count];
	return &s->passed[to * s->user_count + from - s->database_count];
}

/* Finds the nearest user with demand that can be reached from a database with supply;
 * SIZE_MAX: none. */
static size_t find_way(struct search *s)
{
	size_t head = 0, tail = 0, nodes = s->database_count + s->user_count;

	memset(s->before, 0, nodes * sizeof(*s->before));
	for (size_t d = 0; d < s->database_count; d++)
		if (s->supply[d] > 0) {
			s->before[d] = d + 1;
			s->queue[tail++] = d;
		}
	while (head < tail) {
		size_t at = s->queue[head++];
		bool is_database = at < s->database_count;
		size_t first = is_database ? s->database_count : 0;
		size_t end = is_database ? nodes : s->database_count;

		if (!is_database && s->demand[at - s->database_count] > 0)
			return at;
		for (size_t to = first; to < end; to++)
			if (!s->before[to] && *step_of(s, at, to) > 0) {
				s->before[to] = at + 1;
				s->queue[tail++] = to;
			}
	}
	return SIZE_MAX;
}

/* Sends as much along the path to this user as it can carry. */
static int64_t send_along(struct search *s, size_t user)
{
	int64_t amount = s->demand[user - s->database_count];
	size_t at, before;

	for (at = user; (before = s->before[at] - 1) != at; at = before)
		amount = least(amount, *step_of(s, before, at));
	amount = least(amount, s->supply[at]);
	s->supply[at] -= amount;
	s->demand[user - s->database_count] -= amount;
	for (at = user; (before = s->before[at] - 1) != at; at = before) {
		*step_of(s, before, at) -= amount;
		*step_of(s, at, before) += amount;
	}
	return amount;
}

/* Most of the flow can be sent along direct edges. */
static int64_t send_straight(struct search *s)
{
	int64_t total = 0;

	for (size_t d = 0; d < s->database_count; d++)
		for (size_t u = 0; u < s->user_count; u++) {
			size_t at = d * s->user_count + u;
			int64_t amount = least(s->room[at], s->supply[d]);

			amount = least(amount, s->demand[u]);
			s->room[at] -= amount;
			s->passed[at] += amount;
			s->supply[d] -= amount;
			s->demand[u] -= amount;
			total = sum(total, amount);
		}
	return total;
}

static int64_t most_of_limited(struct sizing_flow *f)
{
	size_t databases = f->supply.len / sizeof(int64_t), user;
	size_t nodes = databases + f->user_count;
	struct search s = {
	    .supply = (int64_t *)(void *)f->supply.bytes,
	    .demand = f->users,
	    .room = (int64_t *)(void *)f->rooms.bytes,
	    .database_count = databases,
	    .user_count = f->user_count,
	};
	int64_t total;

	if (databases == 0)
		return 0;
	s.passed = mem_zero((databases * f->user_count + 1) * sizeof(*s.passed));
	s.before = mem_zero(nodes * sizeof(*s.before));
	s.queue = mem_zero(nodes * sizeof(*s.queue));
	total = send_straight(&s);
	while ((user = find_way(&s)) != SIZE_MAX)
		total = sum(total, send_along(&s, user));
	mem_free(s.passed);
	mem_free(s.before);
	mem_free(s.queue);
	return total;
}

int64_t sizing_flow_most(struct sizing_flow *f)
{
	int64_t total = 0;

	for (size_t u = 0; u < f->user_count; u++) {
		int64_t amount = least(f->direct[u], f->users[u]);

		total = sum(total, amount);
		if (f->users[u] < SIZING_NO_LIMIT)
			f->users[u] -= amount;
	}
	return sum(total, most_of_limited(f));
}
