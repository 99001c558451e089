/*
 * The same tests over each engine of net/; see engines.h.
 */
#include "engines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static bool is_ring_chosen;

void engine_choose(struct net *net)
{
	struct err err;

	if (is_ring_chosen && net_start_ring(net, NULL, NULL, &err) < 0)
		fail_msg("%s", err.text);
}

bool engine_is_ring(const struct net *net)
{
	return net->ring != NULL;
}

static bool may_have_ring(struct err *err)
{
	struct mem mem;
	struct net net;

	mem_init(&mem);
	struct loop *loop = loop_new(&mem, err);
	net_init(&net, loop, &mem);
	bool may = net_start_ring(&net, NULL, NULL, err) == 0;
	net_done(&net);
	loop_free(&loop);
	return may;
}

int engines_run(int (*run)(const char *name), const char *name)
{
	char ring_name[64];
	struct err err;
	int failed = run(name);

	if (!may_have_ring(&err)) {
		print_message("io_uring is not tested here: %s\n", err.text);
		return failed;
	}
	snprintf(ring_name, sizeof(ring_name), "%s on io_uring", name);
	is_ring_chosen = true;
	failed += run(ring_name);
	is_ring_chosen = false;
	return failed;
}
