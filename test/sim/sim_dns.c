/*
 * Name servers, as far as net/dns sees them: the functions of c-ares that it calls.
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include <ares.h>

#include "base/mem.h"
#include "sim.h"

/* A question, of which c-ares would call the callback in a later call. */
struct question {
	struct node node;
	const struct sim_name *name;
	uint64_t due_us;
	ares_addrinfo_callback done;
	void *arg;
};

struct resolver {
	struct list questions;
	uint64_t rng;
	struct ares_options options;
};

struct sim_name sim_names[] = {
    {"primary.sim", {"10.1.0.1"}, false},
    {"both.sim", {"10.1.0.1", "10.1.0.2"}, false},
    {"nowhere.sim", {NULL}, true},
    {NULL, {NULL}, false},
};

int __wrap_ares_library_init(int flags);
void __wrap_ares_library_cleanup(void);
int __wrap_ares_init_options(ares_channel *channel, struct ares_options *o, int mask);
void __wrap_ares_destroy(ares_channel channel);
struct timeval *__wrap_ares_timeout(
    ares_channel channel, struct timeval *most, struct timeval *out);
void __wrap_ares_process_fd(ares_channel channel, ares_socket_t in, ares_socket_t out);
void __wrap_ares_getaddrinfo(ares_channel channel, const char *name,
    const char *service, const struct ares_addrinfo_hints *hints,
    ares_addrinfo_callback done, void *arg);
void __wrap_ares_freeaddrinfo(struct ares_addrinfo *found);
void __wrap_ares_getnameinfo(ares_channel channel, const struct sockaddr *addr,
    ares_socklen_t len, int flags, ares_nameinfo_callback done, void *arg);
void __wrap_ares_search(ares_channel channel, const char *name, int class, int type,
    ares_callback done, void *arg);

int __wrap_ares_library_init(int flags)
{
	(void)flags;
	return ARES_SUCCESS;
}

void __wrap_ares_library_cleanup(void)
{
}

int __wrap_ares_init_options(ares_channel *channel, struct ares_options *o, int mask)
{
	struct resolver *r = mem_zero(sizeof(*r));

	(void)mask;
	r->options = *o;
	r->rng = rng_for("names", 0);
	list_init(&r->questions);
	*channel = (ares_channel)r;
	return ARES_SUCCESS;
}

static void answer(struct question *q, int status)
{
	struct ares_addrinfo *found = NULL;
	struct ares_addrinfo_node **next;

	if (status == ARES_SUCCESS && q->name->fails)
		status = ARES_ENOTFOUND;
	if (status == ARES_SUCCESS) {
		found = mem_zero(sizeof(*found));
		next = &found->nodes;
		for (int i = 0; i < 4 && q->name->ips[i]; i++) {
			struct sockaddr_in *in = mem_zero(sizeof(*in));
			in->sin_family = AF_INET;
			inet_pton(AF_INET, q->name->ips[i], &in->sin_addr);
			*next = mem_zero(sizeof(**next));
			(*next)->ai_family = AF_INET;
			(*next)->ai_addr = (struct sockaddr *)in;
			next = &(*next)->ai_next;
		}
	}
	q->done(q->arg, status, 0, found);
	mem_free(q);
}

void __wrap_ares_destroy(ares_channel channel)
{
	struct resolver *r = (struct resolver *)channel;
	struct node *n;

	while ((n = list_pop_front(&r->questions)))
		answer(container_of(n, struct question, node), ARES_EDESTRUCTION);
	mem_free(r);
}

static uint64_t next_us(struct resolver *r)
{
	uint64_t us = UINT64_MAX;
	struct question *q;

	list_for (q, &r->questions, node)
		us = q->due_us < us ? q->due_us : us;
	return us;
}

struct timeval *__wrap_ares_timeout(
    ares_channel channel, struct timeval *most, struct timeval *out)
{
	uint64_t at_us = next_us((struct resolver *)channel);

	if (at_us == UINT64_MAX)
		return most;
	uint64_t us = at_us > world.now_us ? at_us - world.now_us : 0;
	out->tv_sec = (time_t)(us / 1000000);
	out->tv_usec = (suseconds_t)(us % 1000000);
	return out;
}

void __wrap_ares_process_fd(ares_channel channel, ares_socket_t in, ares_socket_t out)
{
	struct resolver *r = (struct resolver *)channel;
	struct node *n, *next;

	(void)in, (void)out;
	for (n = list_first(&r->questions); n; n = next) {
		struct question *q = container_of(n, struct question, node);
		next = list_next(&r->questions, n);
		if (q->due_us > world.now_us)
			continue;
		list_remove(&r->questions, n);
		answer(q, draw_fault(&r->rng, FAULT_DNS, 50000) ? ARES_ETIMEOUT
								: ARES_SUCCESS);
		/* the callback may have asked again */
		next = list_first(&r->questions);
	}
}

void __wrap_ares_getaddrinfo(ares_channel channel, const char *name,
    const char *service, const struct ares_addrinfo_hints *hints,
    ares_addrinfo_callback done, void *arg)
{
	struct resolver *r = (struct resolver *)channel;
	struct question *q = mem_zero(sizeof(*q));
	int i = 0;

	(void)service, (void)hints;
	while (sim_names[i].name && strcmp(sim_names[i].name, name) != 0)
		i++;
	MUST(sim_names[i].name, "somebody asks for %s", name);
	q->name = &sim_names[i];
	q->due_us = world.now_us + draw_between(&r->rng, 100, 30000);
	if (draw_fault(&r->rng, FAULT_DNS, 50000))
		q->due_us += draw_between(&r->rng, 1000000, 12000000);
	q->done = done;
	q->arg = arg;
	list_push_back(&r->questions, &q->node);
}

void __wrap_ares_freeaddrinfo(struct ares_addrinfo *found)
{
	while (found->nodes) {
		struct ares_addrinfo_node *n = found->nodes;
		found->nodes = n->ai_next;
		mem_free(n->ai_addr);
		mem_free(n);
	}
	mem_free(found);
}

void __wrap_ares_getnameinfo(ares_channel channel, const struct sockaddr *addr,
    ares_socklen_t len, int flags, ares_nameinfo_callback done, void *arg)
{
	(void)channel, (void)addr, (void)len, (void)flags;
	done(arg, ARES_ENOTFOUND, 0, NULL, NULL);
}

void __wrap_ares_search(ares_channel channel, const char *name, int class, int type,
    ares_callback done, void *arg)
{
	(void)channel, (void)name, (void)class, (void)type;
	done(arg, ARES_ENOTFOUND, 0, NULL, 0);
}
