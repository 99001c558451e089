/*
 * The resolver against a name server of this test on a free port: cache, rotation,
 * shared queries, failures, changes.  Port 53 needs rights that tests do not have, so
 * connect() is replaced here by one that sends the resolver to that port instead.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "net/dns.h"

enum { ANSWERS_MOST = 4, LOG_MOST = 256 };

struct scene {
	struct loop *loop;
	struct mem mem;
	struct dns *dns;
	struct deadline guard, clock;
	struct later stop;
	struct watch *watch;
	int server; /* UDP socket of the name server */
	/* the name server's answers to A queries */
	const char *answers[ANSWERS_MOST];
	bool is_unknown, is_silent, is_empty;
	const char *name; /* its answer to PTR queries; NULL: unknown */
	int query_count;  /* number of A queries it got */
	/* zones: which one has a serial, and the serial */
	const char *zone;
	uint32_t serial;
	int soa_count;
	/* what waiters and the change handler were told */
	int wanted, done_count;
	char told[LOG_MOST], gone[LOG_MOST], news[LOG_MOST];
	bool in_call;
};

/* Port of the name server; 0 before there is one. */
static in_port_t server_port;

int connect(int fd, const struct sockaddr *to, socklen_t len)
{
	struct sockaddr_in in;

	if (to->sa_family == AF_INET && len >= sizeof(in)) {
		memcpy(&in, to, sizeof(in));
		if (in.sin_port == htons(53) && server_port) {
			in.sin_port = server_port;
			to = (const struct sockaddr *)&in;
		}
		return (int)syscall(SYS_connect, fd, to, len);
	}
	return (int)syscall(SYS_connect, fd, to, len);
}

/* ---- the name server ---- */

static void put_answer(struct buf *b, const char *ip)
{
	uint8_t bytes[4];

	assert_int_equal(inet_pton(AF_INET, ip, bytes), 1);
	buf_put_u16(b, 0xc00c); /* the name of the question */
	buf_put_u16(b, 1);
	buf_put_u16(b, 1);
	buf_put_u32(b, 60);
	buf_put_u16(b, 4);
	buf_put(b, bytes, 4);
}

static void put_name(struct buf *b, const char *name)
{
	buf_put_u16(b, 0xc00c); /* the name of the question */
	buf_put_u16(b, 12);
	buf_put_u16(b, 1);
	buf_put_u32(b, 60);
	buf_put_u16(b, (uint16_t)(strlen(name) + 2));
	while (*name) {
		size_t len = strcspn(name, ".");
		buf_put_u8(b, (uint8_t)len);
		buf_put(b, name, len);
		name += len + (name[len] == '.');
	}
	buf_put_u8(b, 0);
}

static void put_soa(struct buf *b, uint32_t serial)
{
	buf_put_u16(b, 0xc00c); /* the name of the question */
	buf_put_u16(b, 6);
	buf_put_u16(b, 1);
	buf_put_u32(b, 60);
	buf_put_u16(b, 2 + 20);
	buf_put_u8(b, 0); /* primary name server: the root */
	buf_put_u8(b, 0); /* mailbox of the administrator: the root */
	buf_put_u32(b, serial);
	for (int i = 0; i < 4; i++)
		buf_put_u32(b, 60);
}

/* "one.test" of the question. */
static void question_name(const uint8_t *query, char out[256])
{
	size_t at = 12, len = 0;

	while (query[at]) {
		memcpy(out + len, query + at + 1, query[at]);
		len += query[at];
		out[len++] = '.';
		at += query[at] + 1u;
	}
	out[len ? len - 1 : 0] = '\0';
}

static size_t question_len(const uint8_t *query, size_t len)
{
	size_t at = 12;

	while (at < len && query[at])
		at += query[at] + 1u;
	assert_true(at + 5 <= len);
	return at + 5 - 12;
}

static void build_answer(
    struct scene *s, const uint8_t *query, size_t len, struct buf *b)
{
	size_t question = question_len(query, len), count = 0;
	bool is_a = query[12 + question - 3] == 1;
	bool is_ptr = query[12 + question - 3] == 12;
	bool is_soa = query[12 + question - 3] == 6;
	bool is_unknown = is_ptr ? !s->name : s->is_unknown && !is_soa;
	char name[256];

