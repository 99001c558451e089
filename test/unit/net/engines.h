/*
 * The same tests over each engine of net/.
 */
#ifndef TEST_NET_ENGINES_H
#define TEST_NET_ENGINES_H

#include <stdbool.h>

#include "net/net.h"

/* What a set-up calls after net_init. */
void engine_choose(struct net *net);
/* For what the engines may do differently, like counts of system calls. */
bool engine_is_ring(const struct net *net);
/* Runs the tests over readiness and over io_uring; the sum of what failed. */
int engines_run(int (*run)(const char *name), const char *name);

#endif
