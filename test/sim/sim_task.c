/*
 * Threads of the pooler as coroutines: exactly one runs, until it waits.  Who runs next
 * is decided by the seed.
 */
/* A jump to another stack is none of those that it checks. */
#undef _FORTIFY_SOURCE
#include <assert.h>
#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "base/mem.h"
#include "sim_process.h"

#if defined(__SANITIZE_ADDRESS__)
#	include <sanitizer/common_interface_defs.h>
#	define HAS_ASAN 1
#else
#	define HAS_ASAN 0
#endif

enum { STACK_BYTES = 2 << 20 };

struct context {
	ucontext_t start;
	jmp_buf jump;
	bool has_jump;
};

struct task {
	struct node node, ready_node;
	struct event alarm;
	struct context context;
	void *stack;
	void *fake_stack; /* AddressSanitizer's */
	void *(*fn)(void *);
	void *arg, *result;
	const void *waits_for;
	int errnum;
	struct process *process;
	bool is_late, is_over, is_detached;
};

static struct {
	struct context context;
	void *fake_stack;
	const void *bottom;
	size_t size;
} outside;

/* swapcontext() makes a system call, for the mask of signals.  AddressSanitizer takes a
 * jump for the end of the frames that are left. */
static void swap(struct context *from, struct context *to)
{
	if (HAS_ASAN) {
		swapcontext(&from->start, &to->start);
		return;
	}
	from->has_jump = true;
	if (_setjmp(from->jump))
		return;
	if (to->has_jump)
		_longjmp(to->jump, 1);
	setcontext(&to->start);
}

static void switch_in(struct task *t)
{
	world.current = t;
	errno = t->errnum;
#if HAS_ASAN
	__sanitizer_start_switch_fiber(&outside.fake_stack, t->stack, STACK_BYTES);
#endif
	swap(&outside.context, &t->context);
#if HAS_ASAN
	__sanitizer_finish_switch_fiber(outside.fake_stack, NULL, NULL);
#endif
	world.current = NULL;
}

static void switch_out(struct task *t)
{
	t->errnum = errno;
#if HAS_ASAN
	__sanitizer_start_switch_fiber(
	    t->is_over ? NULL : &t->fake_stack, outside.bottom, outside.size);
#endif
	swap(&t->context, &outside.context);
#if HAS_ASAN
	__sanitizer_finish_switch_fiber(t->fake_stack, &outside.bottom, &outside.size);
#endif
}

static void task_main(void)
{
	struct task *t = world.current;

#if HAS_ASAN
	__sanitizer_finish_switch_fiber(NULL, &outside.bottom, &outside.size);
#endif
	t->result = t->fn(t->arg);
	t->is_over = true;
	task_wake(t);
	switch_out(t);
	abort();
}

static void get_ready(struct task *t)
{
	t->waits_for = NULL;
	event_cancel(&t->alarm);
	list_push_back(&world.ready, &t->ready_node);
}

static void rang(struct event *e)
{
	struct task *t = container_of(e, struct task, alarm);

	t->is_late = true;
	get_ready(t);
}

struct task *task_new(void *(*fn)(void *), void *arg, struct process *process)
{
	struct task *t = mem_zero(sizeof(*t));

	t->process = process;
	t->fn = fn;
	t->arg = arg;
	t->alarm.run = rang;
	t->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert(t->stack != MAP_FAILED);
	getcontext(&t->context.start);
	t->context.start.uc_stack.ss_sp = t->stack;
	t->context.start.uc_stack.ss_size = STACK_BYTES;
	makecontext(&t->context.start, task_main, 0);
	list_push_back(&world.tasks, &t->node);
	get_ready(t);
	return t;
}

static void task_free(struct task *t)
{
	list_remove(&world.tasks, &t->node);
	munmap(t->stack, STACK_BYTES);
	mem_free(t);
}

bool task_wait(const void *object, uint64_t until_us)
{
	struct task *t = world.current;

	assert(t);
	t->is_late = false;
	t->waits_for = object;
	if (until_us != UINT64_MAX)
		event_at(&t->alarm, until_us);
	switch_out(t);
	return !t->is_late;
}

void task_yield(void)
{
	struct task *t = world.current;

	list_push_back(&world.ready, &t->ready_node);
	switch_out(t);
}

struct process *task_process(const struct task *t)
{
	return t->process;
}

/* With several threads or processes, others act between two calls, or one is killed. */
void task_may_yield(void)
{
	const struct sim_options *o = &world.options;
	int errnum = errno;

	if (!world.current ||
	    (o->workers == 1 && !(o->faults & (FAULT_TAKEOVER | FAULT_KILL))) ||
	    !draw_chance(&world.rng, 40))
		return;
	world.now_us += draw_below(&world.rng, 10);
	task_yield();
	errno = errnum;
}

/* Their stacks stay, because nobody takes them apart. */
void task_leave(void)
{
	switch_out(world.current);
	abort();
}

