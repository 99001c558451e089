/* links: tools daemon metrics admin views login relay handoff cancel broker session
 * pool wire auth net conf base
 *
 * Simulates the whole pooler from a seed: see test/README.md.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim_process.h"
#include "sim_tls.h"

enum {
	CHECK_US = 5000000,
	HEAL_US = 900000000,
	REST_US = 200000000,
	END_US = 100000000
};

/* ---- the course of a run ---- */

enum phase { WORKING, HEALING, RESTING, ENDING };

static struct {
	struct event event;
	enum phase phase;
	uint64_t until_us;
} course;

static void enter(enum phase phase, uint64_t for_us)
{
	note("phase", phase, 0);
	course.phase = phase;
	course.until_us = world.now_us + for_us;
}

static void go_on(struct event *e)
{
	bool is_late = world.now_us >= course.until_us;

	event_in(e, CHECK_US);
	clients_check();
	checks_alone();
	if (course.phase < RESTING)
		admin_watch();
	switch (course.phase) {
	case WORKING:
		if (!is_late)
			break;
		world.is_healing = true;
		servers_heal();
		admin_finish();
		clients_finish();
		enter(HEALING, HEAL_US);
		break;
	case HEALING:
		MUST(!is_late, "some clients do not come to an end");
		if (clients_are_done() && admin_is_done() && takeover_is_done())
			enter(RESTING, REST_US);
		break;
	case RESTING:
		if (!is_late)
			break;
		checks_empty();
		world.is_ending = true;
		process_signal_all(SIGTERM);
		enter(ENDING, END_US);
		break;
	case ENDING:
		MUST(!is_late, "the pooler does not end");
		break;
	}
}

static uint64_t real_us(void)
{
	struct timespec t;
	extern int __real_clock_gettime(clockid_t id, struct timespec * time);

	__real_clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void simulate(const struct sim_options *options)
{
	uint64_t begun = real_us();
	char folder[40], command[100];

	world_init(options);
	sim_tls_init();
	if (!mkdtemp(strcpy(folder, "/tmp/pooler-sim-XXXXXX")) || chdir(folder) < 0) {
		perror(folder);
		__real__exit(1);
	}
	sim_tls_begin();
	config_write_first();
	servers_init();
	clients_init();
	admin_init();
	takeover_init();
	course.event.run = go_on;
	enter(WORKING, (uint64_t)options->seconds * 1000000);
	event_in(&course.event, CHECK_US);
	process_start(false);
	world_run();
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	if (system(command) != 0)
		perror(command);
	printf("seed %llu: ok, %.1f min in %.1f s, %llu queries, %llu logins, %llu "
	       "refused, %llu errors, %llu faults, %llu commands, %llu takeovers, %llu "
	       "kills, %llu notifications, %llu turns, hash %016llx\n",
	    (unsigned long long)options->seed,
	    (double)(world.now_us - 1000000000) / 6e7,
	    (double)(real_us() - begun) / 1e6, (unsigned long long)world.counts.queries,
	    (unsigned long long)world.counts.logins,
	    (unsigned long long)world.counts.refused,
	    (unsigned long long)world.counts.errors,
	    (unsigned long long)world.counts.faults,
	    (unsigned long long)world.counts.commands,
	    (unsigned long long)world.counts.takeovers,
	    (unsigned long long)world.counts.kills,
	    (unsigned long long)world.counts.notifications,
	    (unsigned long long)world.counts.turns, (unsigned long long)world.hash);
}

/* ---- the command line ---- */

static const struct option long_options[] = {{"seed", required_argument, NULL, 's'},
    {"clients", required_argument, NULL, 'c'},
    {"seconds", required_argument, NULL, 't'}, {"mask", required_argument, NULL, 'm'},
    {"faults", required_argument, NULL, 'f'}, {"workers", required_argument, NULL, 'w'},
    {"verbose", no_argument, NULL, 'v'}, {NULL, 0, NULL, 0}};

static int stand_still(char **argv)
{
	/* addresses must not differ from run to run */
	int now = personality(0xffffffff);

	if (now < 0 || now & ADDR_NO_RANDOMIZE ||
	    personality((unsigned long)now | ADDR_NO_RANDOMIZE) < 0)
		return 0;
	return execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
	struct sim_options o = {.seed = 1,
	    .clients = 16,
	    .seconds = 600,
	    .mask = UINT64_MAX,
	    .faults = FAULT_ALL,
	    .workers = 1};
	int option;

	(void)stand_still(argv);
	setenv("TZ", "UTC", 1);
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) >= 0) {
		unsigned long long number = optarg ? strtoull(optarg, NULL, 0) : 0;
		switch (option) {
		case 's':
			o.seed = number;
			break;
		case 'c':
			o.clients = (unsigned)number;
			break;
		case 't':
			o.seconds = (unsigned)number;
			break;
		case 'm':
			o.mask = number;
			break;
		case 'f':
			o.faults = (unsigned)number;
			break;
		case 'w':
			o.workers = (unsigned)number;
			break;
		case 'v':
			o.is_verbose = true;
			break;
		default:
			return 2;
		}
	}
	simulate(&o);
	fflush(stdout);
#ifdef __SANITIZE_ADDRESS__
	/* what killed processes had is not given back */
	if (world.counts.kills)
		__real__exit(0);
#endif
	return 0;
}
