/*
 * A load of many PostgreSQL clients that uses little CPU time, for a server on this
 * machine with trust authentication. All clients log in, then they send requests:
 *
 *   - --active requests at a time; after each answer the client that was idle longest
 *     sends the next request, so that all clients take turns; or
 *   - --rate requests per second at random moments, whether earlier ones have been
 *     answered or not. The latency then counts from the moment at which a request was
 *     due.
 *
 * With --every N only one client in N sends requests, and the others are idle: a pooler
 * that gives new clients to its threads in turns has all the load on one thread.
 *
 * Prints one line of JSON. `load --help` lists the options.
 */
#include <getopt.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/un.h>

#include "tool.h"

#define MOST_CLIENTS   1000000
#define MOST_GROUPS    64L
#define LOGINS_AT_ONCE 64L
#define EVENTS         512
#define INPUT          (256 << 10)
/* Each power of two has 64 buckets, so a bucket spans at most 1.6 %. */
#define STEPS     64
#define STEP_BITS 6
#define BUCKETS   ((64 - STEP_BITS + 1) * STEPS)

enum kind {
	KIND_SIMPLE,
	KIND_EXTENDED,
	KIND_PREPARED,
};

struct options {
	const char *unix_dir, *user, *database, *query;
	enum kind kind;
	long port, clients, active, depth, rate, threads, groups;
	double seconds, warm, shift;
	pid_t watched, server;
	int is_reconnecting, is_holding, is_visiting;
};

enum state {
	STATE_LOGIN,
	STATE_PREPARING,
	STATE_REST,
	STATE_BUSY,
};

struct client {
	int fd;
	enum state state;
	unsigned owed; /* the number of ReadyForQuery still to come */
	long number;
	uint64_t due;
	struct cutter cutter;
	struct client *next; /* in the queue of idle clients */
};

/* Idle clients, of which the first has been idle for longest. */
struct rest {
	struct client *first, *last;
};

struct counts {
	uint64_t requests, early, buckets[BUCKETS], most, sum;
};

/* The CPU time that a process has used so far, in microseconds. */
struct cpu {
	double all, user, system;
};

struct worker {
	const struct options *options;
	pthread_t thread;
	pthread_barrier_t *all_open;
	int poll;
	struct client *clients;
	long count, opened, ready, busy;
	struct rest rests[MOST_GROUPS];
	long group; /* of the clients that send requests now */
	struct bytes preparation, request;
	unsigned request_owed;
	uint64_t next_due, next_shift, begin, end, random;
	int is_counting, is_over;
	double gap; /* nanoseconds from one request to the next, on average */
	struct cpu cpu_begin, cpu_end, own_begin, own_end, server_begin, server_end;
	uint8_t *input;
	struct counts counts;
};

static volatile sig_atomic_t is_asked_to_end;

static struct cpu cpu_of(pid_t pid)
{
	struct cpu found = {0};
	struct timespec t;
	unsigned long user, system;
	char path[64], text[1024];

