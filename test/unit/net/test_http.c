/*
 * The limits of the HTTP server: number of connections, and their time.  The clock is
 * controlled by the test.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/ssl.h>

#include "base/mem.h"
#include "certs.h"
#include "net/http.h"
#include "net/tls.h"

enum { TURNS_MOST = 2000, PART = 100000 };

/* The monotonic clock of the whole program. */
struct clock {
	int64_t ahead_s; /* is added to the system's */
	/* 0: the system's clock counts.  Otherwise only the calls count, so that it
	 * does not matter how busy the machine is: they are STEP_NS apart. */
	int64_t calls;
	struct timespec begun; /* when calls began to count */
};

enum { STEP_NS = 10000 };

static struct clock *the_clock(void)
{
	static struct clock clock;

	return &clock;
}

static int64_t *ahead_s(void)
{
	return &the_clock()->ahead_s;
}

int clock_gettime(clockid_t id, struct timespec *time)
{
	int rc = (int)syscall(SYS_clock_gettime, id, time);
	struct clock *clock = the_clock();

	if (id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE)
		return rc;
	if (clock->calls) {
		int64_t ns = clock->begun.tv_nsec + ++clock->calls * STEP_NS;
		*time =
		    (struct timespec){.tv_sec = clock->begun.tv_sec + ns / 1000000000,
			.tv_nsec = ns % 1000000000};
	}
	time->tv_sec += clock->ahead_s;
	return rc;
}

/* Whether there is memory for TLS. */
static bool *lacks_memory(void)
{
	static bool lacks;

	return &lacks;
}

SSL *SSL_new(SSL_CTX *context)
{
	SSL *(*real)(SSL_CTX *);

	*(void **)&real = dlsym(RTLD_NEXT, "SSL_new");
	return *lacks_memory() ? NULL : real(context);
}

static void count_calls(void)
{
	struct clock *clock = the_clock();

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &clock->begun);
	clock->calls = 1;
}

struct scene {
	struct mem mem;
	struct loop *loop;
	struct http *http;
	struct deadline stop;
	struct sockaddr_in at;
	struct http_request *request; /* the last request that was not answered */
	int asked, gone, failed;
	bool is_slow;  /* requests are kept unanswered */
	bool is_large; /* kept requests get parts as long as the peer reads them */
};

/* ---- what is asked ---- */

static void put_part(struct http_request *r)
{
	struct buf part;

	buf_init(&part, 0);
	(void)buf_room(&part, PART);
	memset(part.bytes, 'x', PART);
	buf_grow(&part, PART);
	http_put(r, &part);
	buf_done(&part);
}

static void asked(void *ctx, struct http_request *r)
{
	struct scene *s = ctx;

	s->asked++;
	if (s->is_slow) {
		s->request = r;
	} else if (s->is_large) {
		http_begin(r, "text/plain");
		put_part(r);
	} else {
		http_answer(r, 200, "text/plain", "hello");
	}
}

static void wanted(void *ctx, struct http_request *r)
{
	(void)ctx;
	put_part(r);
}

static void gone(void *ctx, struct http_request *r)
{
	struct scene *s = ctx;

	(void)r;
	s->gone++;
	s->request = NULL;
}

static void failed(void *ctx)
{
	struct scene *s = ctx;

	s->failed++;
}

static const struct http_ops ops = {
    .asked = asked, .wanted = wanted, .gone = gone, .failed = failed};

/* ---- turns ---- */

static void stop(struct deadline *d)
{
	struct scene *s = container_of(d, struct scene, stop);

	loop_stop(s->loop);
}

/* Runs some turns with half a millisecond between them. */
static void turns(struct scene *s, int count)
{
	while (count-- > 0) {
		deadline_set(s->loop, &s->stop, loop_now(s->loop) + 500);
		loop_run(s->loop);
	}
}

static void pass(struct scene *s, int seconds)
{
	*ahead_s() += seconds;
	turns(s, 5);
}

static void wait_for(struct scene *s, const int *count, int wanted_count)
{
	for (int i = 0; i < TURNS_MOST && *count < wanted_count; i++)
		turns(s, 1);
	assert_int_equal(*count, wanted_count);
}

