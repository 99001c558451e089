#include "auth/password_job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/program.h"
#include "base/buf.h"
#include "base/command_line.h"
#include "base/mem.h"

/* ---- the program ---- */

static int run(const struct password_request *request, const struct helpers_job *job,
    struct buf *out, struct err *err)
{
	char **words = command_line_words(request->command, err), port[16];
	char *variables[5] = {NULL};
	size_t count = 0;
	int rc;

	if (!words)
		return -1;
	snprintf(port, sizeof(port), "%d", request->port);
	variables[count++] = program_variable("PGPORT", port);
	variables[count++] = program_variable("PGUSER", request->user);
	variables[count++] = program_variable("PGDATABASE", request->database);
	if (*request->host)
		variables[count++] = program_variable("PGHOST", request->host);
	rc = program_run(words, variables, NULL, request->limit_us, job, out, err);
	while (count > 0)
		mem_free(variables[--count]);
	command_line_free(&words);
	return rc;
}

/* ---- the file ---- */

static int read_file(const char *path, struct buf *out, struct err *err)
{
	uint8_t *room = buf_room(out, out->max);
	/* a pipe without a writer must not stop the thread */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t got = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		err_set(err, "%s", strerror(errno));
	else if (!S_ISREG(st.st_mode))
		err_set(err, "is not a file");
	else if (!room)
		err_set_row(err, ERROR_OUT_OF_MEMORY);
	else {
		while (out->len < out->max &&
		       (got = read(fd, room + out->len, out->max - out->len)) > 0)
			buf_grow(out, (size_t)got);
		if (got < 0)
			err_set(err, "%s", strerror(errno));
		close(fd);
		return got < 0 ? -1 : 0;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

/* ---- both ---- */

char *password_job_fetch(const struct password_request *request,
    const struct helpers_job *job, struct err *err)
{
	const char *source = request->file ? request->file : request->command;
	int name = (int)(request->file ? strlen(source) : strcspn(source, " \t"));
	char *password = NULL;
	struct buf out;
	int rc;

	/* one byte for the newline, one to notice that there is more; all at once,
	 * because memory that grows would leave copies */
	buf_init(&out, PASSWORD_MAX + 2);
	(void)buf_room(&out, out.max);
	if (request->file)
		rc = read_file(request->file, &out, err);
	else
		rc = run(request, job, &out, err);
	if (rc == 0 && out.len && out.bytes[out.len - 1] == '\n')
		out.len--;
	if (rc == 0 && out.len == 0)
		err_set(err, "gives an empty password");
	else if (rc == 0 && out.len > PASSWORD_MAX)
		err_set(err, "gives more than %d bytes", PASSWORD_MAX);
	else if (rc == 0 && memchr(out.bytes, '\0', out.len))
		err_set(err, "gives a password with a NUL");
	else if (rc == 0)
		password = mem_strdup(buf_text(&out));
	buf_wipe_done(&out);
	if (!password)
		err_prefix(err, "%.*s: ", name, source);
	return password;
}

/* ---- the job ---- */

void password_request_copy(
    struct password_request *to, const struct password_request *from)
{
	*to = *from;
	to->command = from->command ? mem_strdup(from->command) : NULL;
	to->file = from->file ? mem_strdup(from->file) : NULL;
	to->host = mem_strdup(from->host);
	to->user = mem_strdup(from->user);
	to->database = mem_strdup(from->database);
}

void password_request_done(struct password_request *request)
{
	mem_free((char *)request->command);
	mem_free((char *)request->file);
	mem_free((char *)request->host);
	mem_free((char *)request->user);
	mem_free((char *)request->database);
}

static struct password_job *job_of(struct helpers_job *job)
{
	return container_of(job, struct password_job, job);
}

static void job_run(struct helpers_job *job)
{
	struct password_job *own = job_of(job);

	own->password = password_job_fetch(&own->request, job, &own->err);
}

static void job_done(struct helpers_job *job)
{
	job_of(job)->done(job_of(job));
}

static void job_end(struct helpers_job *job)
{
	password_job_discard(job_of(job));
}

struct password_job *password_job_new(const struct password_request *request,
    void (*done)(struct password_job *job), void *owner)
{
	struct password_job *own = mem_zero(sizeof(*own));

	own->job = (struct helpers_job){.kind = HELPERS_FETCH,
	    .run = job_run,
	    .done = job_done,
	    .discard = job_end};
	password_request_copy(&own->request, request);
	own->done = done;
	own->owner = owner;
	return own;
}

void password_job_discard(struct password_job *own)
{
	password_request_done(&own->request);
	mem_free_secret(own->password);
	mem_free(own);
}
