/*
 * Lets a thread write its unwritten data (such as held log lines) when the process dies
 * by a failed assertion, by a signal such as SIGABRT or SIGSEGV, or because there is no
 * memory.  A signal handler gets no argument of ours, and the program has no global
 * variables; so the data is found at the end of the thread's alternate signal stack,
 * whose address the system tells.
 */
#ifndef BASE_CRASH_FLUSH_H
#define BASE_CRASH_FLUSH_H

/* Is called in a signal handler, so it may only use write(2) and other
 * async-signal-safe functions. */
typedef void crash_flush_fn(void *ctx);

struct crash_flush;

/* From now on say(ctx) is called when a fault of this thread ends the process.  NULL:
 * there is no memory, and nothing has changed. */
struct crash_flush *crash_flush_begin(crash_flush_fn *say, void *ctx);
/* Undoes crash_flush_begin.  Must be called on the same thread. */
void crash_flush_end(struct crash_flush **flush);
/* Calls the function of this thread now, because the process is about to end without a
 * signal. */
void crash_flush_say(void);

#endif
