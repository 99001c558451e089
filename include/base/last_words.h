/*
 * What a thread still has to write when its process ends by a fault: a failed
 * assertion, a signal such as ABRT or SEGV, or no memory.  A signal handler is given
 * nothing, and there are no globals; but the system tells it its stack, at whose end
 * this stands.
 */
#ifndef BASE_LAST_WORDS_H
#define BASE_LAST_WORDS_H

/* Runs in a signal handler: write(2) and little else. */
typedef void last_words_fn(void *ctx);

struct last_words;

/* From now on this thread's end calls say(ctx).  NULL: no memory, and nothing is done.
 */
struct last_words *last_words_begin(last_words_fn *say, void *ctx);
/* On the same thread. */
void last_words_end(struct last_words **words);
/* Says them now: the process is about to end without a signal. */
void last_words_say(void);

#endif
