/*
 * The program as it is, but one of its calls fails: the n-th of those below.  The
 * linker sends them here (--wrap), as it does for the simulation.  The test counts and
 * chooses in a file that the environment names (NTH_CALLS), which is mapped into
 * memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <ares.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "config.h"
#ifdef HAVE_URING
#	include <liburing.h>
#endif

/* What the test and the program share: test_nth_call.py has the same layout. */
struct choice {
	_Atomic uint64_t count;   /* calls so far */
	_Atomic uint64_t fail_at; /* 0: none */
	_Atomic uint64_t times;   /* so many fail from there on */
	char failed[40];          /* the name of the call that failed; "": none yet */
	char only[40];            /* calls of this name are counted; "": all */
};

static struct choice *choice;

int __real_open(const char *path, int flags, ...);

static void __attribute__((constructor)) begin(void)
{
	const char *path = getenv("NTH_CALLS");
	int fd = path ? __real_open(path, O_RDWR | O_CLOEXEC) : -1;
	void *p = fd < 0 ? MAP_FAILED
			 : mmap(NULL, sizeof(*choice), PROT_READ | PROT_WRITE,
			       MAP_SHARED, fd, 0);

	if (p != MAP_FAILED)
		choice = p;
}

static int fails(const char *name)
{
	uint64_t number, first;

	if (!choice || (*choice->only && strcmp(choice->only, name) != 0))
		return 0;
	number = atomic_fetch_add(&choice->count, 1) + 1;
	first = atomic_load(&choice->fail_at);
	if (!first || number < first || number >= first + atomic_load(&choice->times))
		return 0;
	strncpy(choice->failed, name, sizeof(choice->failed) - 1);
	return 1;
}

/* CALL(type, name, parameters, arguments, what it returns, errno) */
#define CALL(type, name, parameters, arguments, result, why) \
	type __real_##name parameters;                       \
	type __wrap_##name parameters;                       \
	type __wrap_##name parameters                        \
	{                                                    \
		if (!fails(#name))                           \
			return __real_##name arguments;      \
		errno = why;                                 \
		return result;                               \
	}

/* memory whose size a peer chooses */
CALL(void *, mem_try, (size_t size), (size), NULL, ENOMEM)
CALL(void *, mem_try_resize, (void *p, size_t size), (p, size), NULL, ENOMEM)

/* sockets */
CALL(int, socket, (int a, int b, int c), (a, b, c), -1, EMFILE)
CALL(int, socketpair, (int a, int b, int c, int d[2]), (a, b, c, d), -1, EMFILE)
CALL(int, bind, (int fd, const struct sockaddr *a, socklen_t l), (fd, a, l), -1,
    EADDRINUSE)
CALL(int, listen, (int fd, int n), (fd, n), -1, EADDRINUSE)
CALL(int, connect, (int fd, const struct sockaddr *a, socklen_t l), (fd, a, l), -1,
    EADDRNOTAVAIL)
CALL(int, accept4, (int fd, struct sockaddr *a, socklen_t *l, int f), (fd, a, l, f), -1,
    ECONNABORTED)
CALL(int, setsockopt, (int fd, int a, int b, const void *p, socklen_t l),
    (fd, a, b, p, l), -1, ENOBUFS)
CALL(int, getsockopt, (int fd, int a, int b, void *p, socklen_t *l), (fd, a, b, p, l),
    -1, ENOBUFS)
CALL(int, getsockname, (int fd, struct sockaddr *a, socklen_t *l), (fd, a, l), -1,
    ENOBUFS)
CALL(ssize_t, send, (int fd, const void *p, size_t n, int f), (fd, p, n, f), -1,
    ECONNRESET)
CALL(ssize_t, sendmsg, (int fd, const struct msghdr *m, int f), (fd, m, f), -1,
    ECONNRESET)
CALL(ssize_t, recv, (int fd, void *p, size_t n, int f), (fd, p, n, f), -1, ECONNRESET)
CALL(ssize_t, __recv_chk, (int fd, void *p, size_t n, size_t s, int f),
    (fd, p, n, s, f), -1, ECONNRESET)
CALL(ssize_t, recvmsg, (int fd, struct msghdr *m, int f), (fd, m, f), -1, ECONNRESET)

/* what waits for them */
CALL(int, epoll_create1, (int f), (f), -1, EMFILE)
CALL(int, epoll_ctl, (int e, int op, int fd, struct epoll_event *v), (e, op, fd, v), -1,
    ENOSPC)
CALL(int, eventfd, (unsigned n, int f), (n, f), -1, EMFILE)
CALL(int, timerfd_create, (int c, int f), (c, f), -1, EMFILE)
CALL(int, pthread_create,
    (pthread_t * t, const pthread_attr_t *a, void *(*f)(void *), void *p), (t, a, f, p),
    EAGAIN, EAGAIN)

/* files */
CALL(FILE *, fopen, (const char *p, const char *m), (p, m), NULL, EMFILE)
CALL(int, fstat, (int fd, struct stat *s), (fd, s), -1, EIO)
CALL(int, stat, (const char *p, struct stat *s), (p, s), -1, EIO)
CALL(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n), -1, EIO)
CALL(ssize_t, __read_chk, (int fd, void *p, size_t n, size_t s), (fd, p, n, s), -1, EIO)
ssize_t __real_write(int fd, const void *p, size_t n);
ssize_t __wrap_write(int fd, const void *p, size_t n);
ssize_t __wrap_write(int fd, const void *p, size_t n)
{
	/* what wakes another thread (eventfd) has room, always */
	if (n == sizeof(uint64_t) || !fails("write"))
		return __real_write(fd, p, n);
	errno = ENOSPC;
	return -1;
}
CALL(int, ftruncate, (int fd, off_t n), (fd, n), -1, EIO)
CALL(int, rename, (const char *a, const char *b), (a, b), -1, EIO)
CALL(int, unlink, (const char *p), (p), -1, EIO)
CALL(int, flock, (int fd, int op), (fd, op), -1, ENOLCK)

int __wrap_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode)
{
	if (!fails("open"))
		return __real_open(path, flags, mode);
	errno = EMFILE;
	return -1;
}

