/*
 * A PostgreSQL server of canned answers that uses little CPU time. It accepts every
 * client and answers each query with the same rows. BEGIN, COMMIT and the like change
 * the status in ReadyForQuery; any other command that is no SELECT gets only its
 * CommandComplete. With this server the pooler is the bottleneck of a benchmark.
 *
 * `canned --help` lists the options.
 */
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <strings.h>
#include <sys/epoll.h>

#include "tool.h"

#define EVENTS   256
#define INPUT    (256 << 10)
#define SSL_CODE 80877103

struct options {
	long port, rows, width, threads;
	uint64_t delay;
};

struct conn {
	int fd;
	uint8_t startup[8]; /* the first bytes of the startup packet */
	uint32_t startup_len, startup_left;
	int is_started, is_late, is_writing;
	char status; /* of the transaction, for ReadyForQuery */
	struct cutter cutter;
	struct bytes out;
	size_t sent;
	uint64_t due; /* when the delayed answer is sent */
	struct conn *next;
};

struct worker {
	const struct options *options;
	pthread_t thread;
	int poll;
	const struct bytes *answer; /* the answer to a SELECT, without ReadyForQuery */
	const struct bytes *description, *rows;
	uint8_t *input;
	struct conn *first_late, *last_late; /* in the order of .due */
};

/* ------------------------------------------------------------------ answers */

static void put_description(struct bytes *b)
{
	size_t at = message_begin(b, 'T');

	bytes_put_u16(b, 1);
	bytes_put_text(b, "?column?");
	bytes_put_u32(b, 0);
	bytes_put_u16(b, 0);
	bytes_put_u32(b, 25);
	bytes_put_u16(b, 0xffff);
	bytes_put_u32(b, 0xffffffff);
	bytes_put_u16(b, 0);
	message_end(b, at);
}

static void put_tag(struct bytes *b, const char *tag)
{
	size_t at = message_begin(b, 'C');

	bytes_put_text(b, tag);
	message_end(b, at);
}

static void put_rows(struct bytes *b, const struct options *o)
{
	char tag[32], *value = need(1, (size_t)o->width);

	memset(value, '1', (size_t)o->width);
	for (long i = 0; i < o->rows; i++) {
		size_t at = message_begin(b, 'D');
		bytes_put_u16(b, 1);
		bytes_put_u32(b, (uint32_t)o->width);
		bytes_put(b, value, (size_t)o->width);
		message_end(b, at);
	}
	snprintf(tag, sizeof(tag), "SELECT %ld", o->rows);
	put_tag(b, tag);
	free(value);
}

static void put_ready(struct bytes *b, char status)
{
	size_t at = message_begin(b, 'Z');

	bytes_put(b, &status, 1);
	message_end(b, at);
}

static void put_parameter(struct bytes *b, const char *name, const char *value)
{
	size_t at = message_begin(b, 'S');

	bytes_put_text(b, name);
	bytes_put_text(b, value);
	message_end(b, at);
}

static void put_welcome(struct bytes *b)
{
	static const char *const parameters[][2] = {{"server_version", "15.0 (canned)"},
	    {"server_encoding", "UTF8"}, {"client_encoding", "UTF8"},
	    {"DateStyle", "ISO, MDY"}, {"TimeZone", "Etc/UTC"},
	    {"integer_datetimes", "on"}, {"standard_conforming_strings", "on"}};
	size_t at = message_begin(b, 'R');

	bytes_put_u32(b, 0);
	message_end(b, at);
	for (unsigned i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++)
		put_parameter(b, parameters[i][0], parameters[i][1]);
	at = message_begin(b, 'K');
	bytes_put_u32(b, 1);
	bytes_put_u32(b, 1);
	message_end(b, at);
	put_ready(b, 'I');
}

/* ----------------------------------------------------------------- messages */

static int has_word(const struct conn *c, const char *word)
{
	size_t len = strlen(word);

	return c->cutter.start_len >= len &&
	       strncasecmp((const char *)c->cutter.start, word, len) == 0;
}

static void answer_query(const struct worker *w, struct conn *c)
{
	if (has_word(c, "select")) {
		bytes_put(&c->out, w->answer->p, w->answer->len);
	} else if (has_word(c, "begin")) {
		c->status = 'T';
		put_tag(&c->out, "BEGIN");
	} else if (has_word(c, "commit") || has_word(c, "rollback")) {
		put_tag(&c->out, has_word(c, "commit") ? "COMMIT" : "ROLLBACK");
		c->status = 'I';
	} else {
		put_tag(&c->out, "SET");
	}
	put_ready(&c->out, c->status);
}