	/* The id of the other process's CPU clock, see clock_getcpuclockid(3). */
	if (clock_gettime((clockid_t)(~(unsigned)pid << 3 | 2), &t) < 0)
		die("process %d is gone", (int)pid);
	found.all = (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *f = fopen(path, "r");
	size_t len = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
	if (f)
		fclose(f);
	text[len] = 0;
	const char *name_end = strrchr(text, ')');
	if (name_end &&
	    sscanf(name_end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
		&user, &system) == 2) {
		double tick = 1e6 / (double)sysconf(_SC_CLK_TCK);
		found.user = (double)user * tick;
		found.system = (double)system * tick;
	}
	return found;
}

/* ---------------------------------------------------------------- histogram */

static unsigned bucket_of(uint64_t ns)
{
	if (ns < STEPS)
		return (unsigned)ns;
	unsigned high = 63 - (unsigned)__builtin_clzll(ns);
	unsigned step = (unsigned)(ns >> (high - STEP_BITS)) & (STEPS - 1);
	return (high - STEP_BITS + 1) * STEPS + step;
}

/* Returns the middle of the values in a bucket. */
static double bucket_ns(unsigned bucket)
{
	if (bucket < STEPS)
		return bucket;
	unsigned shift = bucket / STEPS - 1;
	return ldexp(STEPS + bucket % STEPS + 0.5, (int)shift);
}

static void count_one(struct counts *c, uint64_t ns)
{
	c->requests++;
	c->sum += ns;
	c->buckets[bucket_of(ns)]++;
	if (ns > c->most)
		c->most = ns;
}

static void add_counts(struct counts *to, const struct counts *c)
{
	to->requests += c->requests;
	to->early += c->early;
	to->sum += c->sum;
	if (c->most > to->most)
		to->most = c->most;
	for (unsigned i = 0; i < BUCKETS; i++)
		to->buckets[i] += c->buckets[i];
}

/* Returns milliseconds. */
static double percentile(const struct counts *c, double percent)
{
	uint64_t wanted = (uint64_t)((double)c->requests * percent / 100), seen = 0;

	for (unsigned i = 0; i < BUCKETS; i++) {
		seen += c->buckets[i];
		if (seen > wanted)
			return bucket_ns(i) / 1e6;
	}
	return (double)c->most / 1e6;
}

/* ----------------------------------------------------------- what is sent */

static void put_parse(struct bytes *b, const char *name, const char *query)
{
	size_t at = message_begin(b, 'P');

	bytes_put_text(b, name);
	bytes_put_text(b, query);
	bytes_put_u16(b, 0);
	message_end(b, at);
}

static void put_execution(struct bytes *b, const char *name)
{
	size_t at = message_begin(b, 'B');

	bytes_put_text(b, "");
	bytes_put_text(b, name);
	bytes_put(b, "\0\0\0\0\0", 6);
	message_end(b, at);
	at = message_begin(b, 'D');
	bytes_put_text(b, "P");
	message_end(b, at);
	at = message_begin(b, 'E');
	bytes_put_text(b, "");
	bytes_put_u32(b, 0);
	message_end(b, at);
}

static void put_empty(struct bytes *b, char type)
{
	message_end(b, message_begin(b, type));
}

static void put_simple(struct bytes *b, const char *query)
{
	size_t at = message_begin(b, 'Q');

	bytes_put_text(b, query);
	message_end(b, at);
}

/* Makes what each client sends for a request, and before its first request. */
static void make_request(struct worker *w)
{
	const struct options *o = w->options;

	w->request_owed = 1;
	for (long i = 0; i < o->depth; i++) {
		if (o->kind == KIND_SIMPLE)
			put_simple(&w->request, o->query);
		else if (o->kind == KIND_EXTENDED)
			put_parse(&w->request, "", o->query);
		if (o->kind != KIND_SIMPLE)
			put_execution(
			    &w->request, o->kind == KIND_PREPARED ? "load" : "");
	}
	if (o->kind == KIND_SIMPLE)
		w->request_owed = (unsigned)o->depth;
	else
		put_empty(&w->request, 'S');
	if (o->kind != KIND_PREPARED)
		return;
	put_parse(&w->preparation, "load", o->query);
	put_empty(&w->preparation, 'S');
}

/* Returns the name, with the number of the client in place of a %. */
static void put_name(struct bytes *b, const char *name, long number)
{
	char text[256];
	const char *mark = strchr(name, '%');

	if (!mark) {
		bytes_put_text(b, name);
		return;
	}
	snprintf(text, sizeof(text), "%.*s%ld%s", (int)(mark - name), name, number,
	    mark + 1);
	bytes_put_text(b, text);
}

static void put_startup(struct bytes *b, const struct options *o, long number)
{
	bytes_put_u32(b, 0);
	bytes_put_u32(b, 196608);
	bytes_put_text(b, "user");
	put_name(b, o->user, number);
	bytes_put_text(b, "database");
	put_name(b, o->database, number);
	bytes_put_text(b, "");
	message_end(b, 0);
}

static void send_all(struct client *c, const struct bytes *b)
{
	size_t sent = 0;

	while (sent < b->len) {
		ssize_t n = send(c->fd, b->p + sent, b->len - sent, MSG_NOSIGNAL);
		struct pollfd writable = {.fd = c->fd, .events = POLLOUT};

		if (n >= 0)
			sent += (size_t)n;
		else if (errno == EAGAIN)
			poll(&writable, 1, -1);
		else
			die_of("cannot send");
	}
}

/* --------------------------------------------------------------- connections */

static int connect_unix(const struct options *o)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(
	    a.sun_path, sizeof(a.sun_path), "%s/.s.PGSQL.%ld", o->unix_dir, o->port);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	return -1;
}

