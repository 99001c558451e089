#include "daemon/load_job.h"

#include <sys/stat.h>

#include "base/mem.h"
#include "base/text.h"

/* Some 1,000 databases or users, which take a few milliseconds. */
enum { LONG_SIZE = 64 * 1024 };

struct load_job {
	struct helpers_job job; /* first member */
	char *path;             /* owned */
	struct loaded_config running, next;
	int result;
	load_done_fn *done;
	void *owner; /* borrowed */
};

static bool is_long(const char *path)
{
	struct stat st;

	if (!text_or_null(path) || stat(path, &st) < 0)
		return false;
	return !S_ISREG(st.st_mode) || st.st_size > LONG_SIZE;
}

bool load_job_is_due(const char *path, const struct loaded_config *running)
{
	const struct config_file *file;

	if (is_long(path) || is_long(running->config->settings.auth_file))
		return true;
	for (file = running->config->files; file; file = file->next)
		if (is_long(file->path))
			return true;
	return false;
}

static struct load_job *job_of(struct helpers_job *job)
{
	return container_of(job, struct load_job, job);
}

static void run_load(struct helpers_job *job)
{
	struct load_job *j = job_of(job);
	struct throttle throttle = {0};

	j->next.throttle = &throttle;
	j->result = loaded_config_load(&j->next, j->path, &j->running, STRICT);
	j->next.throttle = NULL;
}

static void run_free(struct helpers_job *job)
{
	struct load_job *j = job_of(job);
	struct throttle throttle = {0};

	j->next.throttle = &throttle;
	loaded_config_done(&j->next);
	j->next.throttle = NULL;
}

static void job_done(struct helpers_job *job)
{
	struct load_job *j = job_of(job);

	/* These are not the references that are left last: freeing is long, too. */
	loaded_config_done(&j->running);
	if (j->done)
		j->done(j->owner, &j->next, j->result);
}

static void job_discard(struct helpers_job *job)
{
	struct load_job *j = job_of(job);

	loaded_config_done(&j->next);
	loaded_config_done(&j->running);
	mem_free(j->path);
	mem_free(j);
}

static struct load_job *job_new(void (*run)(struct helpers_job *job))
{
	struct load_job *j = mem_zero(sizeof(*j));

	loaded_config_init(&j->running);
	loaded_config_init(&j->next);
	j->job.kind = HELPERS_READ;
	j->job.run = run;
	j->job.done = job_done;
	j->job.discard = job_discard;
	return j;
}

/* NULL: discarded. */
static struct load_job *job_submit(struct helpers *helpers, struct load_job *j)
{
	struct err ignored;

	if (helpers_submit(helpers, &j->job, &ignored) == 0)
		return j;
	job_discard(&j->job);
	return NULL;
}

struct load_job *load_job_submit(struct helpers *helpers, const char *path,
    const struct loaded_config *running, load_done_fn *done, void *owner)
{
	struct load_job *j = job_new(run_load);

	j->path = mem_strdup(path);
	j->running.config = config_ref(running->config);
	j->running.tls = tls_setup_ref(running->tls);
	j->running.users = userlist_ref(running->users);
	j->running.users_file_id = running->users_file_id;
	j->done = done;
	j->owner = owner;
	return job_submit(helpers, j);
}

void load_job_cancel(struct load_job *job)
{
	helpers_cancel(&job->job);
}

void load_job_free(
    struct helpers *helpers, struct userlist **users, struct config **config)
{
	struct load_job *j = job_new(run_free);

	j->next.users = *users;
	j->next.config = *config;
	*users = NULL;
	*config = NULL;
	job_submit(helpers, j);
}