static void put_empty(struct bytes *b, char type)
{
	message_end(b, message_begin(b, type));
}

static void describe(const struct worker *w, struct conn *c)
{
	if (c->cutter.start[0] == 'S') {
		size_t at = message_begin(&c->out, 't');
		bytes_put_u16(&c->out, 0);
		message_end(&c->out, at);
	}
	bytes_put(&c->out, w->description->p, w->description->len);
}

/* Returns 0 when the client disconnects. */
static int answer_message(const struct worker *w, struct conn *c)
{
	switch (c->cutter.head[0]) {
	case 'Q':
		answer_query(w, c);
		break;
	case 'P':
		put_empty(&c->out, '1');
		break;
	case 'B':
		put_empty(&c->out, '2');
		break;
	case 'C':
		put_empty(&c->out, '3');
		break;
	case 'D':
		describe(w, c);
		break;
	case 'E':
		bytes_put(&c->out, w->rows->p, w->rows->len);
		break;
	case 'S':
		put_ready(&c->out, c->status);
		break;
	case 'X':
		return 0;
	default:
		break;
	}
	return 1;
}

/* The first packets of a client have no type: requests for encryption, which are
 * refused, and the startup packet. Returns 0 when more bytes are needed. */
static int take_startup(struct conn *c, const uint8_t **p, const uint8_t *end)
{
	uint32_t len, code;

	while (c->startup_len < 8 && *p < end) {
		c->startup[c->startup_len++] = *(*p)++;
		if (c->startup_len == 8) {
			memcpy(&len, c->startup, 4);
			c->startup_left = ntohl(len) - 8;
		}
	}
	size_t here = (size_t)(end - *p);
	if (c->startup_len < 8 || here < c->startup_left) {
		*p = end;
		c->startup_left -= c->startup_len == 8 ? (uint32_t)here : 0;
		return 0;
	}
	*p += c->startup_left;
	c->startup_len = 0;
	memcpy(&code, c->startup + 4, 4);
	if (ntohl(code) >> 16 == SSL_CODE >> 16) {
		bytes_put(&c->out, "N", 1);
	} else {
		c->is_started = 1;
		put_welcome(&c->out);
	}
	return 1;
}

static int take_bytes(
    const struct worker *w, struct conn *c, const uint8_t *p, const uint8_t *end)
{
	while (p < end && !c->is_started)
		if (!take_startup(c, &p, end))
			return 1;
	while (p < end)
		if (cutter_take(&c->cutter, &p, end) && !answer_message(w, c))
			return 0;
	return 1;
}

/* -------------------------------------------------------------- connections */

static void free_conn(struct worker *w, struct conn *c)
{
	struct conn **at = &w->first_late, *last = NULL;

	for (; c->is_late && *at; last = *at, at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			if (w->last_late == c)
				w->last_late = last;
			break;
		}
	close(c->fd);
	free(c->out.p);
	free(c);
}

static void want(struct worker *w, struct conn *c, int is_writing)
{
	struct epoll_event event = {
	    .events = EPOLLIN | (is_writing ? EPOLLOUT : 0), .data.ptr = c};

	if (c->is_writing == is_writing)
		return;
	c->is_writing = is_writing;
	epoll_ctl(w->poll, EPOLL_CTL_MOD, c->fd, &event);
}

/* Returns 0 when the connection is lost. */
static int send_out(struct worker *w, struct conn *c)
{
	while (c->sent < c->out.len) {
		ssize_t n =
		    send(c->fd, c->out.p + c->sent, c->out.len - c->sent, MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN) {
			want(w, c, 1);
			return 1;
		}
		if (n < 0)
			return 0;
		c->sent += (size_t)n;
	}
	c->out.len = c->sent = 0;
	want(w, c, 0);
	return 1;
}

static void delay(struct worker *w, struct conn *c)
{
	c->is_late = 1;
	c->due = now_ns() + w->options->delay;
	c->next = NULL;
	if (w->first_late)
		w->last_late->next = c;
	else
		w->first_late = c;
	w->last_late = c;
}

