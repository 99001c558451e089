/*
 * The data of a thread stands at the end of its alternate signal stack, where the
 * signal handler finds it.  This file uses no other file of the program, because it
 * runs when memory is exhausted or the process is already failing.
 */
#include "base/crash_flush.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK_SIZE = 128 * 1024 };

static const char magic[16] = "last words of it";

struct crash_flush {
	char magic[sizeof(magic)];
	crash_flush_fn *say;
	void *ctx;
	stack_t before; /* the alternate stack that the thread had before */
};

_Static_assert(
    sizeof(struct crash_flush) < STACK_SIZE / 2, "there is room for a stack");

/* The data of this thread, or NULL. */
static struct crash_flush *find(void)
{
	struct crash_flush *flush;
	stack_t stack;

	if (sigaltstack(NULL, &stack) < 0 || (stack.ss_flags & SS_DISABLE) ||
	    stack.ss_size != STACK_SIZE - sizeof(struct crash_flush))
		return NULL;
	flush = (void *)((char *)stack.ss_sp - sizeof(struct crash_flush));
	return memcmp(flush->magic, magic, sizeof(magic)) == 0 ? flush : NULL;
}

void crash_flush_say(void)
{
	struct crash_flush *flush = find();

	if (flush)
		flush->say(flush->ctx);
}

/* Calls the thread's function.  The signal's default action is already restored, so
 * that returning ends the process. */
static void on_fault(int signo)
{
	crash_flush_say();
	raise(signo);
}

struct crash_flush *crash_flush_begin(crash_flush_fn *say, void *ctx)
{
	struct crash_flush *flush = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (flush == MAP_FAILED)
		return NULL;
	memcpy(flush->magic, magic, sizeof(magic));
	flush->say = say;
	flush->ctx = ctx;
	stack_t stack = {.ss_sp = flush + 1, .ss_size = STACK_SIZE - sizeof(*flush)};
	if (sigaltstack(&stack, &flush->before) < 0) {
		munmap(flush, STACK_SIZE);
		return NULL;
	}
	static const int faults[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		/* installs the handler, unless somebody else (such as a sanitizer) has
		 * installed one */
		int signo = faults[i];
		struct sigaction old, new = {.sa_handler = on_fault};
		if (sigaction(signo, NULL, &old) < 0 || old.sa_handler != SIG_DFL)
			continue;
		new.sa_flags = SA_ONSTACK | (int)SA_RESETHAND;
		sigemptyset(&new.sa_mask);
		sigaction(signo, &new, NULL);
	}
	return flush;
}

void crash_flush_end(struct crash_flush **flushp)
{
	struct crash_flush *flush = *flushp;

	if (!flush)
		return;
	*flushp = NULL;
	sigaltstack(&flush->before, NULL);
	munmap(flush, STACK_SIZE);
}
