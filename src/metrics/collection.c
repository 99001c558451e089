#include "metrics/collection.h"

#include <string.h>

#include "base/mem.h"
#include "session/workers.h"
#include "views/show.h"
#include "views/views.h"

enum {
	ROWS_PER_TURN = 50, /* takes some ten microseconds */
	DROPS_PER_TURN = 200,
};

/* One step: a view, or a part of one. */
struct job {
	enum samples_id samples;
	bool is_control; /* the view collects from all sites itself */
	view_begin_fn *begin;
	view_part_fn *part; /* NULL: the view is short and is written at once */
};

/* SAMPLES_COUNT stands for the durations. */
static const struct job jobs[] = {
    {SAMPLES_LISTS, true, NULL, NULL},
    {SAMPLES_CONFIG, true, NULL, NULL},
    {SAMPLES_STATE, true, NULL, NULL},
    {SAMPLES_CERTIFICATES, true, NULL, NULL},
    {SAMPLES_ISSUERS, true, NULL, NULL},
    {SAMPLES_WORKERS, false, NULL, NULL},
    {SAMPLES_MEM, false, NULL, NULL},
    {SAMPLES_ERRORS, false, NULL, NULL},
    {SAMPLES_DATABASES, false, view_databases_begin, view_databases_part},
    {SAMPLES_HOSTS, false, view_databases_begin, view_hosts_part},
    {SAMPLES_POOLS, false, view_pools_begin, view_pools_part},
    {SAMPLES_STATS, false, view_databases_begin, view_stats_totals_part},
    {SAMPLES_COUNT, false, view_pools_begin, durations_part},
    {SAMPLES_CLIENTS, false, view_clients_begin, view_clients_walk},
    {SAMPLES_CLIENTS, false, view_cancels_begin, view_cancels_walk},
};
enum { JOBS = sizeof(jobs) / sizeof(jobs[0]) };

enum progress { NOT_BEGUN, BEGUN, DONE };

struct gathering {
	struct collection collection; /* first: gathering_of() finds the whole by it */
	struct later turn;
	struct site *site;
	collection_fn *ready;
	void *ctx;
	uint64_t began_us;
	size_t job;
	unsigned done;   /* sites that have finished the job */
	bool has_more;   /* a site that has answered in this turn has not */
	unsigned missed; /* how many workers have not answered */
	unsigned char progress[WORKERS_MOST + 1];
};

static struct gathering *gathering_of(struct collection *h)
{
	return container_of(h, struct gathering, collection);
}

/* Runs on the site's thread. */
static void do_step(struct site *site, void *ctx)
{
	struct gathering *g = ctx;
	const struct job *job = &jobs[g->job];
	unsigned char *progress = &g->progress[site->worker ? site->worker->index : 0];
	void *sink = job->samples == SAMPLES_COUNT
			 ? (void *)g->collection.durations
			 : (void *)g->collection.samples[job->samples];
	struct rows rows;
	bool has_more = false;

	if (*progress == DONE)
		return;
	if (*progress == NOT_BEGUN && job->begin)
		job->begin(site);
	rows_init_sink(&rows, site, &samples_sink, sink);
	if (job->part)
		has_more = job->part(&rows, ROWS_PER_TURN);
	else
		view_find(family_samples(job->samples)->view)->walk(&rows);
	*progress = has_more ? BEGUN : DONE;
	g->done += !has_more;
	g->has_more |= has_more;
}

static void take_turn(struct later *l);

/* Runs after everything else in this turn and continues in the next one. */
static void turn_over(struct later *l)
{
	struct gathering *g = container_of(l, struct gathering, turn);

	l->run = take_turn;
	loop_later(g->site->loop, l);
}

static void take_turn(struct later *l)
{
	struct gathering *g = container_of(l, struct gathering, turn);
	unsigned sites =
	    jobs[g->job].is_control ? 1 : (unsigned)workers_site_count(g->site);

	/* Unlike SHOW, a collection does not keep servers from going to other workers
	 * meanwhile: its rows are from different moments anyway, and a long scrape must
	 * not hold servers back. */
	g->has_more = false;
	if (jobs[g->job].is_control)
		do_step(g->site, g);
	else
		(void)workers_each(g->site, do_step, g);
	if (!g->has_more) {
		/* a worker that does not answer is left out, so that the numbers of the
		 * others are served */
		if (g->missed < sites - g->done)
			g->missed = sites - g->done;
		g->job++;
		g->done = 0;
		memset(g->progress, NOT_BEGUN, sizeof(g->progress));
	}
	if (g->job == JOBS) {
		samples_find_process(
		    g->collection.process, g->site, g->began_us, g->missed);
		g->ready(g->ctx);
		return;
	}
	l->run = turn_over;
	loop_at_turn_end(g->site->loop, l);
}

struct collection *collection_new(
    struct site *site, uint64_t began_us, collection_fn *ready, void *ctx)
{
	struct gathering *g = mem_zero(sizeof(*g));
	size_t most = (size_t)site_settings(site)->metrics_max_client_series;

	g->site = site;
	g->began_us = began_us;
	g->ready = ready;
	g->ctx = ctx;
	g->turn.run = take_turn;
	for (int i = 0; i < SAMPLES_COUNT; i++)
		g->collection.samples[i] = samples_new((enum samples_id)i, most);
	g->collection.durations = durations_new();
	loop_later(site->loop, &g->turn);
	return &g->collection;
}

bool collection_drop_part(struct collection **hp)
{
	struct collection *h = *hp;

	later_cancel(gathering_of(h)->site->loop, &gathering_of(h)->turn);
	for (int i = 0; i < SAMPLES_COUNT; i++)
		if (samples_drop_rows(h->samples[i], DROPS_PER_TURN))
			return true;
	if (durations_drop_rows(h->durations, DROPS_PER_TURN))
		return true;
	collection_free(hp);
	return false;
}

void collection_free(struct collection **hp)
{
	struct gathering *g;

	if (!*hp)
		return;
	g = gathering_of(*hp);
	later_cancel(g->site->loop, &g->turn);
	for (int i = 0; i < SAMPLES_COUNT; i++)
		samples_free(&g->collection.samples[i]);
	durations_free(&g->collection.durations);
	mem_free(g);
	*hp = NULL;
}