static void listen_at(struct scene *s, struct tls_context *context)
{
	socklen_t len = sizeof(s->at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct err err;

	s->at.sin_family = AF_INET;
	s->at.sin_port = 0;
	s->at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&s->at, sizeof(s->at)), 0);
	assert_int_equal(listen(fd, 2 * HTTP_CONNECTIONS_MOST), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&s->at, &len), 0);
	assert_int_equal(http_listen(s->http, fd, context, &err), 0);
}

static int set_up(void **state)
{
	struct scene *s = mem_zero(sizeof(*s));
	struct err err;

	mem_init(&s->mem);
	s->loop = loop_new(&s->mem, &err);
	assert_non_null(s->loop);
	deadline_init(&s->stop, stop);
	s->http = http_new(s->loop, &ops, s);
	listen_at(s, NULL);
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *s = *state;

	http_free(&s->http);
	deadline_clear(s->loop, &s->stop);
	loop_free(&s->loop);
	mem_free(s);
	return 0;
}

/* ---- callers ---- */

static int call(const struct scene *s)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(
	    connect(fd, (const struct sockaddr *)&s->at, sizeof(s->at)), 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

static void say(int fd, const char *text)
{
	assert_int_equal(
	    send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

#define REQUEST "GET /x?y HTTP/1.1\r\nHost: h\r\n\r\n"

/* Reads what has come; false: the connection has ended. */
static bool is_open(int fd)
{
	char bytes[4096];
	ssize_t got;

	while ((got = recv(fd, bytes, sizeof(bytes), 0)) > 0)
		continue;
	return got < 0 && errno == EAGAIN;
}

static void wait_end(struct scene *s, int fd)
{
	bool is_there = true;

	for (int i = 0; i < TURNS_MOST && (is_there = is_open(fd)); i++)
		turns(s, 1);
	assert_false(is_there);
}

static void test_answer(void **state)
{
	struct scene *s = *state;
	int fd = call(s);
	char text[512];

	say(fd, REQUEST);
	wait_for(s, &s->asked, 1);
	turns(s, 5);
	ssize_t len = recv(fd, text, sizeof(text) - 1, 0);
	assert_true(len > 0);
	text[len] = '\0';
	assert_non_null(strstr(text, "HTTP/1.1 200 OK\r\n"));
	assert_non_null(strstr(text, "\r\n\r\nhello"));
	/* one request for each connection */
	wait_end(s, fd);
	close(fd);
	assert_int_equal(s->gone, 0);
}

/* The answer to HEAD ends with its headers. */
static void test_head(void **state)
{
	struct scene *s = *state;
	int fd = call(s);
	char text[512];

	say(fd, "HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n");
	wait_for(s, &s->asked, 1);
	turns(s, 5);
	ssize_t len = recv(fd, text, sizeof(text) - 1, 0);
	assert_true(len > 4);
	text[len] = '\0';
	assert_non_null(strstr(text, "HTTP/1.1 200 OK\r\n"));
	assert_string_equal(text + len - 4, "\r\n\r\n");
	wait_end(s, fd);
	close(fd);
}

/* libevent itself ends no connection on which CONNECT came. */
static void test_connect(void **state)
{
	struct scene *s = *state;
	int fd = call(s);

	say(fd, "CONNECT h:1 HTTP/1.1\r\n\r\n");
	wait_for(s, &s->asked, 1);
	wait_end(s, fd);
	close(fd);
	assert_int_equal(s->gone, 0);
}

/* A request has ten seconds, even if it comes byte by byte. */
static void test_slow_head(void **state)
{
	struct scene *s = *state;
	int silent = call(s), slow = call(s);

	turns(s, 5);
	say(slow, "GET / HTTP/1.1\r\nX: ");
	for (int i = 0; i < 9; i++) {
		pass(s, 1);
		say(slow, "x");
	}
	assert_true(is_open(silent) && is_open(slow));
	pass(s, 2);
	wait_end(s, silent);
	wait_end(s, slow);
	assert_int_equal(s->asked, 0);
	close(silent);
	close(slow);
}

/* An answer has one minute; then the peer is disconnected, and a later answer is
 * dropped. */
static void test_slow_answer(void **state)
{
	struct scene *s = *state;
	int fd = call(s);

	s->is_slow = true;
	say(fd, REQUEST);
	wait_for(s, &s->asked, 1);
	assert_string_equal(http_path(s->request), "/x");
	pass(s, 58);
	assert_true(is_open(fd));
	pass(s, 4);
	wait_end(s, fd);
	if (s->request)
		http_answer(s->request, 200, "text/plain", "late");
	turns(s, 5);
	close(fd);
}

/* The same when the peer does not read the answer. */
static void test_slow_reader(void **state)
{
	struct scene *s = *state;
	int fd = call(s);

	s->is_large = true;
	say(fd, REQUEST);
	wait_for(s, &s->asked, 1);
	pass(s, 58);
	assert_int_equal(s->gone, 0);
	pass(s, 4);
	wait_for(s, &s->gone, 1);
	close(fd);
}

static void test_reader_leaves(void **state)
{
	struct scene *s = *state;
	int fd = call(s);

	s->is_large = true;
	say(fd, REQUEST);
	wait_for(s, &s->asked, 1);
	close(fd);
	wait_for(s, &s->gone, 1);
}

/* Connections beyond the limit wait until there is room. */
static void test_full(void **state)
{
	int fds[HTTP_CONNECTIONS_MOST], next;
	struct scene *s = *state;

	count_calls();
	for (int i = 0; i < HTTP_CONNECTIONS_MOST; i++)
		fds[i] = call(s);
	turns(s, 5);
	next = call(s);
	say(next, REQUEST);
	turns(s, 20);
	assert_int_equal(s->asked, 0);
	the_clock()->calls = 0;
	assert_true(is_open(next));
	close(fds[0]);
	pass(s, 1);
	wait_for(s, &s->asked, 1);
	/* the limit is reached again, so the oldest one gives way */
	wait_end(s, fds[1]);
	for (int i = 1; i < HTTP_CONNECTIONS_MOST; i++) {
		assert_true(i == 1 || is_open(fds[i]));
		close(fds[i]);
	}
	close(next);
}

/* Silent connections keep others out only for the time that a request may take. */
static void test_full_of_silent_ones(void **state)
{
	int fds[HTTP_CONNECTIONS_MOST], next;
	struct scene *s = *state;

	for (int i = 0; i < HTTP_CONNECTIONS_MOST; i++)
		fds[i] = call(s);
	turns(s, 5);
	next = call(s);
	say(next, REQUEST);
	pass(s, 11);
	wait_for(s, &s->asked, 1);
	for (int i = 0; i < HTTP_CONNECTIONS_MOST; i++) {
		wait_end(s, fds[i]);
		close(fds[i]);
	}
	close(next);
}

/* At the limit, the oldest silent connection gives way to the next one. */
static void test_silent_ones_give_way(void **state)
{
	int fds[HTTP_CONNECTIONS_MOST + 4];
	struct scene *s = *state;

	for (int i = 0; i < HTTP_CONNECTIONS_MOST; i++) {
		fds[i] = call(s);
		turns(s, 2);
	}
	pass(s, 2);
	for (int i = HTTP_CONNECTIONS_MOST; i < HTTP_CONNECTIONS_MOST + 4; i++) {
		fds[i] = call(s);
		turns(s, 5);
	}
	int next = call(s);
	say(next, REQUEST);
	wait_for(s, &s->asked, 1);
	wait_end(s, fds[0]);
	assert_true(is_open(fds[HTTP_CONNECTIONS_MOST - 1]));
	for (int i = 0; i < HTTP_CONNECTIONS_MOST + 4; i++)
		close(fds[i]);
	close(next);
}

/* An ended connection, which libevent has freed, does not give way to the one with
 * which the limit is reached. */
static void test_ended_ones_give_no_way(void **state)
{
	int fds[HTTP_CONNECTIONS_MOST - 1];
	struct scene *s = *state;

	for (int i = 0; i < HTTP_CONNECTIONS_MOST - 1; i++) {
		fds[i] = call(s);
		turns(s, 2);
	}
	pass(s, 2);
	count_calls(); /* the next tick is far away */
	close(fds[0]);
	turns(s, 5);
	fds[0] = call(s);
	say(fds[0], REQUEST);
	wait_for(s, &s->asked, 1);
	the_clock()->calls = 0;
	for (int i = 1; i < HTTP_CONNECTIONS_MOST - 1; i++)
		assert_true(is_open(fds[i]));
	for (int i = 0; i < HTTP_CONNECTIONS_MOST - 1; i++)
		close(fds[i]);
}

/* A client that has closed its side gets the whole answer. */
static void test_half_closed(void **state)
{
	struct scene *s = *state;
	int fd = call(s);
	char bytes[65536];
	size_t sum = 0;

	s->is_large = true;
	say(fd, REQUEST);
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	wait_for(s, &s->asked, 1);
	for (int i = 0; i < TURNS_MOST && sum < 100 * PART; i++) {
		ssize_t got;
		while ((got = recv(fd, bytes, sizeof(bytes), 0)) > 0)
			sum += (size_t)got;
		assert_int_not_equal(got, 0);
		turns(s, 1);
	}
	assert_true(sum >= 100 * PART);
	assert_int_equal(s->gone, 0);
	close(fd);
	wait_for(s, &s->gone, 1);
}

/* Many connections that come at once are all served. */
static void test_crowd(void **state)
{
	enum { CROWD = HTTP_CONNECTIONS_MOST + 8 };
	struct scene *s = *state;
	int fds[CROWD];

	for (int i = 0; i < CROWD; i++) {
		fds[i] = call(s);
		say(fds[i], REQUEST);
	}
	for (int i = 0; i < CROWD && s->asked < CROWD; i++)
		pass(s, 1);
	wait_for(s, &s->asked, CROWD);
	for (int i = 0; i < CROWD; i++) {
		wait_end(s, fds[i]);
		close(fds[i]);
	}
}

static void test_long_requests(void **state)
{
	struct scene *s = *state;
	char text[10000];
	int fd = call(s);

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	memcpy(text, "GET /", 5);
	say(fd, text);
	wait_end(s, fd);
	close(fd);
	fd = call(s);
	say(fd, "POST / HTTP/1.1\r\nContent-Length: 2000\r\n\r\n");
	text[2000] = '\0';
	say(fd, text);
	wait_end(s, fd);
	close(fd);
	assert_int_equal(s->asked, 0);
}

#define SCENE_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

/* Without memory for TLS a connection is closed, and nothing is answered in clear; the
 * next ones are served, each in the other's place. */
static void test_no_memory_for_tls(void **state)
{
	struct scene *s = *state;
	struct err err;

	certs_make("web", &(struct cert_wish){.cn = "web"});
	struct tls_context *context =
	    tls_context_new(&(struct tls_config){.is_server = true,
				.cert_file = certs_path("web.crt"),
				.key_file = certs_path("web.key")},
		&err);
	assert_non_null(context);
	int fd = call(s);
	listen_at(s, context);
	*lacks_memory() = true;
	int touched = call(s);
	say(touched, REQUEST);
	wait_end(s, touched);
	*lacks_memory() = false;
	assert_int_equal(s->failed, 1);
	assert_int_equal(s->asked, 0);
	close(touched);
	int next = call(s);
	turns(s, 5);
	assert_true(is_open(next));
	say(fd, REQUEST);
	wait_for(s, &s->asked, 1);
	close(next);
	close(fd);
	tls_context_unref(&context);
	certs_done();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    SCENE_TEST(test_answer),
	    SCENE_TEST(test_no_memory_for_tls),
	    SCENE_TEST(test_head),
	    SCENE_TEST(test_connect),
	    SCENE_TEST(test_slow_head),
	    SCENE_TEST(test_slow_answer),
	    SCENE_TEST(test_slow_reader),
	    SCENE_TEST(test_reader_leaves),
	    SCENE_TEST(test_full),
	    SCENE_TEST(test_full_of_silent_ones),
	    SCENE_TEST(test_silent_ones_give_way),
	    SCENE_TEST(test_ended_ones_give_no_way),
	    SCENE_TEST(test_half_closed),
	    SCENE_TEST(test_crowd),
	    SCENE_TEST(test_long_requests),
	};

	/* as the pooler does */
	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