static void open_client(struct worker *w, struct client *c)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
	struct bytes startup = {0};

	c->fd = w->options->unix_dir ? connect_unix(w->options)
				     : connect_to(w->options->port);
	if (c->fd < 0)
		die_of("cannot connect");
	set_nonblocking(c->fd);
	if (epoll_ctl(w->poll, EPOLL_CTL_ADD, c->fd, &event) < 0)
		die_of("epoll_ctl");
	put_startup(&startup, w->options, c->number);
	c->state = STATE_LOGIN;
	c->owed = 1;
	memset(&c->cutter, 0, sizeof(c->cutter));
	send_all(c, &startup);
	free(startup.p);
}

static void open_more(struct worker *w)
{
	while (w->opened < w->count && w->opened - w->ready < LOGINS_AT_ONCE)
		open_client(w, &w->clients[w->opened++]);
}

static void close_client(struct client *c)
{
	static const uint8_t leave[] = {'X', 0, 0, 0, 4};

	(void)!send(c->fd, leave, sizeof(leave), MSG_NOSIGNAL);
	close(c->fd);
}

/* ----------------------------------------------------------------- requests */

static void put_to_rest(struct worker *w, struct client *c)
{
	struct rest *rest = &w->rests[c->number % w->options->groups];

	c->state = STATE_REST;
	c->next = NULL;
	if (rest->last)
		rest->last->next = c;
	else
		rest->first = c;
	rest->last = c;
}

static void ask(struct worker *w, struct client *c, uint64_t due)
{
	c->state = STATE_BUSY;
	c->due = due;
	c->owed = w->request_owed;
	w->busy++;
	send_all(c, &w->request);
}

static void wake_one(struct worker *w, uint64_t due)
{
	struct rest *rest = &w->rests[w->group];
	struct client *c = rest->first;

	rest->first = c->next;
	if (!c->next)
		rest->last = NULL;
	if (!w->options->is_reconnecting) {
		ask(w, c, due);
		return;
	}
	c->due = due;
	w->busy++;
	open_client(w, c);
}

/* Requests are due at random moments, like those of independent clients. */
static uint64_t next_gap(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	double part = (double)((w->random >> 11) + 1) / (double)(1ULL << 53);
	return (uint64_t)(-log(part) * w->gap);
}

/* With --shift the next group of clients sends requests from now on. */
static void shift_group(struct worker *w, uint64_t now)
{
	if (w->options->shift <= 0 || now < w->next_shift)
		return;
	if (w->next_shift)
		w->group = (w->group + 1) % w->options->groups;
	w->next_shift = now + (uint64_t)(w->options->shift * (double)NS);
}

/* Returns the nanoseconds until the next request; 0 means not to wait for one. */
static uint64_t make_requests(struct worker *w)
{
	uint64_t now = now_ns();
	const struct rest *rest;

	shift_group(w, now);
	rest = &w->rests[w->group];
	if (!w->options->rate) {
		long active = w->options->active / w->options->threads;
		while (rest->first && w->busy < (active ? active : 1))
			wake_one(w, now);
		return 0;
	}
	while (rest->first && w->next_due <= now) {
		wake_one(w, w->next_due);
		w->next_due += next_gap(w);
	}
	return rest->first && w->next_due > now ? w->next_due - now : 0;
}

static void request_is_over(struct worker *w, struct client *c)
{
	uint64_t now = now_ns();

	w->busy--;
	if (w->is_counting)
		count_one(&w->counts, now > c->due ? now - c->due : 0);
	else
		w->counts.early++;
	if (w->options->is_reconnecting || w->options->is_visiting)
		close_client(c);
	put_to_rest(w, c);
}

static void prepare(struct worker *w, struct client *c)
{
	c->state = STATE_PREPARING;
	c->owed = 1;
	send_all(c, &w->preparation);
}

static void login_is_over(struct worker *w, struct client *c)
{
	if (w->ready == w->count) { /* this request needs a new connection */
		w->busy--;
		ask(w, c, c->due);
		return;
	}
	if (w->options->is_holding || w->options->is_visiting) { /* one query each */
		ask(w, c, now_ns());
		return;
	}
	w->ready++;
	if (w->options->is_reconnecting)
		close_client(c);
	put_to_rest(w, c);
}

/* The fields of an ErrorResponse end with zero bytes. */
static __attribute__((noreturn)) void die_of_error(
    const struct worker *w, const struct client *c, const uint8_t *end)
{
	uint32_t len;
	char text[400];

	memcpy(&len, c->cutter.head + 1, sizeof(len));
	len = ntohl(len) - 4;
	if (len > (size_t)(end - w->input))
		len = (uint32_t)(end - w->input);
	if (len >= sizeof(text))
		len = sizeof(text) - 1;
	for (uint32_t i = 0; i < len; i++)
		text[i] =
		    (char)(end[i - (ptrdiff_t)len] ? end[i - (ptrdiff_t)len] : ' ');
	text[len] = 0;
	die("client %ld was told an error: %s", c->number, text);
}

