/*
 * Unix sockets: found by their files, which are the real kernel's, and with descriptors
 * that go along with bytes.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/mem.h"
#include "sim_net.h"
#include "sim_process.h"

int __real_socket(int family, int type, int protocol);
int __real_bind(int fd, const struct sockaddr *addr, socklen_t len);
int __real_close(int fd);

enum { QUEUE_MOST = 128 };

/* A real socket, to which nobody connects, makes the file, and keeps its number from
 * being used again. */
int local_bind(struct file *f, const struct sockaddr *addr, socklen_t len)
{
	int fd = __real_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat st;

	if (__real_bind(fd, addr, len) < 0 ||
	    stat(((const struct sockaddr_un *)addr)->sun_path, &st) < 0) {
		int errnum = errno;
		__real_close(fd);
		errno = errnum;
		return -1;
	}
	f->real = fd;
	f->inode = st.st_ino;
	return 0;
}

static struct file *find_listener(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		errno = ENOENT;
		return NULL;
	}
	for (struct file *f = net_next_listener(NULL); f; f = net_next_listener(f))
		if (f->real && f->inode == st.st_ino)
			return f;
	errno = ECONNREFUSED;
	return NULL;
}

int local_connect(struct file *f, const struct sockaddr *addr)
{
	struct file *listener =
	    find_listener(((const struct sockaddr_un *)addr)->sun_path);
	struct wire *w;

	if (!listener)
		return -1;
	if (listener->queue.count >= QUEUE_MOST) {
		errno = EAGAIN;
		return -1;
	}
	w = net_local_wire();
	f->end = &w->ends[0];
	f->end->file = f;
	f->end->pid = process_current()->pid;
	w->ends[1].pid = listener->pid;
	note("connect locally", (uint64_t)listener->pid, 0);
	net_enqueue(listener, f->end);
	return 0;
}

bool local_is_served(const char *path, const struct process *p)
{
	const struct file *f = find_listener(path);

	return f && file_is_of(f, p);
}

int local_peer(const struct file *f)
{
	return f->end ? f->end->peer->pid : 0;
}

/* ---- descriptors ---- */

void local_pass(struct end *to, size_t len, struct file *file)
{
	struct passed *p = mem_zero(sizeof(*p));

	p->from = to->sent - len;
	p->to = to->sent;
	p->file = file;
	file->refs++;
	list_push_back(&to->passed, &p->node);
}

static struct passed *first_of(const struct end *e)
{
	struct node *n = list_first(&e->passed);

	return n ? container_of(n, struct passed, node) : NULL;
}

/* What was sent with a descriptor is the last that a call receives. */
size_t local_limit(const struct end *e, size_t n)
{
	const struct passed *p = first_of(e);
	size_t most = p ? (size_t)(p->to - e->taken) : n;

	return n < most ? n : most;
}

struct file *local_take(struct end *e, uint64_t taken)
{
	struct passed *p = first_of(e);
	struct file *file;

	if (!p || p->from >= taken)
		return NULL;
	file = p->file;
	list_remove(&e->passed, &p->node);
	mem_free(p);
	return file;
}

void local_drop(struct end *e)
{
	struct node *n;

	while ((n = list_pop_front(&e->passed))) {
		struct passed *p = container_of(n, struct passed, node);
		file_unref(p->file);
		mem_free(p);
	}
}
