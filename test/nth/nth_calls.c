/*
 * The program as it is, but one of its calls fails: the n-th of those below.  The
 * linker sends them here (--wrap), as it does for the simulation.  The test counts and
 * chooses in a file that the environment names (NTH_CALLS), which is mapped into
 * memory.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <spawn.h>
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
#ifdef HAVE_LDAP
#	include <ldap.h>
#endif
#ifdef HAVE_PAM
#	include <security/pam_appl.h>
#endif
#ifdef HAVE_OAUTH
#	include <curl/curl.h>
#	include <jansson.h>
#endif
#ifdef HAVE_GSSAPI
#	include <gssapi/gssapi.h>
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

CALL(ssize_t, sendto,
    (int fd, const void *p, size_t n, int f, const struct sockaddr *a, socklen_t l),
    (fd, p, n, f, a, l), -1, ECONNREFUSED)
CALL(int, chown, (const char *p, uid_t u, gid_t g), (p, u, g), -1, EPERM)
CALL(int, chmod, (const char *p, mode_t m), (p, m), -1, EPERM)
CALL(int, getifaddrs, (struct ifaddrs * *all), (all), -1, ENOMEM)

/* what waits for them */
CALL(int, poll, (struct pollfd * p, nfds_t n, int t), (p, n, t), -1, EINTR)
CALL(int, epoll_create1, (int f), (f), -1, EMFILE)
CALL(int, epoll_ctl, (int e, int op, int fd, struct epoll_event *v), (e, op, fd, v), -1,
    ENOSPC)
CALL(int, pipe2, (int p[2], int f), (p, f), -1, EMFILE)
CALL(int, eventfd, (unsigned n, int f), (n, f), -1, EMFILE)
CALL(int, timerfd_create, (int c, int f), (c, f), -1, EMFILE)
CALL(int, pthread_create,
    (pthread_t * t, const pthread_attr_t *a, void *(*f)(void *), void *p), (t, a, f, p),
    EAGAIN, EAGAIN)

CALL(int, posix_spawn,
    (pid_t * p, const char *f, const posix_spawn_file_actions_t *a,
	const posix_spawnattr_t *b, char *const v[], char *const e[]),
    (p, f, a, b, v, e), EAGAIN, EAGAIN)

/* files */
CALL(FILE *, fopen, (const char *p, const char *m), (p, m), NULL, EMFILE)
CALL(int, fstat, (int fd, struct stat *s), (fd, s), -1, EIO)
CALL(int, stat, (const char *p, struct stat *s), (p, s), -1, EIO)
/* what threads wake each other with (eventfd) has room and is read, always */
static int fails_but_eventfd(const char *name, size_t n)
{
	return n != sizeof(uint64_t) && fails(name);
}

