/*
 * Runs the same tests over each engine of net/.
 */
#ifndef TEST_NET_ENGINES_H
#define TEST_NET_ENGINES_H

#include <stdbool.h>

#include "net/net.h"

/* A test's set-up calls this after net_init. */
void engine_choose(struct net *net);
/* For what may differ between engines, like counts of system calls. */
bool engine_is_ring(const struct net *net);
/* Runs the tests over epoll and over io_uring; returns the number of failures. */
int engines_run(int (*run)(const char *name), const char *name);

#endif
