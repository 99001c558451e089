/*
 * The event loop; the only file that includes libevent's core.  One turn is: wait, call
 * every ready watch and expired deadline, run what was put off with loop_later until
 * nothing is left, run the end-of-turn list (streams flush), run the reaper (memory of
 * closed things goes).  The clock is read once per wake-up.
 *
 * No handler runs inside another: whoever wants to wake something uses loop_later.
 */
#ifndef NET_LOOP_H
#define NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/mem.h"
#include "net/deadlines.h"
#include "net/loop_counts.h"

struct loop;

/* mem: counts the watches. */
struct loop *loop_new(struct mem *mem, struct err *err);
void loop_free(struct loop **loop);
/* Runs turns until loop_stop. */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);
/* "libevent 2.1.12 (epoll)": for the log; library version and its method separately. */
const char *loop_library_version(void);
const char *loop_method(const struct loop *loop);

/* Monotonic microseconds, cached per wake-up; wall-clock microseconds since 1970 of the
 * same instant. */
uint64_t loop_now(const struct loop *loop);
uint64_t loop_wall(const struct loop *loop);
/* Read the clock again (after something long). */
void loop_touch_clock(struct loop *loop);

/* ---- deadlines; moving one later costs O(1) ---- */
struct deadlines *loop_deadlines(struct loop *loop);
static inline void deadline_set(struct loop *loop, struct deadline *d, uint64_t at_us)
{
	deadlines_set(loop_deadlines(loop), d, at_us);
}
/* Stop it and take it out of the heap: must be called before its memory goes. */
static inline void deadline_clear(struct loop *loop, struct deadline *d)
{
	deadlines_clear(loop_deadlines(loop), d);
}

/* Called twice at the end of each turn, before streams send what they have and behind
 * all else, for what is written once per turn; ctx is borrowed. */
void loop_on_turn_end(struct loop *loop, void (*fn)(void *ctx), void *ctx);

/* ---- put off to later in this turn ---- */
struct later {
	struct node node;
	void (*run)(struct later *l);
};
/* Does nothing when it is queued already. */
void loop_later(struct loop *loop, struct later *l);
void later_cancel(struct loop *loop, struct later *l);

/* ---- end of turn: flushing; runs after all laters ---- */
void loop_at_turn_end(struct loop *loop, struct later *l);
/* ---- after that: memory of closed things.  run() frees the object. ---- */
void loop_reap(struct loop *loop, struct later *l);

/* ---- file descriptors ---- */
/* WATCH_EDGE beside one of them: the handler is called once when the descriptor becomes
 * ready, not in each turn in which it is, and that costs the kernel less.  So it reads
 * or writes until the kernel has no more, or calls watch_again. */
enum { WATCH_READ = 1, WATCH_WRITE = 2, WATCH_EDGE = 8 };
struct watch; /* persistent interest in one descriptor, read or write */
typedef void watch_fn(void *ctx, int fd);
/* Interest in one direction; starts switched on. */
struct watch *watch_new(
    struct loop *loop, int fd, int what, watch_fn *ready, void *ctx);
/* The same for connections that wait at a listening socket: without epoll where the
 * loop waits elsewhere. */
struct watch *watch_new_listener(struct loop *loop, int fd, watch_fn *ready, void *ctx);
void watch_on(struct watch *w);
void watch_off(struct watch *w);
/* Call the handler in the next turn if the descriptor is ready still. */
void watch_again(const struct watch *w);
void watch_free(struct watch **w);
/* The same for a descriptor that the caller closes right behind it: closing it ends
 * what the kernel knows of it. */
void watch_free_closing(struct watch **w);
/* May another process hold descriptors of this one?  Closing one ends nothing then. */
void loop_note_shared(struct loop *loop, bool is_shared);

/* ---- signals: handled in the loop ---- */
typedef void signal_fn(void *ctx, int signo);
void loop_on_signal(struct loop *loop, int signo, signal_fn *fn, void *ctx);

/* ---- waiting elsewhere ---- */
/* Another place to wait in, which has to wait for the loop's descriptor as well. */
struct loop_waiter {
	void *ctx;
	/* Wait at most wait_us (0: not at all, -1: for as long as it takes).  -1: it is
	 * broken; `lost` is called then, and the loop waits by itself again. */
	int (*wait)(void *ctx, int64_t wait_us);
	/* Call handlers.  True: the loop's descriptor is ready. */
	bool (*may_deliver)(void *ctx);
	/* loop_run is about to return: nothing may stay half done. */
	void (*settle)(void *ctx);
	void (*lost)(void *ctx);
	/* Call `ready` in each turn in which somebody waits at a listening socket,
	 * until unlisten; gives what unlisten takes.  After `lost` there is none. */
	void *(*listen)(void *ctx, int fd, void (*ready)(void *arg), void *arg);
	void (*unlisten)(void *ctx, void *listener);
};
/* Borrowed; NULL: the loop waits by itself.  Gives the loop's descriptor, which is
 * readable when a watch is ready or a signal came. */
int loop_wait_elsewhere(struct loop *loop, const struct loop_waiter *waiter);

/* ---- libevent itself, for net/http ---- */
struct event_base;
struct event_base *loop_libevent(const struct loop *loop);
/* Calls what libevent has ready, also what its clocks say: the loop does not know when
 * they are due. */
void loop_ask_libevent(struct loop *loop);

/* ---- turn statistics, for SHOW and tests ---- */
struct loop_counts *loop_counts(struct loop *loop);

#endif
