/*
 * The simulation: the whole pooler in one thread, over a simulated kernel and clock.
 * The pooler is linked as it is; the linker sends its system calls (sim_calls.c) to
 * this world, in which everything happens in an order that the seed decides.
 */
#ifndef TEST_SIM_SIM_H
#define TEST_SIM_SIM_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/heap.h"
#include "base/list.h"

/* ---- options of a run: what shortening makes smaller ---- */
enum fault {
	FAULT_SPLIT = 1,       /* bytes arrive in pieces, queues are small */
	FAULT_LATE = 2,        /* some bytes are late */
	FAULT_RESET = 4,       /* connections are reset, or nothing passes any more */
	FAULT_CLIENTS = 8,     /* clients vanish in the middle of something */
	FAULT_SERVERS = 16,    /* servers end connections, restart, refuse, hang */
	FAULT_CANCEL = 32,     /* clients cancel queries */
	FAULT_ADMIN = 64,      /* an administrator disturbs */
	FAULT_RELOAD = 128,    /* and changes the configuration */
	FAULT_STALLS = 256,    /* the pooler's process stands still for a moment */
	FAULT_CALLS = 512,     /* descriptors are lacking */
	FAULT_DNS = 1024,      /* names are resolved late, not at all, or otherwise */
	FAULT_TAKEOVER = 2048, /* another process takes over */
	FAULT_KILL = 4096,     /* and one of the two is killed */
	FAULT_TLS = 8192,      /* no fault: TLS, of which the seed decides the kind */
	FAULT_ALL = 16383,
};

struct sim_options {
	uint64_t seed;
	unsigned clients;
	unsigned seconds; /* simulated, until everybody comes to an end */
	uint64_t mask;    /* bits of the first 64 clients: those that are there */
	unsigned faults;  /* bits of enum fault */
	unsigned workers;
	bool is_verbose;
};

/* ---- the world ---- */
struct event {
	struct heap_node node;
	void (*run)(struct event *e);
};

struct task;
struct process;

/* The key of an event: its time, and how many were made before it. */
enum { NUMBER_BITS = 28 };

struct world {
	struct sim_options options;
	uint64_t now_us;      /* monotonic */
	uint64_t hash;        /* of everything that has happened */
	uint64_t event_count; /* below 1 << NUMBER_BITS */
	struct heap events;
	struct list tasks, ready; /* struct task by .node and .ready_node */
	struct task *current;     /* NULL: the world itself runs */
	uint64_t rng;             /* for the order of tasks, and the kernel */
	bool is_over;
	bool is_healing;     /* no more faults: everybody comes to an end */
	bool is_ending;      /* the pooler was told to end */
	uint64_t stalled_us; /* until when something has stood still, the last time */
	/* What is frequent in this run and rare in others: so what meets in one moment
	 * seldom meets often in some of them. */
	struct {
		unsigned cancels;    /* of a million messages */
		unsigned slow, work; /* of a thousand queries, and of other commands */
		unsigned slow_us, work_us; /* which take so long at most */
		unsigned sets;    /* of a thousand requests, beyond the usual */
		unsigned early;   /* of a thousand COPYs */
		unsigned starts;  /* of a thousand parameters in startup packets */
		unsigned crowd;   /* of a thousand logins: to one pool */
		unsigned crowded; /* which */
		unsigned hears;   /* of a thousand logins that keep state: to listen */
		unsigned turn_us; /* so long takes a turn of the loop at most */
		/* so long does a server take at most to handle a request to cancel */
		unsigned cancel_us;
	} habits;
	struct {
		uint64_t queries, errors, logins, refused, cancels, commands, faults,
		    bytes, turns, transactions, takeovers, kills, notifications;
	} counts;
};
extern struct world world;

uint64_t draw(uint64_t *rng);                      /* the next random number */
uint64_t draw_below(uint64_t *rng, uint64_t most); /* 0 .. most-1 */
uint64_t draw_between(uint64_t *rng, uint64_t a, uint64_t b); /* both included */
bool draw_chance(uint64_t *rng, unsigned per_mille);
uint64_t rng_for(const char *what, uint64_t number); /* a state of its own */
/* Whether a fault of this kind happens now. */
bool draw_fault(uint64_t *rng, enum fault fault, unsigned per_million);

void event_at(struct event *e, uint64_t at_us); /* replaces an earlier time */
static inline void event_in(struct event *e, uint64_t us)
{
	event_at(e, world.now_us + us);
}
void event_cancel(struct event *e);

/* Enters what happens in the hash; with is_verbose it is printed. */
void note(const char *what, uint64_t a, uint64_t b);
void note_bytes(const char *what, uint64_t a, const void *bytes, size_t len);
/* A line of the pooler's log. */
void note_log(const void *bytes, size_t len);
#define SEEN(...)                             \
	do {                                  \
		if (world.options.is_verbose) \
			seen(__VA_ARGS__);    \
	} while (0)
