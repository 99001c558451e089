/* Clients of a relay, spread evenly over its threads. The main thread accepts, and the
 * relay's threads get the clients through pipes. They share nothing else. */
#ifndef BENCH_THREADS_H
#define BENCH_THREADS_H

#include <pthread.h>
#include <signal.h>

#include "tool.h"

#define THREADS_MOST 64

/* What one thread of a relay needs. */
struct place {
	int clients; /* a pipe; each int in it is the descriptor of a client */
	long server_port;
};

/* Returns the next client, when there is one. */
static inline int place_client(const struct place *place)
{
	int fd;

	if (read(place->clients, &fd, sizeof(fd)) != sizeof(fd))
		die_of("cannot read from a pipe");
	return fd;
}

static inline int start_thread(struct place *place, void *(*serve)(void *place))
{
	pthread_t thread;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		die_of("pipe");
	place->clients = ends[0];
	if (pthread_create(&thread, NULL, serve, place))
		die("no thread");
	return ends[1];
}

/* Reads the arguments of a relay and runs it until a signal ends it. `serve` runs on
 * each thread; its argument is a struct place. */
static inline __attribute__((noreturn)) void serve_by_threads(
    int argc, char **argv, void *(*serve)(void *place))
{
	struct place places[THREADS_MOST];
	int pipes[THREADS_MOST];

	if (argc < 3 || argc > 4)
		die("usage: %s LISTEN_PORT SERVER_PORT [THREADS]", argv[0]);
	signal(SIGPIPE, SIG_IGN);
	raise_descriptors();
	long count = argc > 3 ? number_of(argv[3], 1, THREADS_MOST) : 1;
	long port = number_of(argv[2], 1, 65535);
	int listener = listen_on(number_of(argv[1], 1, 65535));
	for (long i = 0; i < count; i++) {
		places[i].server_port = port;
		pipes[i] = start_thread(&places[i], serve);
	}
	for (long next = 0;; next = (next + 1) % count) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0 && write(pipes[next], &fd, sizeof(fd)) != sizeof(fd))
			die_of("cannot write to a pipe");
	}
}

#endif