void tasks_kill(struct process *p)
{
	struct node *n, *next;

	for (n = list_first(&world.tasks); n; n = next) {
		struct task *t = container_of(n, struct task, node);
		next = list_next(&world.tasks, n);
		if (t->process != p)
			continue;
		event_cancel(&t->alarm);
		if (node_is_linked(&t->ready_node))
			list_remove(&world.ready, &t->ready_node);
		list_remove(&world.tasks, n);
	}
}

static void wake(const void *object, bool is_one)
{
	struct node *n, *next;

	for (n = list_first(&world.tasks); n; n = next) {
		struct task *t = container_of(n, struct task, node);
		next = list_next(&world.tasks, n);
		if (t->waits_for != object)
			continue;
		get_ready(t);
		if (is_one)
			return;
	}
}

void task_wake(const void *object)
{
	wake(object, false);
}

void task_wake_one(const void *object)
{
	wake(object, true);
}

static void run_one(void)
{
	size_t skip = draw_below(&world.rng, world.ready.count);
	struct node *n = list_first(&world.ready);

	while (skip--)
		n = list_next(&world.ready, n);
	struct task *t = container_of(n, struct task, ready_node);
	if (takeover_kills(t->process))
		return;
	list_remove(&world.ready, n);
	switch_in(t);
	if (t->is_over && t->is_detached)
		task_free(t);
}

void world_run(void)
{
	while (!world.is_over) {
		struct heap_node *first = heap_first(&world.events);
		uint64_t at_us = first ? first->key >> NUMBER_BITS : UINT64_MAX;

		if (first && at_us <= world.now_us) {
			struct event *e = container_of(first, struct event, node);
			heap_remove(&world.events, first);
			e->run(e);
		} else if (world.ready.count) {
			run_one();
		} else {
			MUST(first, "nothing can happen any more");
			world.now_us = at_us;
		}
	}
}

/* ---- POSIX threads ---- */

typedef unsigned long thread_id;

int __wrap_pthread_create(
    thread_id *id, const void *attributes, void *(*fn)(void *), void *arg);
int __wrap_pthread_join(thread_id id, void **result);
int __wrap_pthread_detach(thread_id id);
thread_id __wrap_pthread_self(void);
int __wrap_pthread_setname_np(thread_id id, const char *name);
int __wrap_pthread_mutex_lock(void *m);
int __wrap_pthread_mutex_unlock(void *m);
int __wrap_pthread_cond_wait(void *c, void *m);
int __wrap_pthread_cond_timedwait(void *c, void *m, const struct timespec *end);
int __wrap_pthread_cond_signal(void *c);
int __wrap_pthread_cond_broadcast(void *c);

int __wrap_pthread_create(
    thread_id *id, const void *attributes, void *(*fn)(void *), void *arg)
{
	(void)attributes;
	*id = (thread_id)task_new(fn, arg, world.current->process);
	return 0;
}

int __wrap_pthread_join(thread_id id, void **result)
{
	struct task *t = (struct task *)id;

	while (!t->is_over)
		task_wait(t, UINT64_MAX);
	if (result)
		*result = t->result;
	task_free(t);
	return 0;
}

int __wrap_pthread_detach(thread_id id)
{
	struct task *t = (struct task *)id;

	t->is_detached = true;
	if (t->is_over)
		task_free(t);
	return 0;
}

thread_id __wrap_pthread_self(void)
{
	return (thread_id)world.current;
}

int __wrap_pthread_setname_np(thread_id id, const char *name)
{
	(void)id, (void)name;
	return 0;
}

/* A mutex is its first word: whether it is locked. */
int __wrap_pthread_mutex_lock(void *m)
{
	int *is_locked = m;

	task_may_yield();
	while (*is_locked)
		task_wait(m, UINT64_MAX);
	*is_locked = 1;
	return 0;
}

int __wrap_pthread_mutex_unlock(void *m)
{
	int *is_locked = m;

	*is_locked = 0;
	if (world.tasks.count > 1)
		task_wake_one(m);
	return 0;
}

int __wrap_pthread_cond_wait(void *c, void *m)
{
	__wrap_pthread_mutex_unlock(m);
	task_wait(c, UINT64_MAX);
	return __wrap_pthread_mutex_lock(m);
}

int __wrap_pthread_cond_timedwait(void *c, void *m, const struct timespec *end)
{
	uint64_t at_us =
	    (uint64_t)end->tv_sec * 1000000 + (uint64_t)end->tv_nsec / 1000;

	__wrap_pthread_mutex_unlock(m);
	bool is_woken = task_wait(c, at_us);
	__wrap_pthread_mutex_lock(m);
	return is_woken ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_signal(void *c)
{
	task_wake_one(c);
	return 0;
}

int __wrap_pthread_cond_broadcast(void *c)
{
	task_wake(c);
	return 0;
}
