/* The simulated kernel, for the system calls of sim_calls.c. */
#ifndef TEST_SIM_SIM_NET_H
#define TEST_SIM_SIM_NET_H

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/types.h>

#include "sim.h"

/* Lower descriptors are the real kernel's: files. */
enum { SIM_FD_FIRST = 100, SIM_FDS = 4096 };

enum file_kind {
	FILE_SOCKET,
	FILE_LISTENER,
	FILE_EPOLL,
	FILE_EVENT,
	FILE_TIMER,
	FILE_PROCESS, /* tells the end of one */
};

struct epoll_item {
	struct node node;       /* in file->items */
	struct node ready_node; /* in epoll->ready */
	int fd;
	uint32_t events;
	epoll_data_t data;
	struct file *file, *epoll;
};

struct file {
	enum file_kind kind;
	unsigned refs;
	struct list items; /* struct epoll_item: who watches it */
	/* a socket */
	struct end *end;
	struct sockaddr_storage bound;
	socklen_t bound_len;
	int family, port;
	int real; /* of a bound unix socket: the real one, or 0 */
	ino_t inode;
	int pid;    /* of who listens */
	bool waits; /* calls block */
	/* a listener */
	struct node node;
	struct list queue; /* struct pending */
	/* an event or a timer */
	uint64_t counter;
	struct event alarm;
	/* a set */
	struct epoll_item **set;
	struct list ready;
	struct process *process;
};

/* A connection. */
struct wire {
	struct end ends[2];
	unsigned refs; /* open ends, and segments under way */
	uint64_t rng;
	size_t room;         /* of each queue */
	uint64_t latency_us; /* usual */
	uint64_t dead_us;    /* nothing passes from then on; 0: never */
	struct event death;  /* then both ends notice */
	bool is_local;       /* a unix socket: nothing is lost */
};

/* A descriptor on its way to an end, with the bytes that were sent with it. */
struct passed {
	struct node node;
	uint64_t from, to; /* positions in all bytes for the end */
	struct file *file;
};

struct pending {
	struct node node;
	struct end *end;
};

struct file *file_of(int fd); /* NULL: it is not simulated, or not open */
int file_new(enum file_kind kind, struct file **out);
int file_dup(int fd);
int file_dup_to(int fd, int to);
int file_close(int fd);
void file_wake(struct file *f, uint32_t what);
int epoll_change(struct file *epoll, int op, int fd, struct epoll_event *event);
int epoll_collect(struct file *epoll, struct epoll_event *events, int most);
ssize_t end_send(struct end *e, const void *bytes, size_t len);
ssize_t end_receive(struct end *e, void *bytes, size_t room, bool is_peek);
void end_shut(struct end *e);
int net_connect(struct file *f, const struct sockaddr *to);
int net_accept(struct file *listener, struct sockaddr *from, socklen_t *len);
void net_listen(struct file *f);
void net_pair(struct file *a, struct file *b);
void net_enqueue(struct file *listener, struct end *client);
struct wire *net_local_wire(void);
uint32_t file_ready(const struct file *f);
void file_unref(struct file *f);
/* A descriptor of the real kernel belongs to this process, or to none. */
void file_note_real(int fd, struct process *p);
int file_adopt(struct file *f); /* takes the reference: a descriptor of this process */
struct file *net_next_listener(struct file *after); /* NULL: the first */

/* ---- unix sockets ---- */
int local_bind(struct file *f, const struct sockaddr *addr, socklen_t len);
int local_connect(struct file *f, const struct sockaddr *addr);
/* The process at the other end. */
int local_peer(const struct file *f);
/* Whether the process listens at this file. */
bool local_is_served(const char *path, const struct process *p);
bool file_is_of(const struct file *f, const struct process *p);
void local_pass(struct end *to, size_t len, struct file *file);
/* How many of n bytes may be read at once. */
size_t local_limit(const struct end *e, size_t n);
/* The next one that belongs to bytes that were read; NULL: none. */
struct file *local_take(struct end *e, uint64_t taken);
void local_drop(struct end *e);

#endif
