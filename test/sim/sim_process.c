/*
 * Processes of the pooler.  Usually there is one; in a takeover a second one, and
 * either of them may be killed at any step.  They share this program, because the
 * pooler has no writable globals: what belongs to one of them is its tasks, its
 * descriptors, its sites and what it does at signals.
 */
#include "sim_process.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "daemon/daemon.h"
#include "daemon/site_build.h"
#include "net/loop.h"
#include "session/workers.h"
#include "sim_net.h"

enum { FIRST_PID = 4711, SIM_UID = 1000 };

static struct process *processes[PROCESSES_MOST];
static unsigned process_count;

/* ---- who is there ---- */

struct process *process_current(void)
{
	return world.current ? task_process(world.current) : NULL;
}

struct process *process_number(unsigned i)
{
	return i < process_count ? processes[i] : NULL;
}

struct process *process_serving(void)
{
	struct process *found = NULL;

	for (unsigned i = 0; i < process_count; i++)
		if (!processes[i]->is_over && processes[i]->control &&
		    (!found || processes[i]->is_up))
			found = processes[i];
	return found;
}

unsigned process_count_alive(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < process_count; i++)
		count += !processes[i]->is_over;
	return count;
}

struct process_site *process_site(void)
{
	struct process *p = process_current();

	for (unsigned i = 0; p && i < p->site_count; i++)
		if (p->sites[i].task == world.current)
			return &p->sites[i];
	return NULL;
}

/* ---- its sites ---- */

void __real_site_build_run(struct site *site);
void __wrap_site_build_run(struct site *site);
int __real_site_build(struct site *site, const struct settings *settings,
    struct workers *workers, unsigned index, struct err *err);
int __wrap_site_build(struct site *site, const struct settings *settings,
    struct workers *workers, unsigned index, struct err *err);

int __wrap_site_build(struct site *site, const struct settings *settings,
    struct workers *workers, unsigned index, struct err *err)
{
	struct process *p = process_current();
	int result = __real_site_build(site, settings, workers, index, err);

	if (result == 0) {
		MUST(p->site_count < SITES_MOST, "too many sites");
		p->sites[p->site_count++] =
		    (struct process_site){.site = site, .task = world.current};
		if (workers_is_control(site))
			p->control = site;
	}
	return result;
}

void __wrap_site_build_run(struct site *site)
{
	struct process *p = process_current();

	if (site == p->control)
		p->is_up = true;
	__real_site_build_run(site);
	/* from here on it is taken apart */
	process_site()->is_leaving = true;
	if (site == p->control)
		p->is_leaving = true;
}

/* ---- beginning and end ---- */

static void *process_main(void *arg)
{
	struct process *p = arg;
	const struct options options = {.action = OPTIONS_RUN,
	    .program = "pgbouncer",
	    .file = config_path(),
	    .is_reboot = p->is_reboot};
	int code = daemon_run(&options);

	note("process ends", (uint64_t)p->pid, (uint64_t)code);
	process_over(p, code);
	return NULL;
}

struct process *process_start(bool is_reboot)
{
	struct process *p = mem_zero(sizeof(*p));

	MUST(process_count < PROCESSES_MOST, "too many processes");
	p->pid = FIRST_PID + (int)process_count;
	p->is_reboot = is_reboot;
	processes[process_count++] = p;
	note("process begins", (uint64_t)p->pid, is_reboot);
	task_new(process_main, p, p);
	return p;
}

/* The descriptors that tell the end of processes. */
static void tell_end(struct process *p)
{
	p->is_over = true;
	p->control = NULL;
	p->site_count = 0;
	files_note_end(p);
}

void process_over(struct process *p, int code)
{
	p->code = code;
	tell_end(p);
	MUST(files_open(p) == 0, "process %d leaves %zu descriptors open", p->pid,
	    files_open(p));
	takeover_process_over(p);
}

void process_kill(struct process *p)
{
	note("process is killed", (uint64_t)p->pid, 0);
	world.counts.faults++;
	p->is_killed = true;
	tasks_kill(p);
	files_kill(p);
	tell_end(p);
	takeover_process_over(p);
}

void __wrap__exit(int code) __attribute__((noreturn));

/* A process that ends although threads of it stand still. */
void __wrap__exit(int code)
{
	struct process *p = process_current();

	if (!p)
		__real__exit(code);
	note("process ends at once", (uint64_t)p->pid, (uint64_t)code);
	p->code = code;
	tasks_kill(p);
	files_kill(p);
	tell_end(p);
	takeover_process_over(p);
	task_leave();
}