void seen(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Ends the simulation at once; _exit() ends a process of the pooler. */
void __real__exit(int code) __attribute__((noreturn));
/* A condition that must hold does not: tells it with the end of the log, and ends. */
void failed(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
#define MUST(condition, ...)                 \
	do {                                 \
		if (!(condition))            \
			failed(__VA_ARGS__); \
	} while (0)
void world_init(const struct sim_options *options);
/* Lets things happen until world.is_over. */
void world_run(void);

/* ---- threads ---- */
struct task *task_new(void *(*fn)(void *), void *arg, struct process *process);
struct process *task_process(const struct task *t);
/* Waits until the object is woken; false: until then.  UINT64_MAX: without limit. */
bool task_wait(const void *object, uint64_t until_us);
void task_yield(void);
/* A call of the system: another thread may run first. */
void task_may_yield(void);
void task_wake(const void *object);
void task_wake_one(const void *object);

/* ---- the kernel: sockets ---- */
struct file;
struct wire;
struct actor;
struct secure;

/* One end of a connection. */
struct end {
	struct wire *wire;
	struct end *peer;
	struct buf in; /* what has arrived, from in_from on */
	size_t in_from, flying;
	uint64_t last_us;     /* when the last segment arrives */
	uint64_t sent, taken; /* bytes for this end, and those that it has read */
	struct list passed;   /* struct passed: descriptors for this end */
	int pid;              /* of the process at a unix socket */
	int error;            /* pending */
	bool is_open, is_connected, has_fin, has_sent_fin, is_reset, wants_room;
	bool is_deaf;        /* it reads no more than it has */
	struct file *file;   /* the pooler's */
	struct actor *actor; /* or a simulated peer's */
	struct sockaddr_storage local, remote;
	socklen_t local_len, remote_len;
};

struct actor_ops {
	void (*connected)(struct actor *a);
	void (*received)(struct actor *a); /* see actor_bytes */
	/* The peer has closed (0), or the connection has failed.  Nothing comes any
	 * more, and the actor calls actor_close. */
	void (*ended)(struct actor *a, int errnum);
};
/* A simulated peer. */
struct actor {
	const struct actor_ops *ops;
	struct end *end;       /* NULL: not connected */
	struct secure *secure; /* owned, see sim_tls.c; NULL: no TLS */
	struct buf in, out;    /* from in_from and out_from on */
	size_t in_from, out_from;
	bool is_unresponsive; /* it does not read */
	bool is_ending;       /* it closes when its output is sent */
	uint64_t sent, got;
};
void actor_init(struct actor *a, const struct actor_ops *ops);
/* Begins to connect; `connected` or `ended` follows. */
void actor_connect(
    struct actor *a, const struct sockaddr_in *from, const char *ip, int port);
void actor_send(struct actor *a, const void *bytes, size_t len);
const uint8_t *actor_bytes(const struct actor *a, size_t *len);
void actor_take(struct actor *a, size_t len);
void actor_listen_again(struct actor *a); /* is_unresponsive was cleared */
void actor_finish(struct actor *a);       /* closes when everything is sent */
void actor_shut(struct actor *a);         /* half closes */
void actor_close(struct actor *a, bool is_reset);
static inline bool actor_is_open(const struct actor *a)
{
	return a->end != NULL;
}

/* What listens at a place outside the pooler.  accept: the peer of a new connection, or
 * NULL: refused. */
struct place {
	struct node node;
	char ip[20];
	int port;
	bool hangs; /* nobody answers */
	struct actor *(*accept)(struct place *p);
};
void place_open(struct place *p);
void place_close(struct place *p);

/* ---- names ---- */
struct sim_name {
	const char *name;
	const char *ips[4]; /* NULL ends them */
	bool fails;
};
extern struct sim_name sim_names[];

/* ---- what a session has: parameters as PostgreSQL has them ---- */
/* Servers report the first of them; the others go along with session_state=keep. */
enum { GUCS = 9, REPORTED = 6, GUC_LEN = 96 };
extern const char *const guc_names[GUCS];
struct guc_value {
	char text[GUC_LEN];
	bool is_set; /* in this session: not the one of its start */
};
struct guc {
	struct guc_value now;
	struct guc_value before; /* the transaction */
	struct guc_value after;  /* what a commit leaves: not that of SET LOCAL */
	bool is_changed;         /* in this transaction */
};
struct gucs {
	struct guc of[GUCS];
	char base[GUCS][GUC_LEN]; /* what RESET brings back */
	bool in_transaction;
};
int guc_find(const char *name);
/* -1: there is no such value. */
int guc_spell(int i, const char *present, const char *asked, char out[GUC_LEN]);
void gucs_init(struct gucs *g);
void gucs_begin(struct gucs *g);
void gucs_end(struct gucs *g, bool is_commit);
int gucs_set(struct gucs *g, int i, const char *value, bool is_local);
void gucs_reset(struct gucs *g, int i);                    /* -1: all */
void gucs_start(struct gucs *g, int i, const char *value); /* in a startup packet */
void gucs_text(const struct gucs *g, char *out, size_t size);

/* ---- notifications ---- */
enum { CHANNELS = 4 };
/* How many have been committed; each has a number, from 1 on. */
uint64_t notifications(void);
int notification_channel(uint64_t number);
uint64_t notification_us(uint64_t number); /* when */
int channel_find(const char *name);

/* ---- servers ---- */
void servers_init(void);
void servers_heal(void);
size_t servers_sessions(void); /* of all hosts */

/* ---- clients ---- */
void clients_init(void);
bool clients_are_done(void);
void clients_finish(void); /* no new work; everybody ends what it does and leaves */
void clients_check(void);  /* nobody waits for ever */

/* ---- the administrator ---- */
void admin_init(void);
void admin_finish(void);
bool admin_is_done(void);
void admin_watch(void);
/* Whether clients may have to wait, or be refused, because of it. */
extern uint64_t sim_disturbed_us;
static inline void sim_disturb(void)
{
	sim_disturbed_us = world.now_us;
}

/* ---- configuration ---- */
void config_write_first(void);
void config_write_random(uint64_t *rng);
void config_write_calm(void);
const char *config_path(void);
/* The auth_type of all of them. */
const char *config_auth_type(void);
static inline bool config_asks_for_proof(void)
{
	return config_auth_type()[0] != 't';
}

/* ---- invariants ---- */
void checks_turn(void);  /* between two turns of a loop of the pooler */
void checks_alone(void); /* of two processes one serves */
void checks_empty(void); /* when all have left */

#endif