	question_name(query, name);
	bool has_soa = is_soa && s->zone && strcmp(name, s->zone) == 0;
	if (is_soa)
		s->soa_count++;

	if (is_a)
		s->query_count++;
	while (is_a && !s->is_unknown && !s->is_empty && count < ANSWERS_MOST &&
	       s->answers[count])
		count++;
	buf_put(b, query, 2);
	buf_put_u16(b, is_unknown ? 0x8183 : 0x8180);
	buf_put_u16(b, 1);
	buf_put_u16(b, (uint16_t)(is_ptr ? !is_unknown : count + has_soa));
	buf_put_u32(b, 0);
	buf_put(b, query + 12, question);
	for (size_t i = 0; i < count; i++)
		put_answer(b, s->answers[i]);
	if (is_ptr && !is_unknown)
		put_name(b, s->name);
	if (has_soa)
		put_soa(b, s->serial);
}

static void server_readable(void *ctx, int fd)
{
	struct scene *s = ctx;
	struct sockaddr_in from;
	socklen_t from_len = sizeof(from);
	uint8_t query[512];
	struct buf b;
	ssize_t len =
	    recvfrom(fd, query, sizeof(query), 0, (struct sockaddr *)&from, &from_len);

	assert_true(len > 16);
	buf_init(&b, 512);
	build_answer(s, query, (size_t)len, &b);
	if (!s->is_silent)
		assert_int_equal(
		    sendto(fd, b.bytes, b.len, 0, (struct sockaddr *)&from, from_len),
		    b.len);
	buf_done(&b);
}

/* ---- the scene ---- */

static void guard_expired(struct deadline *d)
{
	(void)d;
	fail_msg("the loop did not stop in time");
}

static void stop_loop(struct later *l)
{
	loop_stop(container_of(l, struct scene, stop)->loop);
}

static void add_text(char *log, const char *text)
{
	size_t len = strlen(log);

	assert_true(len + strlen(text) + 1 < LOG_MOST);
	strcpy(log + len, text);
}

static void gone(void *ctx, const char *host, const struct sock_addr *addr)
{
	struct scene *s = ctx;
	char ip[SOCK_ADDR_TEXT];

	assert_false(s->in_call);
	add_text(s->gone, host);
	add_text(s->gone, "=");
	add_text(s->gone, sock_addr_ip(addr, ip));
	add_text(s->gone, " ");
}

static void zone_news(void *ctx, const struct dns_zone_news *news)
{
	struct scene *s = ctx;
	char text[128];

	assert_false(s->in_call);
	if (news->failure)
		snprintf(text, sizeof(text), "%s: %s;", news->zone, news->failure);
	else
		snprintf(text, sizeof(text), "%s %u>%u;", news->zone, news->old_serial,
		    news->serial);
	add_text(s->news, text);
}

static void start_server(struct scene *s)
{
	struct sockaddr_in in = {
	    .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(in);

	s->server = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->server, (struct sockaddr *)&in, len), 0);
	assert_int_equal(getsockname(s->server, (struct sockaddr *)&in, &len), 0);
	server_port = in.sin_port;
	s->watch = watch_new(s->loop, s->server, WATCH_READ, server_readable, s);
}

static int set_up(void **state)
{
	struct scene *s = mem_zero(sizeof(*s));
	char path[] = "/tmp/net-resolv-XXXXXX";
	const char text[] =
	    "nameserver 127.0.0.1\noptions retrans:300 retry:1 timeout:1 attempts:1\n";
	struct err err;
	int fd = mkstemp(path);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	mem_init(&s->mem);
	s->loop = loop_new(&s->mem, &err);
	s->dns = dns_new(s->loop, path, 3, &err);
	assert_non_null(s->dns);
	unlink(path);
	start_server(s);
	dns_configure(s->dns, 3600000000u, 3600000000u, 0);
	dns_on_change(s->dns, gone, s);
	dns_on_zone(s->dns, zone_news, s);
	deadline_init(&s->guard, guard_expired);
	deadline_set(s->loop, &s->guard, loop_now(s->loop) + 20000000);
	s->stop.run = stop_loop;
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *s = *state;

	dns_free(&s->dns);
	assert_null(s->dns);
	dns_free(&s->dns);
	watch_free(&s->watch);
	close(s->server);
	server_port = 0;
	deadline_clear(s->loop, &s->guard);
	later_cancel(s->loop, &s->stop);
	loop_free(&s->loop);
	mem_free(s);
	return 0;
}

