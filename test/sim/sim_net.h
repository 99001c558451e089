/* The simulated kernel, for the system calls of sim_calls.c. */
#ifndef TEST_SIM_SIM_NET_H
#define TEST_SIM_SIM_NET_H

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/types.h>

#include "sim.h"

/* Lower descriptors are the real kernel's: files. */
enum { SIM_FD_FIRST = 100, SIM_FDS = 4096 };

enum file_kind { FILE_SOCKET, FILE_LISTENER, FILE_EPOLL, FILE_EVENT, FILE_TIMER };

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
	/* a listener */
	struct node node;
	struct list queue; /* struct pending */
	/* an event or a timer */
	uint64_t counter;
	struct event alarm;
	/* a set */
	struct epoll_item **set;
	struct list ready;
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

#endif
