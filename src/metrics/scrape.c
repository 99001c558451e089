/*
 * Scrapes gather one after the other.  Those that have gathered are written at the same
 * time, as fast as their clients read.
 */
#include "metrics/scrape.h"

#include "base/mem.h"
#include "metrics/writer.h"

/* GIVE_WAY_US: a reader that has taken nothing for so long gives way to another
 * scrape. */
enum { SCRAPES_MOST = 4, GIVE_WAY_US = 1500000 };

struct scrapes {
	struct site *site; /* borrowed */
	uint64_t began_us;
	struct list all;          /* struct scrape by .node, the oldest first */
	struct scrape *gathering; /* NULL: none */
	struct list dropped;      /* struct collection by .node: being freed */
	struct later dropping;
};

struct scrape {
	struct node node;
	struct scrapes *scrapes;
	struct http_request *request;  /* owned by http */
	struct collection *collection; /* NULL: it waits until others have gathered */
	struct writer writer;
	enum format format;
	bool is_writing;
	/* since when its reader has been asked to take a part; 0: it is not its turn */
	uint64_t waits_since_us;
	bool is_leaving; /* it was given up, and counts no more */
	struct later turn;
};

/* ---- the end of collections ---- */

static void drop_turn(struct later *l);

static void drop_turn_over(struct later *l)
{
	struct scrapes *s = container_of(l, struct scrapes, dropping);

	l->run = drop_turn;
	loop_later(s->site->loop, l);
}

static void drop_turn(struct later *l)
{
	struct scrapes *s = container_of(l, struct scrapes, dropping);
	struct collection *h =
	    container_of(list_pop_front(&s->dropped), struct collection, node);

	if (collection_drop_part(&h))
		list_push_front(&s->dropped, &h->node);
	if (list_is_empty(&s->dropped))
		return;
	l->run = drop_turn_over;
	loop_at_turn_end(s->site->loop, l);
}

/* The collection may be large, so it is freed in parts. */
static void drop_collection(struct scrapes *s, struct collection *h)
{
	if (!collection_drop_part(&h))
		return;
	list_push_back(&s->dropped, &h->node);
	if (node_is_linked(&s->dropping.node))
		return;
	s->dropping.run = drop_turn;
	loop_later(s->site->loop, &s->dropping);
}

/* ---- the set of scrapes ---- */

struct scrapes *scrapes_new(struct site *site, uint64_t began_us)
{
	struct scrapes *s = mem_zero(sizeof(*s));

	s->site = site;
	s->began_us = began_us;
	list_init(&s->all);
	list_init(&s->dropped);
	s->dropping.run = drop_turn;
	return s;
}

void scrapes_free(struct scrapes **scrapes)
{
	struct node *n;

	while ((n = list_pop_front(&(*scrapes)->dropped))) {
		struct collection *h = container_of(n, struct collection, node);
		collection_free(&h);
	}
	later_cancel((*scrapes)->site->loop, &(*scrapes)->dropping);
	mem_free(*scrapes);
	*scrapes = NULL;
}

/* The scrape whose reader has let it wait for the longest time. */
static struct scrape *slowest_of(const struct scrapes *scrapes)
{
	uint64_t before_us = loop_now(scrapes->site->loop) - GIVE_WAY_US;
	struct scrape *s, *slowest = NULL;

	list_for (s, &scrapes->all, node)
		if (!s->is_leaving && s->waits_since_us &&
		    s->waits_since_us <= before_us &&
		    (!slowest || s->waits_since_us < slowest->waits_since_us))
			slowest = s;
	return slowest;
}

int scrapes_find_room(struct scrapes *scrapes)
{
	struct scrape *s;
	size_t count = 0;

	list_for (s, &scrapes->all, node)
		count += !s->is_leaving;
	if (count < SCRAPES_MOST)
		return 0;
	s = slowest_of(scrapes);
	if (!s)
		return -1;
	s->is_leaving = true;
	http_give_up(s->request);
	return 0;
}

/* ---- gathering ---- */

static void gather_next(struct scrapes *scrapes);

static void gathered(void *ctx)
{
	struct scrape *s = ctx;

	s->scrapes->gathering = NULL;
	s->is_writing = true;
	writer_init(&s->writer, s->collection, s->format);
	http_begin(s->request, writer_format_type(s->format));
	loop_later(s->scrapes->site->loop, &s->turn);
	gather_next(s->scrapes);
}

static void gather_next(struct scrapes *scrapes)
{
	struct scrape *s;

	if (scrapes->gathering)
		return;
	list_for (s, &scrapes->all, node) {
		if (s->collection)
			continue;
		scrapes->gathering = s;
		s->collection =
		    collection_new(scrapes->site, scrapes->began_us, gathered, s);
		return;
	}
}

/* ---- writing ---- */

static void scrape_free(struct scrape *s)
{
	struct scrapes *scrapes = s->scrapes;

	later_cancel(scrapes->site->loop, &s->turn);
	list_remove(&scrapes->all, &s->node);
	if (scrapes->gathering == s)
		scrapes->gathering = NULL;
	if (s->collection)
		drop_collection(scrapes, s->collection);
	mem_free(s);
	gather_next(scrapes);
}

static void write_turn(struct later *l);

/* Runs after everything else in this turn and continues in the next one. */
static void turn_over(struct later *l)
{
	struct scrape *s = container_of(l, struct scrape, turn);

	l->run = write_turn;
	loop_later(s->scrapes->site->loop, l);
}

static void write_turn(struct later *l)
{
	struct scrape *s = container_of(l, struct scrape, turn);
	struct http_request *request = s->request;
	struct buf out;
	bool has_more;

	buf_init_sure(&out);
	has_more = writer_part(&s->writer, &out);
	if (out.len > 0) {
		s->waits_since_us = loop_now(s->scrapes->site->loop);
		http_put(request, &out);
	} else if (has_more) {
		l->run = turn_over;
		loop_at_turn_end(s->scrapes->site->loop, l);
	} else {
		scrape_free(s);
		http_end(request);
	}
	buf_done(&out);
}

void scrape_begin(struct scrapes *scrapes, struct http_request *request)
{
	struct scrape *s = mem_zero(sizeof(*s));

	s->scrapes = scrapes;
	s->request = request;
	s->format = writer_choose_format(http_header(request, "Accept"));
	s->turn.run = write_turn;
	list_push_back(&scrapes->all, &s->node);
	http_set_data(request, s);
	gather_next(scrapes);
}

void scrape_go_on(struct http_request *request)
{
	struct scrape *s = http_data(request);

	if (!s)
		return;
	s->waits_since_us = 0;
	s->turn.run = write_turn;
	loop_later(s->scrapes->site->loop, &s->turn);
}

void scrape_drop(struct http_request *request)
{
	if (http_data(request))
		scrape_free(http_data(request));
}
