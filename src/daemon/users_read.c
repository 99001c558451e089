/*
 * Reads the user list, and frees old ones, where that holds up nobody.  What a list
 * means for users is the catalog's business.
 */
#include "daemon/users_read.h"

#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

/* Some 2,000 users, which take a few milliseconds. */
enum { LONG_SIZE = 256 * 1024 };

struct users_job {
	struct workers_job job; /* first member */
	struct users_read read;
	users_read_fn *done;
	void *owner; /* borrowed */
};

/* ---- reading ---- */

void users_read_init(struct users_read *r, const char *path)
{
	memset(r, 0, sizeof(*r));
	r->path = mem_strdup(path);
	findings_init(&r->findings);
}

void users_read_done(struct users_read *r)
{
	mem_free(r->path);
	userlist_free(&r->users);
	findings_done(&r->findings);
}

static void take_remark(
    void *ctx, enum remark kind, const char *where, const char *text)
{
	static const enum finding kinds[] = {
	    [REMARK_WARNING] = FINDING_WARNING,
	    [REMARK_FAULT] = FINDING_LOSS,
	    [REMARK_KNOWN] = FINDING_KNOWN,
	};
	struct users_read *r = ctx;

	findings_add(&r->findings, kinds[kind], where, text);
}

void users_read_load(struct users_read *r)
{
	mark_take(&r->mark, r->path);
	r->users = userlist_load(r->path, take_remark, r, &r->err);
}

bool users_read_is_long(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	return !S_ISREG(st.st_mode) || st.st_size > LONG_SIZE;
}

/* ---- jobs ---- */

static struct users_job *job_of(struct workers_job *job)
{
	return container_of(job, struct users_job, job);
}

static void run_read(struct workers_job *job)
{
	users_read_load(&job_of(job)->read);
}

static void run_free(struct workers_job *job)
{
	userlist_free(&job_of(job)->read.users);
}

static void job_done(struct workers_job *job)
{
	struct users_job *j = job_of(job);

	if (j->done)
		j->done(j->owner, &j->read);
}

static void job_discard(struct workers_job *job)
{
	users_read_done(&job_of(job)->read);
	mem_free(job_of(job));
}

/* NULL: discarded. */
static struct users_job *job_submit(struct workers *workers, struct users_job *j)
{
	struct err ignored;

	j->job.kind = WORKERS_READ;
	j->job.done = job_done;
	j->job.discard = job_discard;
	if (workers_submit(workers, &j->job, &ignored) == 0)
		return j;
	job_discard(&j->job);
	return NULL;
}

struct users_job *users_read_submit(
    struct workers *workers, const char *path, users_read_fn *done, void *owner)
{
	struct users_job *j = mem_zero(sizeof(*j));

	users_read_init(&j->read, path);
	j->done = done;
	j->owner = owner;
	j->job.run = run_read;
	return job_submit(workers, j);
}

void users_read_cancel(struct users_job *job)
{
	workers_cancel(&job->job);
}

void users_read_free_list(struct workers *workers, struct userlist **users)
{
	struct users_job *j = mem_zero(sizeof(*j));

	users_read_init(&j->read, "");
	j->read.users = *users;
	*users = NULL;
	j->job.run = run_free;
	job_submit(workers, j);
}
