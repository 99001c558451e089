/*
 * Lets a thread write its unwritten data (such as held log lines) when the process dies
 * by a failed assertion, by a signal such as SIGABRT or SIGSEGV, or because there is no
 * memory.  A signal handler gets no argument of ours, and the program has no global
 * variables; so the data is found at the end of the thread's alternate signal stack,
 * whose address the system tells.
 */
#ifndef BASE_LAST_WORDS_H
#define BASE_LAST_WORDS_H

/* Is called in a signal handler, so it may only use write(2) and other
 * async-signal-safe functions. */
typedef void last_words_fn(void *ctx);

struct last_words;

/* From now on say(ctx) is called when a fault of this thread ends the process.  NULL:
 * there is no memory, and nothing has changed. */
struct last_words *last_words_begin(last_words_fn *say, void *ctx);
/* Undoes last_words_begin.  Must be called on the same thread. */
void last_words_end(struct last_words **words);
/* Calls the function of this thread now, because the process is about to end without a
 * signal. */
void last_words_say(void);

#endif
