/*
 * Several workers in one thread: wherever one takes the lock, others may act first, and
 * at times one stands still.  Messages between two workers arrive in order, but all
 * others in any order; commands of administrators reach one worker after the other.
 */
#include "model.h"

/* How deep events happen before the lock of another one. */
enum { DEPTH = 3 };

/* MAIL_ORDER is a command of an administrator. */
enum mail_kind { MAIL_NOTE, MAIL_SERVER, MAIL_ORDER };

struct mail {
	struct node node;
	enum mail_kind kind;
	struct central_note *note;
	struct server *server;
	struct order order;
	unsigned round; /* of an ORDER: its number */
	uint64_t posted_us;
};

/* ---- threads ---- */

bool may_enter(struct worker *worker)
{
	if (worker->is_still || worker->is_busy)
		return false;
	worker->is_busy = true;
	if (w.depth++ == 0)
		w.is_interrupted = false;
	return true;
}

void leave(struct worker *worker)
{
	CHECK(worker->is_busy && !w.is_locked);
	worker->is_busy = false;
	w.depth--;
}

/* The lock is about to be taken: others act first, at times for long. */
static void let_others_act(void)
{
	int count = 1 + (int)any(any(200) ? 3 : 100);

	w.is_interrupted = true;
	w.counts.interruptions++;
	for (int i = 0; i < count; i++)
		happen_elsewhere();
	check_exceeded();
}

/* These take the place of libc's, because all workers are in one thread. */
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	(void)mutex;
	CHECK(!w.is_locked);
	if (!is_alone() && w.depth > 0 && w.depth <= DEPTH && any(8) == 0)
		let_others_act();
	w.is_locked = true;
	return 0;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	(void)mutex;
	CHECK(w.is_locked);
	w.is_locked = false;
	return 0;
}

bool is_anybody_still(void)
{
	for (unsigned i = 0; i < w.workers; i++)
		if (w.worker[i].is_still)
			return true;
	return false;
}

void stop_one(void)
{
	bool goes_on = is_anybody_still();

	for (unsigned i = 0; i < w.workers; i++)
		w.worker[i].is_still = false;
	if (goes_on)
		return;
	w.worker[any(w.workers)].is_still = true;
	w.counts.stops++;
}

/* ---- messages ---- */

static struct mail *post(unsigned from, unsigned to, enum mail_kind kind)
{
	struct mail *mail = calloc(1, sizeof(*mail));

	CHECK(from != to && to < w.workers && !w.is_locked);
	mail->kind = kind;
	mail->round = w.orders;
	mail->posted_us = w.now;
	list_push_back(&w.ways[from][to], &mail->node);
	return mail;
}

/* It leaves its messages unopened, or stands still. */
bool is_unresponsive(void *ctx, unsigned worker)
{
	(void)ctx;
	for (unsigned i = 0; i <= WORKERS; i++) {
		struct node *first = list_first(&w.ways[i][worker]);
		if (first && container_of(first, struct mail, node)->posted_us +
				     CENTRAL_PATIENCE_US <=
				 w.now)
			return true;
	}
	return false;
}

void post_note(void *ctx, struct central_note *note)
{
	post(number_of_worker(ctx), note->worker, MAIL_NOTE)->note = note;
}

void send_off(struct server *s)
{
	struct pool *pool = s->slot.pool;

	CHECK(s->is_handed);
	if (any(20) == 0) {
		/* it cannot be sent, so it is closed */
		close_server(s);
		w.counts.losses++;
		return;
	}
	s->whole = central_pool_ref(&worker_of(pool)->c->view, pool->part.whole);
	s->is_handed = false;
	s->was = s->slot;
	s->was.state = s->slot.carried_as;
	s->was.is_carried = true;
	pool_carried(&s->slot);
	pool_gone(&s->slot, w.now);
	pool_free_if_unused(pool);
	post(s->worker, s->to, MAIL_SERVER)->server = s;
	w.counts.hands++;
}