static void answer_is_over(struct worker *w, struct client *c)
{
	if (c->state == STATE_LOGIN && w->preparation.len) {
		prepare(w, c);
	} else if (c->state != STATE_BUSY) {
		login_is_over(w, c);
	} else {
		if (w->ready < w->count) /* the first request, during the logins */
			w->ready++;
		request_is_over(w, c);
	}
}

static void take_message(struct worker *w, struct client *c, const uint8_t *end)
{
	uint8_t type = c->cutter.head[0];
	const uint8_t *start = c->cutter.start;

	if (type == 'E')
		die_of_error(w, c, end);
	if (type == 'R' && memcmp(start, "\0\0\0\0", 4) != 0)
		die("the server asks for a proof (method %d); only trust will do",
		    start[3]);
	if (type == 'Z' && --c->owed == 0)
		answer_is_over(w, c);
}

static void receive(struct worker *w, struct client *c)
{
	ssize_t n = recv(c->fd, w->input, INPUT, 0);
	const uint8_t *p = w->input;

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		die("client %ld was disconnected in state %d", c->number, c->state);
	for (const uint8_t *end = p + n; p < end;)
		if (cutter_take(&c->cutter, &p, end))
			take_message(w, c, p);
}

/* ------------------------------------------------------------------- a worker */

static void wait_for_events(struct worker *w, uint64_t most_ns)
{
	struct epoll_event events[EVENTS];
	struct timespec limit = {
	    .tv_sec = (time_t)(most_ns / NS), .tv_nsec = (long)(most_ns % NS)};
	int n = epoll_pwait2(w->poll, events, EVENTS, &limit, NULL);

	if (n < 0 && errno != EINTR)
		die_of("epoll_pwait2");
	for (int i = 0; i < n; i++)
		receive(w, events[i].data.ptr);
}

static void begin_counting(struct worker *w)
{
	w->is_counting = 1;
	w->own_begin = cpu_of(getpid());
	if (w->options->watched)
		w->cpu_begin = cpu_of(w->options->watched);
	if (w->options->server)
		w->server_begin = cpu_of(w->options->server);
}

static void end_counting(struct worker *w)
{
	if (w->options->watched)
		w->cpu_end = cpu_of(w->options->watched);
	if (w->options->server)
		w->server_end = cpu_of(w->options->server);
	w->own_end = cpu_of(getpid());
	w->end = now_ns();
	w->is_over = 1;
}

static void make_load(struct worker *w)
{
	uint64_t now = now_ns();
	uint64_t begin = now + (uint64_t)(w->options->warm * (double)NS);
	uint64_t end = begin + (uint64_t)(w->options->seconds * (double)NS);

	w->next_due = now;
	while (!w->is_over) {
		uint64_t pause = make_requests(w), limit;

		now = now_ns();
		if (!w->is_counting && now >= begin) {
			w->begin = now;
			begin_counting(w);
		}
		if (now >= end && w->counts.requests) {
			end_counting(w);
			break;
		}
		limit = w->is_counting ? end : begin;
		limit = limit > now ? limit - now : NS;
		wait_for_events(w, pause && pause < limit ? pause : limit);
	}
}

static void *run_worker(void *argument)
{
	struct worker *w = argument;

	prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
	open_more(w);
	while (w->ready < w->count) {
		wait_for_events(w, NS);
		open_more(w);
	}
	pthread_barrier_wait(w->all_open);
	if (!w->options->is_holding && !w->options->is_visiting)
		make_load(w);
	return NULL;
}

static void start_worker(
    struct worker *w, const struct options *o, pthread_barrier_t *barrier, long index)
{
	w->options = o;
	w->all_open = barrier;
	w->count = o->clients / o->threads + (index < o->clients % o->threads);
	w->clients = need((size_t)w->count, sizeof(*w->clients));
	w->input = need(1, INPUT);
	w->random = 88172645463325252ULL + (uint64_t)index * 7919;
	w->gap = o->rate ? (double)NS * (double)o->threads / (double)o->rate : 0;
	w->poll = epoll_create1(EPOLL_CLOEXEC);
	if (w->poll < 0)
		die_of("epoll_create1");
	for (long i = 0; i < w->count; i++)
		w->clients[i].number = index + i * o->threads;
	make_request(w);
	if (pthread_create(&w->thread, NULL, run_worker, w))
		die("cannot start a thread");
}

