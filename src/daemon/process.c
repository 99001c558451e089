#include "daemon/process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int process_switch_user(const char *name, struct err *err)
{
	const struct passwd *account = getpwnam(name);

	if (!account)
		return err_set(err, "could not find user '%s' to switch to", name);
	gid_t group = account->pw_gid;
	uid_t user = account->pw_uid;
	if ((geteuid() == 0 && setgroups(1, &group) < 0) || setgid(group) < 0 ||
	    setuid(user) < 0)
		return err_set(err, "failed to assume identity of user '%s': %s", name,
		    strerror(errno));
	return 0;
}

int process_open(int pid)
{
#ifdef SYS_pidfd_open
	return (int)syscall(SYS_pidfd_open, pid, 0);
#else
	(void)pid;
	return -1;
#endif
}

/* ---- background ---- */

static int fork_failed(struct err *err)
{
	return err_set(
	    err, "could not go into the background: fork(): %s", strerror(errno));
}

static void to_null(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	dup2(null, fd);
	if (null >= 0 && null != fd)
		close(null);
}

void process_tell_starter(int *starter, bool keeps_stderr)
{
	if (*starter < 0)
		return;
	if (!keeps_stderr)
		to_null(STDERR_FILENO);
	(void)!write(*starter, "", 1);
	close(*starter);
	*starter = -1;
}

int process_to_background(int *starter, struct err *err)
{
	int ends[2];
	pid_t child;
	char byte;
	ssize_t got;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, "pipe2(): %s", strerror(errno));
	child = fork();
	if (child < 0)
		return fork_failed(err);
	if (child > 0) {
		/* in the original process: waits until the grandchild has written a
		 * byte, or has ended */
		close(ends[1]);
		do
			got = read(ends[0], &byte, 1);
		while (got < 0 && errno == EINTR);
		_exit(got == 1 ? 0 : 1);
	}
	/* the second fork: a session leader could acquire a terminal again */
	setsid();
	child = fork();
	if (child < 0)
		return fork_failed(err);
	if (child > 0)
		_exit(0);
	close(ends[0]);
	to_null(STDIN_FILENO);
	to_null(STDOUT_FILENO);
	*starter = ends[1];
	return 0;
}

void process_ignore_sigpipe(void)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};

	sigemptyset(&ignore.sa_mask);
	sigaction(SIGPIPE, &ignore, NULL);
}

void process_log_limits(
    struct log *log, long long max_client_conn, long long expected, bool has_servers)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
		log_warning(log, "getrlimit(): %s", strerror(errno));
		return;
	}
	log_info(log,
	    "kernel file descriptor limit: %llu (hard: %llu); max_client_conn: %lld, "
	    "max "
	    "expected fd use: %lld",
	    (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max,
	    max_client_conn, expected);
	if ((unsigned long long)expected > limit.rlim_cur)
		log_warning(log,
		    "%lld file descriptors may be needed%s, and the limit is %llu: "
		    "raise it with ulimit -n, or LimitNOFILE of the service, or lower "
		    "max_client_conn",
		    expected, has_servers ? "" : " without those for servers",
		    (unsigned long long)limit.rlim_cur);
}