static void done(
    void *ctx, const struct sock_addr *addrs, size_t count, const struct err *err)
{
	struct scene *s = ctx;
	char ip[SOCK_ADDR_TEXT];

	assert_false(s->in_call);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(addrs[i].port, 0);
		add_text(s->told, i ? "," : "");
		add_text(s->told, sock_addr_ip(&addrs[i], ip));
	}
	if (!count)
		add_text(s->told, err->text);
	add_text(s->told, ";");
	if (++s->done_count == s->wanted)
		loop_later(s->loop, &s->stop);
}

static struct dns_query *ask(struct scene *s, const char *host)
{
	s->in_call = true;
	struct dns_query *q = dns_lookup(s->dns, host, done, s);
	s->in_call = false;
	s->wanted++;
	return q;
}

static void ask_and_wait(struct scene *s, const char *host, const char *told)
{
	s->told[0] = '\0';
	ask(s, host);
	loop_run(s->loop);
	assert_string_equal(s->told, told);
}

static void test_cache_and_rotation(void **state)
{
	struct scene *s = *state;

	s->answers[0] = "127.0.0.5";
	ask_and_wait(s, "one.test", "127.0.0.5;");
	ask_and_wait(s, "one.test", "127.0.0.5;");
	assert_int_equal(s->query_count, 1);
	s->answers[1] = "127.0.0.6";
	s->answers[2] = "127.0.0.7";
	/* the resolver chooses the order of the answer */
	ask(s, "three.test");
	loop_run(s->loop);
	char *seen = strchr(s->told, '\0') - 30, ip[SOCK_ADDR_TEXT];
	assert_int_equal(seen[9], ',');
	for (int i = 0; i < 7; i++) {
		struct sock_addr addr = dns_turn(s->dns, "three.test");
		sock_addr_ip(&addr, ip);
		assert_int_equal(strncmp(seen + (3 + i) % 3 * 10, ip, 9), 0);
	}
	assert_int_equal(s->query_count, 2);
	assert_string_equal(s->gone, "");
}

static void expect_turn(struct scene *s, const struct sock_addr *addr)
{
	struct sock_addr found = dns_turn(s->dns, "two.test");

	assert_true(sock_addr_is_equal_ip(&found, addr));
}

static void ask_for_two(struct scene *s)
{
	s->answers[0] = "127.0.0.5";
	s->answers[1] = "127.0.0.6";
	ask(s, "two.test");
	loop_run(s->loop);
}

static void test_addresses_that_fail_lose_a_turn(void **state)
{
	struct scene *s = *state;
	struct sock_addr good, bad, other;

	ask_for_two(s);
	bad = dns_turn(s->dns, "two.test");
	good = dns_turn(s->dns, "two.test");
	/* two who connect by turns, of whom one would get the same address each time */
	for (int i = 0; i < 3; i++) {
		expect_turn(s, &bad);
		dns_avoid(s->dns, "two.test", &bad);
		dns_avoid(s->dns, "two.test", &bad);
		expect_turn(s, &good);
		expect_turn(s, &good);
	}
	expect_turn(s, &bad);
	dns_avoid(s->dns, "two.test", &bad);
	dns_avoid(s->dns, "two.test", &good);
	expect_turn(s, &good);
	/* neither a name nor an address that nobody knows does harm */
	sock_addr_parse("127.0.0.9", 0, &other);
	dns_avoid(s->dns, "two.test", &other);
	dns_avoid(s->dns, "unknown.test", &other);
	expect_turn(s, &bad);
}

static void test_threads_begin_at_different_addresses(void **state)
{
	struct scene *s = *state;
	char ip[SOCK_ADDR_TEXT];

	ask_for_two(s);
	struct sock_addr first = dns_turn(s->dns, "two.test");
	assert_int_equal(
	    strncmp(strchr(s->told, ',') + 1, sock_addr_ip(&first, ip), 9), 0);
}