/* ---------------------------------------------------------------- the program */

static void print_cpu(const struct worker *w, double requests)
{
	const struct cpu *a = &w->cpu_begin, *b = &w->cpu_end;

	printf(", \"cpu\": %.3f, \"user\": %.3f, \"system\": %.3f",
	    (b->all - a->all) / requests, (b->user - a->user) / requests,
	    (b->system - a->system) / requests);
}

static void print_result(const struct options *o, const struct worker *workers)
{
	static struct counts all;
	const struct worker *w = &workers[0];
	double seconds = (double)(w->end - w->begin) / (double)NS;

	for (long i = 0; i < o->threads; i++)
		add_counts(&all, &workers[i].counts);
	printf("{\"transactions\": %llu, \"tps\": %.1f, \"seconds\": %.3f, "
	       "\"mean\": %.5f, \"p50\": %.5f, \"p99\": %.5f, \"p99.9\": %.5f, "
	       "\"max\": %.5f, \"early\": %llu, \"load_cpu\": %.3f",
	    (unsigned long long)all.requests, (double)all.requests / seconds, seconds,
	    (double)all.sum / (double)all.requests / 1e6, percentile(&all, 50),
	    percentile(&all, 99), percentile(&all, 99.9), (double)all.most / 1e6,
	    (unsigned long long)all.early,
	    (w->own_end.all - w->own_begin.all) / (double)all.requests);
	if (o->watched)
		print_cpu(w, (double)all.requests);
	if (o->server)
		printf(", \"server_cpu\": %.3f",
		    (w->server_end.all - w->server_begin.all) / (double)all.requests);
	printf("}\n");
}

static void end_is_asked(int signo)
{
	(void)signo;
	is_asked_to_end = 1;
}

/* Keeps all clients idle until standard input ends or a signal arrives. */
static void hold(void)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};
	char c;

	printf("ready\n");
	fflush(stdout);
	while (!is_asked_to_end)
		if (poll(&input, 1, -1) > 0 && read(0, &c, 1) <= 0)
			return;
}

static int is_connected(const struct options *o, const struct client *c)
{
	return !o->is_visiting && !(o->is_reconnecting && c->state == STATE_REST);
}

static void free_worker(struct worker *w)
{
	for (long i = 0; i < w->count; i++)
		if (is_connected(w->options, &w->clients[i]))
			close_client(&w->clients[i]);
	close(w->poll);
	free(w->clients);
	free(w->input);
	free(w->preparation.p);
	free(w->request.p);
}

static void run(const struct options *o)
{
	struct worker *workers = need((size_t)o->threads, sizeof(*workers));
	pthread_barrier_t barrier;

	pthread_barrier_init(&barrier, NULL, (unsigned)o->threads);
	for (long i = 0; i < o->threads; i++)
		start_worker(&workers[i], o, &barrier, i);
	for (long i = 0; i < o->threads; i++)
		pthread_join(workers[i].thread, NULL);
	if (o->is_holding)
		hold();
	else if (!o->is_visiting)
		print_result(o, workers);
	for (long i = 0; i < o->threads; i++)
		free_worker(&workers[i]);
	free(workers);
}

static const char usage[] =
    "usage: load --port N [OPTION VALUE]...\n"
    "  --unix DIR        the folder of the unix socket; else 127.0.0.1\n"
    "  --user NAME       a % stands for the number of the client (bench)\n"
    "  --database NAME   likewise (bench)\n"
    "  --query TEXT      what is asked (select 1)\n"
    "  --kind K          simple, extended (Parse, Bind, Describe, Execute) or "
    "prepared\n"
    "                    (Parse once, then Bind, Describe, Execute) (simple)\n"
    "  --depth N         so many queries per request, with one Sync (1)\n"
    "  --clients N       (32)\n"
    "  --active N        requests under way at once (all clients)\n"
    "  --rate N          requests per second, instead of --active\n"
    "  --every N         only each Nth client sends requests (1)\n"
    "  --shift S         after S seconds the clients next to them do so instead, and "
    "so on\n"
    "  --seconds S       length of the load that counts (3)\n"
    "  --warm S          length of the load before it (0.3)\n"
    "  --threads N       the clients and the rate are divided among them (1)\n"
    "  --watch PID       tell the CPU time of this process per request, in "
    "microseconds\n"
    "  --watch-server PID  likewise, of the process behind it\n"
    "  --reconnect       a new connection for each request\n"
    "  --hold            all log in, ask once and stay until standard input ends;\n"
    "                    `ready` is printed when they are there\n"
    "  --visit           each client logs in, asks once and leaves; that is all\n"
    "Latencies are in milliseconds, with --rate from the moment a request was due.\n"
    "Logins must need no proof.\n";

