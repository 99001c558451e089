/*
 * Asks the kernel at each scrape for the figures of the process.
 */
#include "metrics/process_samples.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "net/dns.h"
#include "net/net.h"

enum { MILLION = 1000000 };

static long long cpu_us(void)
{
	struct rusage u;

	if (getrusage(RUSAGE_SELF, &u) < 0)
		return 0;
	return (long long)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * MILLION +
	       u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}

static long long most_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 0;
	return limit.rlim_cur > INT64_MAX ? INT64_MAX : (long long)limit.rlim_cur;
}

/* Linux says since 6.2 how many entries the folder has; before they are counted. */
static long long open_descriptors(void)
{
	struct stat st;
	DIR *folder = NULL;
	long long count = 0;

	if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0)
		return (long long)st.st_size;
	folder = opendir("/proc/self/fd");
	if (!folder)
		return 0;
	while (readdir(folder))
		count++;
	closedir(folder);
	return count - 3; /* ".", ".." and the folder itself */
}

void process_samples_find(struct process_sample process[PROCESS_SAMPLE_COUNT],
    const struct site *site, uint64_t began_us, unsigned missed)
{
	uint64_t uptime_us = loop_now(site->loop) - began_us;

	memset(process, 0, PROCESS_SAMPLE_COUNT * sizeof(*process));
	/* the texts contain no character that would have to be escaped */
	snprintf(process[PROCESS_VERSION].labels, PROCESS_SAMPLE_LABELS,
	    "version=\"%s\"", site->version);
	snprintf(process[PROCESS_BUILD].labels, PROCESS_SAMPLE_LABELS,
	    "version=\"%s\",libevent=\"%s\",adns=\"%s\",io_engine=\"%s\"",
	    site->version, loop_library_version(), dns_library_version(),
	    net_engine_name(&site->net));
	process[PROCESS_UP].whole = process[PROCESS_VERSION].whole =
	    process[PROCESS_BUILD].whole = 1;
	uint64_t virtual = 0, resident = 0;
	mem_of_process(&virtual, &resident);
	process[PROCESS_VIRTUAL].whole = (long long)virtual;
	process[PROCESS_RESIDENT].whole = (long long)resident;
	process[PROCESS_UPTIME].micros = (long long)uptime_us;
	process[PROCESS_START].micros = (long long)(loop_wall(site->loop) - uptime_us);
	process[PROCESS_MISSED].whole = missed;
	process[PROCESS_CPU].micros = cpu_us();
	process[PROCESS_OPEN_FDS].whole = open_descriptors();
	process[PROCESS_MAX_FDS].whole = most_descriptors();
}