static void test_one_query_for_many(void **state)
{
	struct scene *s = *state;

	s->answers[0] = "127.0.0.5";
	for (int i = 0; i < 5; i++)
		ask(s, "one.test");
	assert_int_equal(dns_pending_count(s->dns), 1);
	loop_run(s->loop);
	assert_int_equal(s->done_count, 5);
	assert_int_equal(s->query_count, 1);
	assert_int_equal(dns_pending_count(s->dns), 0);
	assert_int_equal(dns_host_count(s->dns), 1);
}

static void test_failures_are_remembered(void **state)
{
	struct scene *s = *state;

	s->is_unknown = true;
	ask_and_wait(s, "none.test", "result=4 (Domain name not found);");
	int query_count = s->query_count;
	s->is_unknown = false;
	s->answers[0] = "127.0.0.5";
	ask_and_wait(s, "none.test", "result=4 (Domain name not found);");
	assert_int_equal(s->query_count, query_count);
	/* Failures are not kept any more. */
	dns_configure(s->dns, 3600000000u, 0, 0);
	s->is_empty = true;
	ask_and_wait(
	    s, "empty.test", "result=1 (DNS server returned answer with no data);");
	s->is_empty = false;
	ask_and_wait(s, "empty.test", "127.0.0.5;");
}

static void test_silent_server(void **state)
{
	struct scene *s = *state;

	s->is_silent = true;
	ask_and_wait(
	    s, "slow.test", "result=12 (Timeout while contacting DNS servers);");
}

static void test_expiry_and_change(void **state)
{
	struct scene *s = *state;

	dns_configure(s->dns, 0, 0, 0);
	s->answers[0] = "127.0.0.5";
	s->answers[1] = "127.0.0.6";
	ask(s, "two.test");
	loop_run(s->loop);
	s->answers[0] = "127.0.0.7";
	s->answers[1] = "127.0.0.5";
	s->told[0] = '\0';
	ask(s, "two.test");
	loop_run(s->loop);
	assert_int_equal(s->query_count, 2);
	assert_string_equal(s->gone, "two.test=127.0.0.6 ");
	/* A failure is not a change; the next answer is compared to the last good
	 * one. */
	s->is_unknown = true;
	s->told[0] = '\0';
	ask_and_wait(s, "two.test", "result=4 (Domain name not found);");
	assert_string_equal(s->gone, "two.test=127.0.0.6 ");
	s->is_unknown = false;
	s->answers[1] = NULL;
	ask_and_wait(s, "two.test", "127.0.0.7;");
	assert_string_equal(s->gone, "two.test=127.0.0.6 two.test=127.0.0.5 ");
}

static void test_literals_and_localhost(void **state)
{
	struct scene *s = *state;

	ask_and_wait(s, "10.1.2.3", "10.1.2.3;");
	assert_int_equal(s->query_count, 0);
	ask_and_wait(s, "::1", "::1;");
	s->told[0] = '\0';
	ask(s, "localhost");
	loop_run(s->loop);
	assert_non_null(strstr(s->told, "127.0.0.1"));
	assert_int_equal(s->query_count, 0);
}

static void test_names_nobody_can_have(void **state)
{
	struct scene *s = *state;
	char name[1000];

	s->is_unknown = true;
	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	ask(s, name);
	loop_run(s->loop);
	ask(s, "");
	loop_run(s->loop);
	ask(s, "a..b");
	loop_run(s->loop);
	assert_int_equal(s->done_count, 3);
}

static void test_cancel(void **state)
{
	struct scene *s = *state;

	s->answers[0] = "127.0.0.5";
	struct dns_query *a = ask(s, "one.test"), *b = ask(s, "one.test");
	dns_cancel(&a);
	assert_null(a);
	dns_cancel(&a);
	s->wanted--;
	(void)b;
	loop_run(s->loop);
	assert_string_equal(s->told, "127.0.0.5;");
	/* The answer of a query that no caller waits for is kept all the same. */
	struct dns_query *c = ask(s, "two.test");
	dns_cancel(&c);
	s->wanted--;
	while (dns_pending_count(s->dns)) {
		loop_later(s->loop, &s->stop);
		loop_run(s->loop);
	}
	ask_and_wait(s, "two.test", "127.0.0.5;");
	assert_int_equal(s->query_count, 2);
}

