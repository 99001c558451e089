/*
 * The data of a thread stands at the end of its alternate signal stack, where the
 * signal handler finds it.  This file uses no other file of the program, because it
 * runs when memory is exhausted or the process is already failing.
 */
#include "base/last_words.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK_SIZE = 128 * 1024 };

static const char mark[16] = "last words of it";

struct last_words {
	char mark[sizeof(mark)];
	last_words_fn *say;
	void *ctx;
	stack_t before; /* the alternate stack that the thread had before */
};

_Static_assert(sizeof(struct last_words) < STACK_SIZE / 2, "there is room for a stack");

/* The data of this thread, or NULL. */
static struct last_words *find(void)
{
	struct last_words *words;
	stack_t stack;

	if (sigaltstack(NULL, &stack) < 0 || (stack.ss_flags & SS_DISABLE) ||
	    stack.ss_size != STACK_SIZE - sizeof(struct last_words))
		return NULL;
	words = (void *)((char *)stack.ss_sp - sizeof(struct last_words));
	return memcmp(words->mark, mark, sizeof(mark)) == 0 ? words : NULL;
}

void last_words_say(void)
{
	struct last_words *words = find();

	if (words)
		words->say(words->ctx);
}

/* Calls the thread's function.  The signal's default action is already restored, so
 * that returning ends the process. */
static void on_fault(int signo)
{
	last_words_say();
	raise(signo);
}

struct last_words *last_words_begin(last_words_fn *say, void *ctx)
{
	struct last_words *words = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (words == MAP_FAILED)
		return NULL;
	memcpy(words->mark, mark, sizeof(mark));
	words->say = say;
	words->ctx = ctx;
	stack_t stack = {.ss_sp = words + 1, .ss_size = STACK_SIZE - sizeof(*words)};
	if (sigaltstack(&stack, &words->before) < 0) {
		munmap(words, STACK_SIZE);
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
	return words;
}

void last_words_end(struct last_words **wordsp)
{
	struct last_words *words = *wordsp;

	if (!words)
		return;
	*wordsp = NULL;
	sigaltstack(&words->before, NULL);
	munmap(words, STACK_SIZE);
}
