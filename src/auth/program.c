/*
 * Starts a program, reads its output and its complaints, and waits for its end.  It
 * works on the calling thread and starts the program by posix_spawn, which does not
 * copy the memory of this process.
 */
#include "auth/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"

/* How often a run looks whether the program has ended or is to be killed, while it
 * prints nothing. */
enum { LOOK_MS = 20 };
/* How much of its standard error is kept; the rest is read and dropped. */
enum { COMPLAINT_MAX = 300 };
/* So many blocks are read in a row.  They are more than a pipe holds, and one that
 * prints without end is noticed. */
enum { BLOCK = 4096, BLOCKS = 32 };

struct run {
	pid_t pid;
	/* where its output and its complaints come from, and where its input goes */
	struct pollfd ends[3];
	const char *input; /* borrowed: what it has not been given yet */
	struct buf *out, complaints;
	bool has_ended;
	int status; /* if it has ended */
};

static uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* ---- the start ---- */

/* The environment of this process with the variables; the texts are borrowed. */
static char **environment(char *const *variables)
{
	size_t count = 0, own = 0;
	char **all;

	while (environ[own])
		own++;
	while (variables[count])
		count++;
	all = mem_zero((own + count + 1) * sizeof(*all));
	memcpy(all, variables, count * sizeof(*all));
	for (size_t i = 0; i < own; i++) {
		size_t name = strcspn(environ[i], "="), at = 0;
		while (
		    variables[at] && strncmp(variables[at], environ[i], name + 1) != 0)
			at++;
		if (!variables[at])
			all[count++] = environ[i];
	}
	return all;
}

static int spawn(struct run *run, char *const *words, char *const *variables,
    const int in[2], const int out[2], const int complaints[2])
{
	char **env = environment(variables);
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, broken_pipe;
	int error;

	sigemptyset(&none);
	sigemptyset(&broken_pipe);
	sigaddset(&broken_pipe, SIGPIPE);
	posix_spawn_file_actions_init(&actions);
	if (in[0] >= 0)
		posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
	else
		posix_spawn_file_actions_addopen(
		    &actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, complaints[1], STDERR_FILENO);
	posix_spawnattr_init(&attributes);
	/* helper threads block all signals, and this process ignores one */
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &broken_pipe);
	posix_spawnattr_setflags(&attributes,
	    POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
	error = posix_spawn(&run->pid, words[0], &actions, &attributes, words, env);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	mem_free(env);
	return error;
}

static int start(
    struct run *run, char *const *words, char *const *variables, struct err *err)
{
	int out[2] = {-1, -1}, complaints[2] = {-1, -1}, in[2] = {-1, -1}, error;

	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(complaints, O_CLOEXEC) < 0 ||
	    (run->input && pipe2(in, O_CLOEXEC) < 0))
		error = errno;
	else
		error = spawn(run, words, variables, in, out, complaints);
	const int *const pipes[] = {out, complaints, in};
	for (int i = 0; i < 3; i++) {
		int end = pipes[i][i == 2], other = pipes[i][i != 2];
		run->ends[i] =
		    (struct pollfd){.fd = end, .events = i == 2 ? POLLOUT : POLLIN};
		if (other >= 0)
			close(other);
		if (end >= 0)
			fcntl(end, F_SETFL, O_NONBLOCK);
	}
	return error ? err_set(err, "cannot be run: %s", strerror(error)) : 0;
}

/* ---- what it prints ---- */

/* Reads what is there.  What does not fit is dropped. */
static void read_end(struct pollfd *end, struct buf *to)
{
	char block[BLOCK];
	ssize_t got = 1;

	for (int i = 0; i < BLOCKS && got > 0; i++) {
		size_t room = to->max - to->len;
		got = read(end->fd, block, sizeof(block));
		if (got > 0)
			buf_put(to, block, (size_t)got < room ? (size_t)got : room);
	}
	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
		close(end->fd);
		end->fd = -1;
	}
	mem_wipe(block, sizeof(block));
}

/* ---- its end ---- */

/* Until it has ended.  What processes print that it leaves behind is not waited for.
 * -1 and err: it has to be killed. */
static int attend(
    struct run *run, uint64_t limit_us, const struct helpers_job *job, struct err *err)
{
	uint64_t end_us = now_us() + limit_us;

	while (!run->has_ended) {
		if (job && helpers_is_cancelled(job))
			return err_set(err, "is not needed any more");
		if (now_us() >= end_us)
			return err_set(
			    err, "has not ended within %g s", (double)limit_us / 1e6);
		bool is_open = run->ends[0].fd >= 0 || run->ends[1].fd >= 0;
		poll(run->ends, 3, is_open ? LOOK_MS : 1);
		run->has_ended = waitpid(run->pid, &run->status, WNOHANG) == run->pid;
		if (run->ends[2].fd >= 0 && run->ends[2].revents) {
			/* one that does not read all of its input may still succeed */
			ssize_t put =
			    write(run->ends[2].fd, run->input, strlen(run->input));
			if (put > 0)
				run->input += put;
			if (!*run->input ||
			    (put < 0 && errno != EAGAIN && errno != EINTR)) {
				close(run->ends[2].fd);
				run->ends[2].fd = -1;
			}
		}
		for (int i = 0; i < 2; i++)
			if (run->ends[i].fd >= 0)
				read_end(
				    &run->ends[i], i ? &run->complaints : run->out);
		if (run->out->len == run->out->max)
			return err_set(err, "prints too much");
		if (run->out->failed)
			return err_set_row(err, ERROR_OUT_OF_MEMORY);
	}
	return 0;
}

char *program_variable(const char *name, const char *value)
{
	struct buf b;

	buf_init_sure(&b);
	buf_printf(&b, "%s=%s", name, value);
	char *text = mem_strdup(buf_text(&b));
	buf_done(&b);
	return text;
}

int program_run(char *const *words, char *const *variables, const char *input,
    uint64_t limit_us, const struct helpers_job *job, struct buf *out, struct err *err)
{
	struct run run = {.out = out, .input = input};
	int rc = start(&run, words, variables, err);

	buf_init(&run.complaints, COMPLAINT_MAX);
	if (rc == 0) {
		rc = attend(&run, limit_us, job, err);
		if (!run.has_ended) {
			kill(-run.pid, SIGKILL);
			while (waitpid(run.pid, &run.status, 0) < 0 && errno == EINTR)
				;
		}
		/* the first line of its complaints, as far as it can be shown */
		char line[COMPLAINT_MAX + 1], shown[4 * COMPLAINT_MAX + 3];
		char *end = shown + sizeof(shown);
		const char *text = buf_text(&run.complaints);
		text += strspn(text, "\r\n");
		snprintf(line, sizeof(line), "%.*s", (int)strcspn(text, "\r\n"), text);
		text_append_escaped(
		    text_append(shown, end, *line ? ": " : ""), end, line);
		if (rc == 0 && WIFSIGNALED(run.status))
			rc = err_set(err, "was ended by signal %d%s",
			    WTERMSIG(run.status), shown);
		else if (rc == 0 && WEXITSTATUS(run.status) != 0)
			rc = err_set(err, "exit %d%s", WEXITSTATUS(run.status), shown);
	}
	for (int i = 0; i < 3; i++)
		if (run.ends[i].fd >= 0)
			close(run.ends[i].fd);
	buf_done(&run.complaints);
	return rc;
}