static void test_freed_while_asking(void **state)
{
	struct scene *s = *state;

	s->is_silent = true;
	ask(s, "one.test");
	ask(s, "two.test");
	loop_later(s->loop, &s->stop);
	loop_run(s->loop);
	ask(s, "10.1.2.3");
	dns_free(&s->dns);
	loop_later(s->loop, &s->stop);
	loop_run(s->loop);
	assert_int_equal(s->done_count, 0);
}

/* ---- names of addresses ---- */

static void named(void *ctx, const char *name, const struct err *err)
{
	struct scene *s = ctx;

	assert_false(s->in_call);
	assert_int_equal(name == NULL, err != NULL);
	add_text(s->told, name ? name : err->text);
	add_text(s->told, ";");
	if (++s->done_count == s->wanted)
		loop_later(s->loop, &s->stop);
}

static struct dns_reverse *ask_name(struct scene *s, const char *ip)
{
	struct sock_addr addr;

	assert_int_equal(sock_addr_parse(ip, 0, &addr), 0);
	s->in_call = true;
	struct dns_reverse *r = dns_reverse(s->dns, &addr, named, s);
	s->in_call = false;
	s->wanted++;
	return r;
}

static void expect_name(struct scene *s, const char *ip, const char *told)
{
	s->told[0] = '\0';
	ask_name(s, ip);
	assert_int_equal(dns_pending_count(s->dns), 1);
	loop_run(s->loop);
	assert_string_equal(s->told, told);
	assert_int_equal(dns_pending_count(s->dns), 0);
}

static void test_verified_names(void **state)
{
	struct scene *s = *state;

	s->name = "peer.test";
	s->answers[0] = "192.0.2.4";
	s->answers[1] = "192.0.2.5";
	expect_name(s, "192.0.2.5", "peer.test;");
	assert_int_equal(s->query_count, 1);
	/* The name is asked each time; a name that a peer chose is not cached. */
	expect_name(s, "192.0.2.5", "peer.test;");
	assert_int_equal(s->query_count, 2);
	assert_int_equal(dns_host_count(s->dns), 0);
	/* The name belongs to another address. */
	expect_name(s, "192.0.2.6", "name \"peer.test\" has other addresses;");
	expect_name(s, "2001:db8::1", "name \"peer.test\" has other addresses;");
	s->is_unknown = true;
	expect_name(s, "192.0.2.5",
	    "name \"peer.test\" has no address: Domain name not found;");
	/* An address as a name is refused, because it would verify itself. */
	s->name = "192.0.2.5";
	expect_name(s, "192.0.2.5", "name \"192.0.2.5\" is an address;");
	s->name = NULL;
	expect_name(s, "192.0.2.5", "no name: Domain name not found;");
	expect_name(s, "2001:db8::1", "no name: Domain name not found;");
	assert_string_equal(s->gone, "");
}

static void test_names_without_server(void **state)
{
	struct scene *s = *state;

	s->is_silent = true;
	ask_name(s, "192.0.2.5");
	loop_run(s->loop);
	/* The text depends on the version of the library. */
	assert_memory_equal(s->told, "no name: ", 9);
}

static void test_names_cancelled(void **state)
{
	struct scene *s = *state;

	s->name = "peer.test";
	s->answers[0] = "192.0.2.5";
	struct dns_reverse *a = ask_name(s, "192.0.2.5");
	ask_name(s, "192.0.2.5");
	dns_reverse_cancel(&a);
	assert_null(a);
	dns_reverse_cancel(&a);
	s->wanted--;
	loop_run(s->loop);
	assert_string_equal(s->told, "peer.test;");
	while (dns_pending_count(s->dns)) {
		loop_later(s->loop, &s->stop);
		loop_run(s->loop);
	}
	/* The request is freed while it is sent and while the answer is on its way. */
	s->is_silent = true;
	ask_name(s, "192.0.2.5");
	struct dns_reverse *b = ask_name(s, "192.0.2.6");
	loop_later(s->loop, &s->stop);
	loop_run(s->loop);
	dns_reverse_cancel(&b);
	dns_free(&s->dns);
	loop_later(s->loop, &s->stop);
	loop_run(s->loop);
	assert_string_equal(s->told, "peer.test;");
}