/* names */
CALL(int, getaddrinfo,
    (const char *n, const char *s, const struct addrinfo *h, struct addrinfo **r),
    (n, s, h, r), EAI_MEMORY, ENOMEM)

void __real_ares_getaddrinfo(ares_channel c, const char *name, const char *service,
    const struct ares_addrinfo_hints *h, ares_addrinfo_callback done, void *ctx);
void __wrap_ares_getaddrinfo(ares_channel c, const char *name, const char *service,
    const struct ares_addrinfo_hints *h, ares_addrinfo_callback done, void *ctx);
void __wrap_ares_getaddrinfo(ares_channel c, const char *name, const char *service,
    const struct ares_addrinfo_hints *h, ares_addrinfo_callback done, void *ctx)
{
	if (fails("ares_getaddrinfo"))
		done(ctx, ARES_ENOMEM, 0, NULL);
	else
		__real_ares_getaddrinfo(c, name, service, h, done, ctx);
}

/* TLS: OpenSSL says why in its queue */
#define CALL_TLS(type, name, parameters, arguments, result)                    \
	type __real_##name parameters;                                         \
	type __wrap_##name parameters;                                         \
	type __wrap_##name parameters                                          \
	{                                                                      \
		if (!fails(#name))                                             \
			return __real_##name arguments;                        \
		ERR_put_error(                                                 \
		    ERR_LIB_SSL, 0, ERR_R_MALLOC_FAILURE, __FILE__, __LINE__); \
		errno = ENOMEM;                                                \
		return result;                                                 \
	}

CALL_TLS(SSL_CTX *, SSL_CTX_new, (const SSL_METHOD *m), (m), NULL)
CALL_TLS(
    int, SSL_CTX_use_certificate_chain_file, (SSL_CTX * c, const char *p), (c, p), 0)
CALL_TLS(
    int, SSL_CTX_use_PrivateKey_file, (SSL_CTX * c, const char *p, int t), (c, p, t), 0)
CALL_TLS(int, SSL_CTX_check_private_key, (const SSL_CTX *c), (c), 0)
CALL_TLS(int, SSL_CTX_load_verify_locations,
    (SSL_CTX * c, const char *file, const char *path), (c, file, path), 0)
CALL_TLS(STACK_OF(X509_NAME) *, SSL_load_client_CA_file, (const char *p), (p), NULL)
CALL_TLS(BIO *, BIO_new_file, (const char *p, const char *m), (p, m), NULL)
CALL_TLS(BIO *, BIO_new, (const BIO_METHOD *m), (m), NULL)
CALL_TLS(BIO_METHOD *, BIO_meth_new, (int t, const char *n), (t, n), NULL)
CALL_TLS(SSL *, SSL_new, (SSL_CTX * c), (c), NULL)
CALL_TLS(int, SSL_do_handshake, (SSL * s), (s), -1)
CALL_TLS(int, SSL_read, (SSL * s, void *p, int n), (s, p, n), -1)
CALL_TLS(int, SSL_write, (SSL * s, const void *p, int n), (s, p, n), -1)

/* io_uring, whose library returns the reason */
#ifdef HAVE_URING
CALL(int, io_uring_queue_init_params,
    (unsigned n, struct io_uring *r, struct io_uring_params *p), (n, r, p), -EPERM,
    EPERM)
CALL(int, io_uring_register_buf_ring,
    (struct io_uring * r, struct io_uring_buf_reg *b, unsigned f), (r, b, f), -ENOMEM,
    ENOMEM)
CALL(int, io_uring_register_ring_fd, (struct io_uring * r), (r), -EINVAL, EINVAL)
CALL(int, io_uring_submit, (struct io_uring * r), (r), -ENOMEM, ENOMEM)
CALL(int, io_uring_get_events, (struct io_uring * r), (r), -ENOMEM, ENOMEM)
CALL(int, io_uring_submit_and_get_events, (struct io_uring * r), (r), -ENOMEM, ENOMEM)
CALL(int, io_uring_submit_and_wait, (struct io_uring * r, unsigned n), (r, n), -ENOMEM,
    ENOMEM)
CALL(int, io_uring_submit_and_wait_timeout,
    (struct io_uring * r, struct io_uring_cqe **c, unsigned n,
	struct __kernel_timespec *t, sigset_t *s),
    (r, c, n, t, s), -ENOMEM, ENOMEM)
#endif
