/*
 * The steps of a harvest: it goes through one view after the other, on every site that
 * has rows of it.  The views write rows, the sheets keep them.
 */
#include "metrics/harvest.h"

#include "base/mem.h"
#include "session/crew.h"
#include "views/show.h"
#include "views/views.h"

enum {
	ROWS_PER_TURN = 50, /* takes some ten microseconds */
	DROPS_PER_TURN = 200,
	PATIENCE_US = 1000000, /* a worker that is silent for so long is left out */
};

/* One step: a view, or a part of one. */
struct job {
	enum sheet_id sheet;
	bool is_control; /* the view collects from all sites itself */
	view_begin_fn *begin;
	view_part_fn *part; /* NULL: the view is short and is written at once */
};

/* SHEET_COUNT stands for the durations. */
static const struct job jobs[] = {
    {SHEET_LISTS, true, NULL, NULL},
    {SHEET_CONFIG, true, NULL, NULL},
    {SHEET_STATE, true, NULL, NULL},
    {SHEET_CERTIFICATES, true, NULL, NULL},
    {SHEET_WORKERS, false, NULL, NULL},
    {SHEET_MEM, false, NULL, NULL},
    {SHEET_ERRORS, false, NULL, NULL},
    {SHEET_DATABASES, false, view_databases_begin, view_databases_part},
    {SHEET_HOSTS, false, view_databases_begin, view_hosts_part},
    {SHEET_POOLS, false, view_pools_begin, view_pools_part},
    {SHEET_STATS, false, view_databases_begin, view_stats_totals_part},
    {SHEET_COUNT, false, view_pools_begin, durations_part},
    {SHEET_CLIENTS, false, view_clients_begin, view_clients_walk},
    {SHEET_CLIENTS, false, view_pools_begin, view_cancels_walk},
};
enum { JOBS = sizeof(jobs) / sizeof(jobs[0]) };

enum progress { NOT_BEGUN, BEGUN, DONE };

struct gathering {
	struct harvest harvest; /* first: gathering_of() finds the whole by it */
	struct later turn;
	struct site *site;
	harvest_fn *ready;
	void *ctx;
	uint64_t began_us;
	size_t job;
	unsigned done;     /* sites that have finished the job */
	uint64_t since_us; /* when a site last made progress */
	unsigned missed;   /* how many workers have not answered */
	unsigned char progress[CREW_MOST + 1];
};

static struct gathering *gathering_of(struct harvest *h)
{
	return container_of(h, struct gathering, harvest);
}

/* Runs on the site's thread. */
static void do_step(struct site *site, void *ctx)
{
	struct gathering *g = ctx;
	const struct job *job = &jobs[g->job];
	unsigned char *progress = &g->progress[site->crew ? site->crew->index : 0];
	void *sink = job->sheet == SHEET_COUNT ? (void *)g->harvest.durations
					       : (void *)g->harvest.sheets[job->sheet];
	struct rows rows;
	bool has_more = false;

	if (*progress == DONE)
		return;
	if (*progress == NOT_BEGUN && job->begin)
		job->begin(site);
	rows_init_sink(&rows, site, &sheet_sink, sink);
	if (job->part)
		has_more = job->part(&rows, ROWS_PER_TURN);
	else
		view_find(family_sheet(job->sheet)->view)->walk(&rows);
	*progress = has_more ? BEGUN : DONE;
	g->done += !has_more;
	g->since_us = loop_now(g->site->loop);
}

/* Unlike SHOW, a harvest does not keep servers from going to other workers meanwhile:
 * its rows are from different moments anyway, and a long scrape must not hold servers
 * back. */
static void do_step_everywhere(struct gathering *g)
{
	if (jobs[g->job].is_control)
		do_step(g->site, g);
	else
		(void)crew_each(g->site, do_step, g);
}

/* Is the job finished?  It also ends when a worker does not answer, so that the numbers
 * of the others are served. */
static bool is_done(struct gathering *g)
{
	unsigned sites =
	    jobs[g->job].is_control ? 1 : (unsigned)crew_site_count(g->site);

	if (g->done == sites)
		return true;
	if (loop_now(g->site->loop) - g->since_us < PATIENCE_US)
		return false;
	g->missed = g->missed > sites - g->done ? g->missed : sites - g->done;
	return true;
}

static void begin_job(struct gathering *g)
{
	g->done = 0;
	g->since_us = loop_now(g->site->loop);
	for (unsigned i = 0; i <= CREW_MOST; i++)
		g->progress[i] = NOT_BEGUN;
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

	do_step_everywhere(g);
	if (is_done(g)) {
		g->job++;
		begin_job(g);
	}
	if (g->job == JOBS) {
		facts_find(g->harvest.facts, g->site, g->began_us, g->missed);
		g->ready(g->ctx);
		return;
	}
	l->run = turn_over;
	loop_at_turn_end(g->site->loop, l);
}

struct harvest *harvest_new(
    struct site *site, uint64_t began_us, harvest_fn *ready, void *ctx)
{
	struct gathering *g = mem_zero(sizeof(*g));
	size_t most = (size_t)site_settings(site)->metrics_max_client_series;

	g->site = site;
	g->began_us = began_us;
	g->ready = ready;
	g->ctx = ctx;
	g->turn.run = take_turn;
	for (int i = 0; i < SHEET_COUNT; i++)
		g->harvest.sheets[i] = sheet_new((enum sheet_id)i, most);
	g->harvest.durations = durations_new();
	begin_job(g);
	loop_later(site->loop, &g->turn);
	return &g->harvest;
}

bool harvest_drop_part(struct harvest **hp)
{
	struct harvest *h = *hp;

	later_cancel(gathering_of(h)->site->loop, &gathering_of(h)->turn);
	for (int i = 0; i < SHEET_COUNT; i++)
		if (sheet_drop_rows(h->sheets[i], DROPS_PER_TURN))
			return true;
	if (durations_drop_rows(h->durations, DROPS_PER_TURN))
		return true;
	harvest_free(hp);
	return false;
}

void harvest_free(struct harvest **hp)
{
	struct gathering *g;

	if (!*hp)
		return;
	g = gathering_of(*hp);
	later_cancel(g->site->loop, &g->turn);
	for (int i = 0; i < SHEET_COUNT; i++)
		sheet_free(&g->harvest.sheets[i]);
	durations_free(&g->harvest.durations);
	mem_free(g);
	*hp = NULL;
}