static void view(void *ctx, const struct dns_host_view *h)
{
	struct scene *s = ctx;
	char line[64];

	snprintf(line, sizeof(line), "%s:%zu:%d ", h->name, h->addr_count,
	    h->ttl_us > 3500000000u);
	add_text(s->gone, line);
}

static void test_walk(void **state)
{
	struct scene *s = *state;

	s->answers[0] = "127.0.0.5";
	s->answers[1] = "127.0.0.6";
	ask(s, "c.test");
	ask(s, "a.test");
	loop_run(s->loop);
	dns_walk(s->dns, view, s);
	assert_string_equal(s->gone, "a.test:2:1 c.test:2:1 ");
	/* Changed cache times apply at once, also to cached names. */
	dns_configure(s->dns, 0, 0, 0);
	s->is_unknown = true;
	ask(s, "b.test");
	loop_run(s->loop);
	s->gone[0] = '\0';
	dns_walk(s->dns, view, s);
	assert_string_equal(s->gone, "a.test:2:0 b.test:0:0 c.test:2:0 ");
	assert_int_equal(dns_host_count(s->dns), 3);
	assert_memory_equal(dns_library_version(), "c-ares 1.", 9);
}

/* ---- zones ---- */

enum { CHECK_US = 20000 };

static void clock_rings(struct deadline *d)
{
	loop_stop(container_of(d, struct scene, clock)->loop);
}

/* Runs the loop until it is stopped, or for this long. */
static void loop_for(struct scene *s, uint64_t us)
{
	deadline_init(&s->clock, clock_rings);
	deadline_set(s->loop, &s->clock, loop_now(s->loop) + us);
	loop_run(s->loop);
	deadline_clear(s->loop, &s->clock);
}

/* Runs the loop until the name server got this many more SOA queries. */
static void await_soa(struct scene *s, int count)
{
	for (int wanted = s->soa_count + count;
	     s->soa_count < wanted || dns_pending_count(s->dns);)
		loop_for(s, 1000);
}

static void zone_view(void *ctx, const struct dns_zone_view *zone)
{
	struct scene *s = ctx;
	char line[64];

	snprintf(line, sizeof(line), "%s:%u:%zu ", zone->name, zone->serial,
	    zone->host_count);
	add_text(s->told, line);
}

static void expect_zones(struct scene *s, const char *expected)
{
	s->told[0] = '\0';
	dns_walk_zones(s->dns, zone_view, s);
	assert_string_equal(s->told, expected);
}

static void test_zone_grows(void **state)
{
	struct scene *s = *state;

	s->zone = "a.test";
	s->serial = UINT32_MAX;
	s->answers[0] = "127.0.0.5";
	dns_configure(s->dns, 3600000000u, 3600000000u, CHECK_US);
	ask_and_wait(s, "x.a.test", "127.0.0.5;");
	ask_and_wait(s, "y.a.test", "127.0.0.5;");
	ask_and_wait(s, "10.1.2.3", "10.1.2.3;");
	await_soa(s, 2);
	expect_zones(s, "a.test:4294967295:2 ");
	assert_int_equal(s->query_count, 2);
	/* The serial wraps around, and the addresses change. */
	s->serial = 1;
	s->answers[0] = "127.0.0.6";
	await_soa(s, 2);
	assert_string_equal(s->news, "a.test 4294967295>1;");
	assert_string_equal(s->gone, "x.a.test=127.0.0.5 y.a.test=127.0.0.5 ");
	assert_int_equal(s->query_count, 4);
	ask_and_wait(s, "x.a.test", "127.0.0.6;");
	/* A server with an older serial reports no change. */
	s->serial = UINT32_MAX;
	await_soa(s, 2);
	s->serial = 1;
	await_soa(s, 2);
	assert_int_equal(s->query_count, 4);
	expect_zones(s, "a.test:1:2 ");
	/* Names that cannot be resolved now are used as long as they may be. */
	s->serial = 2;
	s->is_unknown = true;
	await_soa(s, 2);
	ask_and_wait(s, "x.a.test", "127.0.0.6;");
	assert_string_equal(s->news, "a.test 4294967295>1;a.test 1>2;");
}