/* ---- what a process asks about itself and others ---- */

pid_t __wrap_getpid(void);
uid_t __wrap_getuid(void);
uid_t __wrap_geteuid(void);
int __wrap_kill(pid_t pid, int signo);
long __wrap_syscall(long number, ...);
int __wrap_gethostname(char *name, size_t len);
int __wrap_sigaction(int signo, const struct sigaction *act, struct sigaction *old);
int __wrap_sigaltstack(const stack_t *stack, stack_t *old);

static struct process *find(int pid)
{
	for (unsigned i = 0; i < process_count; i++)
		if (processes[i]->pid == pid)
			return processes[i];
	return NULL;
}

pid_t __wrap_getpid(void)
{
	const struct process *p = process_current();

	return p ? p->pid : FIRST_PID - 1;
}

uid_t __wrap_getuid(void)
{
	return SIM_UID;
}

uid_t __wrap_geteuid(void)
{
	return SIM_UID;
}

/* Only asks whether a process is there. */
int __wrap_kill(pid_t pid, int signo)
{
	const struct process *p = find(pid);

	MUST(signo == 0, "somebody sends a signal");
	if (p && !p->is_over)
		return 0;
	errno = ESRCH;
	return -1;
}

long __wrap_syscall(long number, ...)
{
	struct process *p;
	struct file *f;
	va_list ap;
	int fd;

	if (number != SYS_pidfd_open)
		return 0;
	va_start(ap, number);
	p = find(va_arg(ap, int));
	va_end(ap);
	if (!p || p->is_over) {
		errno = ESRCH;
		return -1;
	}
	fd = file_new(FILE_PROCESS, &f);
	if (fd >= 0)
		f->process = p;
	return fd;
}

int __wrap_gethostname(char *name, size_t len)
{
	snprintf(name, len, "simulated");
	return 0;
}

/* The faults of this program are its own. */
int __wrap_sigaction(int signo, const struct sigaction *act, struct sigaction *old)
{
	(void)signo, (void)act;
	if (old) {
		memset(old, 0, sizeof(*old));
		old->sa_handler = SIG_IGN;
	}
	return 0;
}

int __wrap_sigaltstack(const stack_t *stack, stack_t *old)
{
	(void)stack;
	if (old) {
		memset(old, 0, sizeof(*old));
		old->ss_flags = SS_DISABLE;
	}
	return 0;
}

/* ---- signals, which the loop handles ---- */

int __wrap_loop_prepare_signals(struct loop *loop, struct err *err);
void __wrap_loop_on_signal(struct loop *loop, int signo, signal_fn *fn, void *ctx);

static void signals_ready(void *ctx, int fd)
{
	struct process *p = ctx;
	uint64_t count;

	(void)read(fd, &count, sizeof(count));
	for (int i = 0; i < SIGNALS_MOST; i++) {
		if (!(p->signals.pending >> i & 1))
			continue;
		p->signals.pending &= ~(UINT32_C(1) << i);
		p->signals.fn[i](p->signals.ctx[i], i);
	}
}

static void signals_free(void *object)
{
	struct process *p = object;

	watch_free(&p->signals.watch);
	file_close(p->signals.fd);
	memset(&p->signals, 0, sizeof(p->signals));
}

int __wrap_loop_prepare_signals(struct loop *loop, struct err *err)
{
	struct process *p = process_current();
	struct file *f;

	(void)err;
	p->signals.fd = file_new(FILE_EVENT, &f);
	p->signals.watch = watch_new(loop, p->signals.fd, WATCH_READ, signals_ready, p);
	loop_keep(loop, p, signals_free);
	return 0;
}

void __wrap_loop_on_signal(struct loop *loop, int signo, signal_fn *fn, void *ctx)
{
	struct process *p = process_current();

	(void)loop;
	p->signals.fn[signo] = fn;
	p->signals.ctx[signo] = ctx;
}

bool process_signal(struct process *p, int signo)
{
	struct file *f;

	if (!p || p->is_over || !p->signals.fn[signo])
		return false;
	note("signal", (uint64_t)p->pid, (uint64_t)signo);
	p->signals.pending |= UINT32_C(1) << signo;
	f = file_of(p->signals.fd);
	f->counter++;
	file_wake(f, EPOLLIN);
	return true;
}

void process_signal_all(int signo)
{
	for (unsigned i = 0; i < process_count; i++)
		process_signal(processes[i], signo);
}