static double seconds_of(const char *text)
{
	char *end;
	double s = strtod(text, &end);

	if (end == text || *end || !(s >= 0 && s <= 86400))
		die("%s: wanted seconds", text);
	return s;
}

static enum kind kind_of(const char *text)
{
	static const char *const names[] = {"simple", "extended", "prepared"};

	for (unsigned i = 0; i < 3; i++)
		if (strcmp(names[i], text) == 0)
			return (enum kind)i;
	die("%s: wanted simple, extended or prepared", text);
}

static void set_option(struct options *o, int c, const char *value)
{
	switch (c) {
	case 'p':
		o->port = number_of(value, 1, 65535);
		break;
	case 'x':
		o->unix_dir = value;
		break;
	case 'u':
		o->user = value;
		break;
	case 'd':
		o->database = value;
		break;
	case 'q':
		o->query = value;
		break;
	case 'k':
		o->kind = kind_of(value);
		break;
	case 'D':
		o->depth = number_of(value, 1, 10000);
		break;
	case 'c':
		o->clients = number_of(value, 1, MOST_CLIENTS);
		break;
	case 'a':
		o->active = number_of(value, 1, MOST_CLIENTS);
		break;
	case 'r':
		o->rate = number_of(value, 1, 100000000);
		break;
	case 's':
		o->seconds = seconds_of(value);
		break;
	case 'w':
		o->warm = seconds_of(value);
		break;
	case 't':
		o->threads = number_of(value, 1, 256);
		break;
	case 'P':
		o->watched = (pid_t)number_of(value, 1, 1 << 30);
		break;
	case 'e':
		o->groups = number_of(value, 1, MOST_GROUPS);
		break;
	case 'S':
		o->shift = seconds_of(value);
		break;
	case 'B':
		o->server = (pid_t)number_of(value, 1, 1 << 30);
		break;
	case 'C':
		o->is_reconnecting = 1;
		break;
	case 'H':
		o->is_holding = 1;
		break;
	case 'V':
		o->is_visiting = 1;
		break;
	case 'h':
		fputs(usage, stdout);
		exit(0);
	default:
		fputs(usage, stderr);
		exit(2);
	}
}

static const struct option long_options[] = {{"port", 1, NULL, 'p'},
    {"unix", 1, NULL, 'x'}, {"user", 1, NULL, 'u'}, {"database", 1, NULL, 'd'},
    {"query", 1, NULL, 'q'}, {"kind", 1, NULL, 'k'}, {"depth", 1, NULL, 'D'},
    {"clients", 1, NULL, 'c'}, {"active", 1, NULL, 'a'}, {"rate", 1, NULL, 'r'},
    {"seconds", 1, NULL, 's'}, {"warm", 1, NULL, 'w'}, {"threads", 1, NULL, 't'},
    {"watch", 1, NULL, 'P'}, {"watch-server", 1, NULL, 'B'}, {"every", 1, NULL, 'e'},
    {"shift", 1, NULL, 'S'}, {"reconnect", 0, NULL, 'C'}, {"hold", 0, NULL, 'H'},
    {"visit", 0, NULL, 'V'}, {"help", 0, NULL, 'h'}, {NULL, 0, NULL, 0}};

int main(int argc, char **argv)
{
	struct options o = {.user = "bench",
	    .database = "bench",
	    .query = "select 1",
	    .depth = 1,
	    .clients = 32,
	    .threads = 1,
	    .groups = 1,
	    .seconds = 3,
	    .warm = 0.3};
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		set_option(&o, c, optarg);
	if (!o.port || optind < argc) {
		fputs(usage, stderr);
		return 2;
	}
	if (!o.active || o.active > o.clients)
		o.active = o.clients;
	if (o.threads > o.clients)
		o.threads = o.clients;
	if (o.groups > o.clients || (o.groups > 1 && o.threads > 1))
		die("--every needs as many clients, and one thread");
	if (o.is_reconnecting + o.is_holding + o.is_visiting > 1)
		die("only one of --reconnect, --hold and --visit");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTERM, end_is_asked);
	signal(SIGINT, end_is_asked);
	raise_descriptors();
	run(&o);
	return 0;
}