static void test_zone_above(void **state)
{
	struct scene *s = *state;

	s->zone = "a.test";
	s->serial = 7;
	s->answers[0] = "127.0.0.5";
	dns_configure(s->dns, 3600000000u, 3600000000u, CHECK_US);
	ask_and_wait(s, "x.deep.in.a.test", "127.0.0.5;");
	await_soa(s, 3);
	expect_zones(s, "deep.in.a.test:7:1 ");
	/* From then on only the zone that has a serial is asked. */
	s->serial = 8;
	await_soa(s, 1);
	await_soa(s, 1);
	assert_string_equal(s->news, "deep.in.a.test 7>8;");
	assert_int_equal(s->query_count, 2);
}

static void test_zone_without_serial(void **state)
{
	struct scene *s = *state;

	s->answers[0] = "127.0.0.5";
	dns_configure(s->dns, 3600000000u, 3600000000u, CHECK_US);
	ask_and_wait(s, "x.b.test", "127.0.0.5;");
	/* The resolver does not ask the top level domain. */
	await_soa(s, 3);
	assert_string_equal(
	    s->news, "b.test: DNS server returned answer with no data;");
	/* The zone appears later, and its next failure is reported again. */
	s->zone = "b.test";
	s->serial = 3;
	await_soa(s, 2);
	expect_zones(s, "b.test:3:1 ");
	s->zone = NULL;
	await_soa(s, 2);
	assert_string_equal(s->news,
	    "b.test: DNS server returned answer with no data;"
	    "b.test: DNS server returned answer with no data;");
	/* The zone is not asked any more. */
	dns_configure(s->dns, 3600000000u, 3600000000u, 0);
	int count = s->soa_count;
	for (int i = 0; i < 5; i++)
		loop_for(s, CHECK_US);
	assert_int_equal(s->soa_count, count);
	assert_int_equal(s->query_count, 1);
}

/* A server that does not answer has one query at a time, and names stay as they are. */
static void test_zone_of_a_silent_server(void **state)
{
	struct scene *s = *state;

	s->answers[0] = "127.0.0.5";
	ask_and_wait(s, "x.c.test", "127.0.0.5;");
	assert_int_equal(s->soa_count, 0);
	expect_zones(s, "c.test:0:1 ");
	s->is_silent = true;
	dns_configure(s->dns, 3600000000u, 3600000000u, CHECK_US / 10);
	loop_for(s, CHECK_US);
	assert_int_equal(dns_pending_count(s->dns), 1);
	ask_and_wait(s, "x.c.test", "127.0.0.5;");
	while (!s->news[0])
		loop_for(s, 1000);
	assert_string_equal(s->news, "c.test: Timeout while contacting DNS servers;");
	/* The resolver is freed while it asks for a serial. */
	dns_free(&s->dns);
}

#define SCENE_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    SCENE_TEST(test_cache_and_rotation),
	    SCENE_TEST(test_addresses_that_fail_lose_a_turn),
	    SCENE_TEST(test_threads_begin_at_different_addresses),
	    SCENE_TEST(test_one_query_for_many),
	    SCENE_TEST(test_failures_are_remembered),
	    SCENE_TEST(test_silent_server),
	    SCENE_TEST(test_expiry_and_change),
	    SCENE_TEST(test_literals_and_localhost),
	    SCENE_TEST(test_names_nobody_can_have),
	    SCENE_TEST(test_cancel),
	    SCENE_TEST(test_freed_while_asking),
	    SCENE_TEST(test_verified_names),
	    SCENE_TEST(test_names_without_server),
	    SCENE_TEST(test_names_cancelled),
	    SCENE_TEST(test_walk),
	    SCENE_TEST(test_zone_grows),
	    SCENE_TEST(test_zone_above),
	    SCENE_TEST(test_zone_without_serial),
	    SCENE_TEST(test_zone_of_a_silent_server),
	};

	return cmocka_run_group_tests_name("dns", tests, NULL, NULL);
}
