/*
 * The event loop.  One turn is: wait, call
 * every ready watch and expired deadline, run what was deferred with loop_later until
 * nothing is left, run the end-of-turn list (streams send their output), free the
 * memory of closed objects (loop_reap).  The clock is read once per turn, after the
 * wait.  Handlers are never called from inside other handlers: to wake another object,
 * use loop_later.
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

/* Is called on the thread that will run the loop; mem gets the slab of the watches.
 * NULL and err: it failed. */
struct loop *loop_new(struct mem *mem, struct err *err);
void loop_free(struct loop **loop);
/* Runs turns until loop_stop is called. */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);
/* For the log: "libevent 2.1.12 (epoll)"; the version of the library, and its method
 * alone. */
const char *loop_library_version(void);
const char *loop_method(struct loop *loop);

/* loop_now: monotonic time in microseconds, read once per turn.  loop_wall: wall-clock
 * time of the same instant, in microseconds since 1970. */
uint64_t loop_now(const struct loop *loop);
uint64_t loop_wall(const struct loop *loop);
/* Reads the clock again, for use after something that took long. */
void loop_touch_clock(struct loop *loop);

/* ---- deadlines; moving one later costs O(1) ---- */
struct deadlines *loop_deadlines(struct loop *loop);
static inline void deadline_set(struct loop *loop, struct deadline *d, uint64_t at_us)
{
	deadlines_set(loop_deadlines(loop), d, at_us);
}
/* Stops a deadline and takes it out of the heap.  Must be called before its memory is
 * freed. */
static inline void deadline_clear(struct loop *loop, struct deadline *d)
{
	deadlines_clear(loop_deadlines(loop), d);
}

/* fn is called twice at the end of each turn: before streams send their output, and at
 * the very end.  It is for what is written once per turn, such as the log.  ctx is
 * borrowed. */
void loop_on_turn_end(struct loop *loop, void (*fn)(void *ctx), void *ctx);

/* ---- put off to later in this turn ---- */
struct later {
	struct node node;
	void (*run)(struct later *l);
};
/* Runs l in this turn, after the current handler.  Does nothing if l is queued
 * already. */
void loop_later(struct loop *loop, struct later *l);
void later_cancel(struct loop *loop, struct later *l);

/* ---- end of turn: flushing; runs after all laters ---- */
void loop_at_turn_end(struct loop *loop, struct later *l);
/* ---- after that: memory of closed things.  run() frees the object. ---- */
void loop_reap(struct loop *loop, struct later *l);

/* ---- file descriptors ---- */
/* The direction of a watch.  With WATCH_EDGE in addition, the handler is called only
 * once when the descriptor becomes ready, which is cheaper than in each turn while it
 * is ready.  So the handler reads or writes until the kernel has no more, or calls
 * watch_again. */
enum { WATCH_READ = 1, WATCH_WRITE = 2, WATCH_EDGE = 8 };
struct watch; /* watches one descriptor for reading or writing */
typedef void watch_fn(void *ctx, int fd);
/* Makes a watch for one direction; it is switched on. */
struct watch *watch_new(
    struct loop *loop, int fd, int what, watch_fn *ready, void *ctx);
/* Makes a watch for a listening socket.  If the loop waits in another waiter (see
 * below), that one watches the socket. */
struct watch *watch_new_listener(struct loop *loop, int fd, watch_fn *ready, void *ctx);
void watch_on(struct watch *w);
void watch_off(struct watch *w);
/* Calls the handler in the next turn if the descriptor is still ready. */
void watch_again(const struct watch *w);
void watch_free(struct watch **w);
/* Like watch_free, for a descriptor that the caller closes right afterwards.  This
 * saves a system call, because closing removes it from the set, where the kernel does
 * that. */
void watch_free_closing(struct watch **w);
/* Tells whether another process may hold descriptors of this one.  Then closing a
 * descriptor does not remove it from the set. */
void loop_note_shared(struct loop *loop, bool is_shared);

/* ---- signals: handled in the loop ---- */
typedef void signal_fn(void *ctx, int signo);
/* Makes what signals need.  Without this call before it, the first loop_on_signal ends
 * the process where descriptors are lacking.  Returns -1 with the system's reason. */
int loop_prepare_signals(struct loop *loop, struct err *err);
void loop_on_signal(struct loop *loop, int signo, signal_fn *fn, void *ctx);

/* ---- waiting elsewhere ---- */
/* Another way to wait (io_uring), which must also wait for the loop's own
 * descriptor. */
struct loop_waiter {
	void *ctx;
	/* Waits at most wait_us (0: not at all, -1: without limit).  -1: it is broken;
	 * the loop then calls `lost` and waits by itself again. */
	int (*wait)(void *ctx, int64_t wait_us);
	/* Calls handlers.  Returns true when the loop's descriptor is ready. */
	bool (*may_deliver)(void *ctx);
	/* loop_run is about to return: finish what is only half done. */
	void (*settle)(void *ctx);
	void (*lost)(void *ctx);
	/* Calls `ready` in each turn in which connections wait at a listening socket,
	 * until unlisten is called with the value returned here.  After `lost` all of
	 * them are gone. */
	void *(*listen)(void *ctx, int fd, void (*ready)(void *arg), void *arg);
	void (*unlisten)(void *ctx, void *listener);
};
/* Sets the waiter, which is borrowed; NULL: the loop waits by itself.  Returns the
 * loop's descriptor, which is readable when a watch is ready or a signal came; -1:
 * this system has none. */
int loop_wait_elsewhere(struct loop *loop, const struct loop_waiter *waiter);

/* ---- for net/loop_events ---- */
/* An object that lives as long as the loop, which then frees it. */
void loop_keep(struct loop *loop, void *object, void (*free_kept)(void *object));
/* NULL: there is none. */
void *loop_kept(const struct loop *loop);

/* ---- turn statistics, for SHOW and tests ---- */
struct loop_counts *loop_counts(struct loop *loop);
/* For how long the thread that runs the loop has been busy since it began, see
 * base/cpu_time.h.  Costs two system calls. */
uint64_t loop_busy_us(struct loop *loop);

#endif