static void serve(struct worker *w, struct conn *c, uint32_t events)
{
	int is_new = !c->is_started, lives = 1;

	if (events & EPOLLOUT)
		lives = send_out(w, c);
	if (lives && events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
		ssize_t n = recv(c->fd, w->input, INPUT, 0);
		if (n <= 0)
			lives = n < 0 && errno == EAGAIN;
		else
			lives = take_bytes(w, c, w->input, w->input + n);
	}
	if (!lives)
		free_conn(w, c);
	else if (!w->options->delay || is_new) {
		if (!send_out(w, c))
			free_conn(w, c);
	} else if (c->out.len && !c->is_late)
		delay(w, c);
}

/* Returns the milliseconds until the next answer is due; -1 when none is. */
static int send_late(struct worker *w)
{
	while (w->first_late) {
		struct conn *c = w->first_late;
		uint64_t now = now_ns();

		if (c->due > now)
			return (int)((c->due - now) / 1000000 + 1);
		w->first_late = c->next;
		c->is_late = 0;
		if (!send_out(w, c))
			free_conn(w, c);
	}
	return -1;
}

static void *run_worker(void *argument)
{
	struct worker *w = argument;
	struct epoll_event events[EVENTS];

	for (;;) {
		int n = epoll_wait(w->poll, events, EVENTS, send_late(w));
		for (int i = 0; i < n; i++)
			serve(w, events[i].data.ptr, events[i].events);
	}
	return NULL;
}

/* ---------------------------------------------------------------- the program */

static struct worker *start_workers(const struct options *o)
{
	static struct bytes answer, description, rows;
	struct worker *workers = need((size_t)o->threads, sizeof(*workers));

	put_description(&description);
	put_rows(&rows, o);
	bytes_put(&answer, description.p, description.len);
	bytes_put(&answer, rows.p, rows.len);
	for (long i = 0; i < o->threads; i++) {
		struct worker *w = &workers[i];

		*w = (struct worker){.options = o,
		    .answer = &answer,
		    .description = &description,
		    .rows = &rows,
		    .input = need(1, INPUT),
		    .poll = epoll_create1(EPOLL_CLOEXEC)};
		if (w->poll < 0 || pthread_create(&w->thread, NULL, run_worker, w))
			die("cannot start a thread");
	}
	return workers;
}

/* The threads get new connections in turn. */
static void accept_all(int listener, struct worker *workers, long threads)
{
	for (long i = 0;; i = (i + 1) % threads) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct conn *c;

		if (fd < 0)
			die_of("accept");
		set_nodelay(fd);
		c = need(1, sizeof(*c));
		c->fd = fd;
		c->status = 'I';
		struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
		if (epoll_ctl(workers[i].poll, EPOLL_CTL_ADD, fd, &event) < 0)
			die_of("epoll_ctl");
	}
}

static const char usage[] = "usage: canned --port N [OPTION N]...\n"
			    "  --rows N      rows of each result (1)\n"
			    "  --width N     bytes of each row's only column (1)\n"
			    "  --delay N     milliseconds before each answer (0)\n"
			    "  --threads N   connections go to them in turns (1)\n"
			    "Listens on 127.0.0.1 until a signal ends it.\n";

static const struct option long_options[] = {{"port", 1, NULL, 'p'},
    {"rows", 1, NULL, 'r'}, {"width", 1, NULL, 'w'}, {"delay", 1, NULL, 'd'},
    {"threads", 1, NULL, 't'}, {"help", 0, NULL, 'h'}, {NULL, 0, NULL, 0}};

static void set_option(struct options *o, int c, const char *value)
{
	switch (c) {
	case 'p':
		o->port = number_of(value, 1, 65535);
		break;
	case 'r':
		o->rows = number_of(value, 0, 10000000);
		break;
	case 'w':
		o->width = number_of(value, 1, 1 << 20);
		break;
	case 'd':
		o->delay = (uint64_t)number_of(value, 0, 60000) * 1000000;
		break;
	case 't':
		o->threads = number_of(value, 1, 256);
		break;
	case 'h':
		fputs(usage, stdout);
		exit(0);
	default:
		fputs(usage, stderr);
		exit(2);
	}
}

static void leave(int signo)
{
	(void)signo;
	_exit(0);
}

int main(int argc, char **argv)
{
	struct options o = {.rows = 1, .width = 1, .threads = 1};
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		set_option(&o, c, optarg);
	if (!o.port || optind < argc) {
		fputs(usage, stderr);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	signal(SIGQUIT, leave);
	raise_descriptors();
	int listener = listen_on(o.port);
	accept_all(listener, start_workers(&o), o.threads);
	return 0;
}