static void take_server(struct worker *worker, struct server *s)
{
	struct pool *pool = any(20) ? notes_pool(worker->c, s->whole) : NULL;
	struct central_pool *whole = s->whole;
	bool is_outdated = s->handed_round < worker->round;
	struct verdict v;

	if (!pool) {
		notes_lost(worker->c, whole, &s->was);
		s->is_used = false;
		s->whole = NULL;
		central_pool_unref(&worker->c->view, &whole);
		w.counts.losses++;
		return;
	}
	/* the order could not reach it on its way */
	if (is_outdated)
		s->was.dirty = DIRTY_OLD;
	w.counts.outdated += is_outdated;
	s->worker = number_of_worker(worker);
	s->slot = (struct slot){.state = SLOT_NONE};
	pool_move_in(pool, &s->slot, NULL, &s->was, NULL, 5432, w.now);
	s->whole = NULL;
	central_pool_unref(&worker->c->view, &whole);
	v = pool_review(&s->slot, w.now);
	carry(worker, pool, &v);
}

/* ---- commands ---- */

static void adopt(struct worker *worker, const struct mail *mail)
{
	struct config *config = mail->order.config;

	catalog_adopt(worker->c, config, NULL, NULL, NULL);
	config_unref(&config);
	for (int i = 0; i < w.servers_used; i++) {
		struct server *s = &w.servers[i];
		if (!s->is_used || !s->slot.pool ||
		    s->worker != number_of_worker(worker))
			continue;
		struct verdict v = pool_review(&s->slot, w.now);
		carry(worker, s->slot.pool, &v);
	}
}

static void renew(struct worker *worker, unsigned databases, unsigned round)
{
	for (unsigned i = 0; i < DATABASES; i++)
		if (databases >> i & 1)
			worker->renewed[i] = round;
}

/* db NULL: all databases. */
static void pause_or_resume(
    struct catalog *c, struct database *db, const struct order *order)
{
	bool is_on = order->kind == ORDER_PAUSE;

	if (db)
		db->paused = is_on;
	else if (!is_on)
		c->paused = c->suspended = c->refuse_waiting = false;
	else if (order->suspends)
		c->suspended = true;
	else
		c->paused = true;
	c->refuse_waiting |= is_on && order->refuses_waiting;
	catalog_schedule_all(c, db);
}

static void carry_out(struct worker *worker, const struct mail *mail)
{
	const struct order *order = &mail->order;
	struct catalog *c = worker->c;
	bool is_for_all = order->database == DATABASES;
	struct database *db =
	    is_for_all ? NULL
		       : catalog_find_database(c, database_names[order->database]);
	unsigned concerned = is_for_all ? ~0u : 1u << order->database;

	CHECK(worker->round + 1 == mail->round);
	worker->round = c->view.broadcast = mail->round;
	if (!db && !is_for_all)
		return;
	switch (order->kind) {
	case ORDER_PAUSE:
	case ORDER_RESUME:
		pause_or_resume(c, db, order);
		break;
	case ORDER_RECONNECT:
		catalog_mark_dirty(c, db);
		renew(worker, concerned, mail->round);
		break;
	case ORDER_KILL:
		catalog_kill(c, db, "killed");
		renew(worker, concerned, mail->round);
		break;
	case ORDER_DISABLE:
	case ORDER_ENABLE:
		if (db)
			db->disabled = order->kind == ORDER_DISABLE;
		break;
	case ORDER_RELOAD:
		adopt(worker, mail);
		renew(worker, order->renewed, mail->round);
		break;
	case ORDER_KINDS:
		break;
	}
}

void command(struct order order)
{
	/* KILL of all databases is one KILL for each */
	if (order.kind == ORDER_KILL && order.database == DATABASES) {
		for (order.database = 0; order.database < w.databases; order.database++)
			command(order);
		return;
	}
	w.orders++;
	for (unsigned i = 0; i < w.workers; i++) {
		if (order.config && i)
			config_ref(order.config);
		post(WORKERS, i, MAIL_ORDER)->order = order;
		if (is_alone())
			deliver(WORKERS, i);
	}
}

bool deliver(unsigned from, unsigned to)
{
	struct worker *worker = &w.worker[to];
	struct node *first = list_first(&w.ways[from][to]);

	if (!first || !may_enter(worker))
		return false;
	list_remove(&w.ways[from][to], first);
	struct mail *mail = container_of(first, struct mail, node);
	if (mail->kind == MAIL_NOTE) {
		struct verdict v = notes_hear(worker->c, mail->note, w.now);
		carry(worker, v.slot ? v.slot->pool : NULL, &v);
		central_note_free(mail->note);
	} else if (mail->kind == MAIL_SERVER) {
		take_server(worker, mail->server);
	} else {
		carry_out(worker, mail);
	}
	free(mail);
	leave(worker);
	return true;
}