#define CALL_FILE(name, parameters, arguments, n, why)  \
	ssize_t __real_##name parameters;               \
	ssize_t __wrap_##name parameters;               \
	ssize_t __wrap_##name parameters                \
	{                                               \
		if (!fails_but_eventfd(#name, n))       \
			return __real_##name arguments; \
		errno = why;                            \
		return -1;                              \
	}

CALL_FILE(read, (int fd, void *p, size_t n), (fd, p, n), n, EIO)
CALL_FILE(__read_chk, (int fd, void *p, size_t n, size_t s), (fd, p, n, s), n, EIO)
CALL_FILE(write, (int fd, const void *p, size_t n), (fd, p, n), n, ENOSPC)
CALL(ssize_t, pwrite, (int fd, const void *p, size_t n, off_t o), (fd, p, n, o), -1,
    ENOSPC)
CALL(int, lstat, (const char *p, struct stat *s), (p, s), -1, EIO)
CALL(int, access, (const char *p, int m), (p, m), -1, EIO)
CALL(DIR *, opendir, (const char *p), (p), NULL, EMFILE)
CALL(int, scandir,
    (const char *p, struct dirent ***l, int (*f)(const struct dirent *),
	int (*c)(const struct dirent **, const struct dirent **)),
    (p, l, f, c), -1, EMFILE)
CALL(int, getpwuid_r, (uid_t u, struct passwd *e, char *p, size_t n, struct passwd **r),
    (u, e, p, n, r), EMFILE, EMFILE)
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

CALL(int, ares_init_options, (ares_channel * c, const struct ares_options *o, int m),
    (c, o, m), ARES_ENOMEM, ENOMEM)
void __real_ares_search(
    ares_channel c, const char *name, int a, int b, ares_callback done, void *ctx);
void __wrap_ares_search(
    ares_channel c, const char *name, int a, int b, ares_callback done, void *ctx);
void __wrap_ares_search(
    ares_channel c, const char *name, int a, int b, ares_callback done, void *ctx)
{
	if (fails("ares_search"))
		done(ctx, ARES_ENOMEM, 0, NULL, 0);
	else
		__real_ares_search(c, name, a, b, done, ctx);
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
CALL_TLS(int, X509_load_crl_file, (X509_LOOKUP * l, const char *p, int t), (l, p, t), 0)
CALL_TLS(int, SSL_CTX_set_cipher_list, (SSL_CTX * c, const char *s), (c, s), 0)
CALL_TLS(int, SSL_CTX_set_ciphersuites, (SSL_CTX * c, const char *s), (c, s), 0)
CALL_TLS(int, SSL_CTX_set_default_verify_paths, (SSL_CTX * c), (c), 0)
CALL_TLS(int, SSL_set_alpn_protos, (SSL * s, const unsigned char *p, unsigned n),
    (s, p, n), 1)
CALL_TLS(int, SSL_peek, (SSL * s, void *p, int n), (s, p, n), -1)
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
/* A request of this kind completes with this error: "RECV ENOMEM".  The kernel gets one
 * that does nothing in its place.  Only those that the test names are counted. */
#	define COMPLETION(kind, why)                         \
		{                                             \
			IORING_OP_##kind, why, #kind " " #why \
		}
static const struct completion {
	uint8_t kind;
	int why;
	const char *name;
} completions[] = {
    COMPLETION(RECV, ENOMEM),
    COMPLETION(RECV, ECONNRESET),
    COMPLETION(RECV, EINTR),
    COMPLETION(RECV, EAGAIN),
    COMPLETION(RECV, ENOBUFS),
    COMPLETION(RECV, ECANCELED),
    COMPLETION(SEND, ENOMEM),
    COMPLETION(SEND, ECONNRESET),
    COMPLETION(SEND, EINTR),
    COMPLETION(SEND, EAGAIN),
    COMPLETION(SEND, ENOBUFS),
    COMPLETION(SEND, ECANCELED),
    COMPLETION(SENDMSG, ENOMEM),
    COMPLETION(SENDMSG, ECONNRESET),
    COMPLETION(SENDMSG, EINTR),
    COMPLETION(SENDMSG, EAGAIN),
    COMPLETION(SENDMSG, ENOBUFS),
    COMPLETION(SENDMSG, ECANCELED),
    COMPLETION(POLL_ADD, ENOMEM),
    COMPLETION(POLL_ADD, EINTR),
    COMPLETION(POLL_ADD, ECANCELED),
};
/* the one that has been replaced, and is not complete */
static _Thread_local uint64_t replaced;
static _Thread_local int replaced_why;

static void replace_requests(struct io_uring *r)
{
	if (!choice || !*choice->only)
		return;
	for (unsigned at = r->sq.sqe_head; at != r->sq.sqe_tail; at++) {
		struct io_uring_sqe *sqe = &r->sq.sqes[at & *r->sq.kring_mask];
		uint64_t data = sqe->user_data;
		for (size_t i = 0; i < sizeof(completions) / sizeof(*completions); i++)
			if (sqe->opcode == completions[i].kind &&
			    fails(completions[i].name)) {
				io_uring_prep_nop(sqe);
				sqe->user_data = replaced = data;
				replaced_why = completions[i].why;
			}
	}
}

static void fail_completion(struct io_uring *r)
{
	struct io_uring_cqe *cqe;
	unsigned head;

	if (!replaced)
		return;
	io_uring_for_each_cqe(r, head, cqe) if (cqe->user_data == replaced)
	{
		cqe->res = -replaced_why;
		replaced = 0;
	}
}

#	define CALL_RING(name, parameters, arguments)        \
		int __real_##name parameters;                 \
		int __wrap_##name parameters;                 \
		int __wrap_##name parameters                  \
		{                                             \
			if (fails(#name))                     \
				return -ENOMEM;               \
			replace_requests(r);                  \
			int result = __real_##name arguments; \
			fail_completion(r);                   \
			return result;                        \
		}
CALL(int, io_uring_get_events, (struct io_uring * r), (r), -ENOMEM, ENOMEM)
CALL_RING(io_uring_submit, (struct io_uring * r), (r))
CALL_RING(io_uring_submit_and_get_events, (struct io_uring * r), (r))
CALL_RING(io_uring_submit_and_wait, (struct io_uring * r, unsigned n), (r, n))
CALL_RING(io_uring_submit_and_wait_timeout,
    (struct io_uring * r, struct io_uring_cqe **c, unsigned n,
	struct __kernel_timespec *t, sigset_t *s),
    (r, c, n, t, s))
#endif

/* libraries that decide about logins */
#ifdef HAVE_LDAP
CALL(int, ldap_initialize, (LDAP * *l, const char *u), (l, u), LDAP_NO_MEMORY, ENOMEM)
CALL(int, ldap_set_option, (LDAP * l, int o, const void *v), (l, o, v), LDAP_OPT_ERROR,
    ENOMEM)
CALL(int, ldap_start_tls, (LDAP * l, LDAPControl **a, LDAPControl **b, int *m),
    (l, a, b, m), LDAP_CONNECT_ERROR, ECONNRESET)
CALL(int, ldap_sasl_bind,
    (LDAP * l, const char *d, const char *n, struct berval *v, LDAPControl **a,
	LDAPControl **b, int *m),
    (l, d, n, v, a, b, m), LDAP_SERVER_DOWN, ECONNRESET)
CALL(int, ldap_search_ext,
    (LDAP * l, const char *d, int s, const char *f, char **t, int o, LDAPControl **a,
	LDAPControl **b, struct timeval *w, int z, int *m),
    (l, d, s, f, t, o, a, b, w, z, m), LDAP_SERVER_DOWN, ECONNRESET)
CALL(int, ldap_result, (LDAP * l, int i, int all, struct timeval *w, LDAPMessage **m),
    (l, i, all, w, m), -1, ECONNRESET)
CALL(int, ldap_parse_result,
    (LDAP * l, LDAPMessage *m, int *c, char **d, char **t, char ***r, LDAPControl ***s,
	int f),
    (l, m, c, d, t, r, s, f), LDAP_NO_MEMORY, ENOMEM)
CALL(char *, ldap_get_dn, (LDAP * l, LDAPMessage *m), (l, m), NULL, ENOMEM)
#endif
#ifdef HAVE_PAM
CALL(int, pam_start,
    (const char *s, const char *u, const struct pam_conv *c, pam_handle_t **h),
    (s, u, c, h), PAM_BUF_ERR, ENOMEM)
CALL(int, pam_set_item, (pam_handle_t * h, int i, const void *v), (h, i, v),
    PAM_BUF_ERR, ENOMEM)
CALL(int, pam_authenticate, (pam_handle_t * h, int f), (h, f), PAM_SYSTEM_ERR, ENOMEM)
CALL(int, pam_acct_mgmt, (pam_handle_t * h, int f), (h, f), PAM_SYSTEM_ERR, ENOMEM)
#endif
#ifdef HAVE_OAUTH
CALL(CURL *, curl_easy_init, (void), (), NULL, ENOMEM)
CALL(CURLcode, curl_easy_perform, (CURL * c), (c), CURLE_OUT_OF_MEMORY, ENOMEM)
CALL(json_t *, json_loadb, (const char *p, size_t n, size_t f, json_error_t *e),
    (p, n, f, e), NULL, ENOMEM)
#endif
#ifdef HAVE_GSSAPI
/* none of them has given anything when it says so */
#	define CALL_GSS(name, parameters, arguments) \
		CALL(OM_uint32, name, parameters, arguments, GSS_S_FAILURE, ENOMEM)
CALL_GSS(gss_accept_sec_context,
    (OM_uint32 * m, gss_ctx_id_t *c, gss_cred_id_t k, gss_buffer_t i,
	gss_channel_bindings_t b, gss_name_t *n, gss_OID *t, gss_buffer_t o,
	OM_uint32 *f, OM_uint32 *s, gss_cred_id_t *d),
    (m, c, k, i, b, n, t, o, f, s, d))
CALL_GSS(gss_init_sec_context,
    (OM_uint32 * m, gss_cred_id_t k, gss_ctx_id_t *c, gss_name_t n, gss_OID t,
	OM_uint32 r, OM_uint32 s, gss_channel_bindings_t b, gss_buffer_t i, gss_OID *a,
	gss_buffer_t o, OM_uint32 *f, OM_uint32 *l),
    (m, k, c, n, t, r, s, b, i, a, o, f, l))
CALL_GSS(gss_display_name, (OM_uint32 * m, gss_name_t n, gss_buffer_t b, gss_OID *t),
    (m, n, b, t))
CALL_GSS(gss_import_name, (OM_uint32 * m, gss_buffer_t b, gss_OID t, gss_name_t *n),
    (m, b, t, n))
#endif
