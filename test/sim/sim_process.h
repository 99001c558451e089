/*
 * Processes of the pooler, whose tasks and descriptors are told apart.
 */
#ifndef TEST_SIM_SIM_PROCESS_H
#define TEST_SIM_SIM_PROCESS_H

#include "net/loop.h"
#include "sim.h"

enum { PROCESSES_MOST = 4096, SITES_MOST = 9, SIGNALS_MOST = 32 };

struct process_site {
	struct site *site;
	struct task *task;
	bool is_waiting; /* it is between two turns */
	bool is_leaving; /* it is taken apart */
	unsigned turns;
};

struct process {
	int pid, code;
	bool is_reboot;  /* -R was given */
	bool is_up;      /* it serves */
	bool is_leaving; /* it is being taken apart */
	bool is_over, is_killed;
	struct site *control; /* NULL: not made yet, or gone */
	struct process_site sites[SITES_MOST];
	unsigned site_count;
	struct {
		signal_fn *fn[SIGNALS_MOST];
		void *ctx[SIGNALS_MOST];
		uint32_t pending;
		int fd;
		struct watch *watch;
	} signals;
};

/* Begins, as the administrator of the machine starts it. */
struct process *process_start(bool is_reboot);
void process_over(struct process *p, int code);
void process_kill(struct process *p);
struct process *process_current(void); /* NULL: the world itself runs */
struct process *process_number(unsigned i);
/* The one that administrators reach: the last that is up; NULL: none has a site. */
struct process *process_serving(void);
unsigned process_count_alive(void);
struct process_site *process_site(void); /* of the current task, or NULL */
/* False: it cannot be told yet, or is gone. */
bool process_signal(struct process *p, int signo);
void process_signal_all(int signo);

/* ---- takeovers ---- */
void takeover_init(void);
bool takeover_is_done(void);
bool takeover_is_young(void); /* it has just begun */
void takeover_process_over(struct process *p);
/* Before a task of the process runs: whether it is killed now. */
bool takeover_kills(struct process *p);

/* ---- what belongs to a process ---- */
void files_note_end(struct process *p);
size_t files_open(const struct process *p);
void files_kill(struct process *p);
void tasks_kill(struct process *p);
/* The running task, which is in no list any more, does not go on. */
void task_leave(void) __attribute__((noreturn));

#endif
