/*
 * Two processes that start at the same time find each other by the lock of PATH.new.
 */
#include "daemon/pidfile.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "daemon/process.h"

enum { CLAIM_TRIES = 10 };

void pidfile_init(struct pidfile *p, const char *path)
{
	static const char suffix[] = ".new";

	*p = (struct pidfile){.fd = -1};
	if (!path || !*path)
		return;
	size_t len = strlen(path);
	p->path = mem_strdup(path);
	p->new_path = mem_alloc(len + sizeof(suffix));
	memcpy(p->new_path, path, len);
	memcpy(p->new_path + len, suffix, sizeof(suffix));
}

void pidfile_done(struct pidfile *p)
{
	if (p->fd >= 0)
		close(p->fd);
	mem_free(p->path);
	mem_free(p->new_path);
	*p = (struct pidfile){.fd = -1};
}

/* ---- what is there ---- */

/* The process id in the text; 0 if there is none. */
static long pid_in(const char *text)
{
	char *end;
	long pid = strtol(text, &end, 10);

	if (end == text || (*end != '\0' && *end != '\n') || pid != (pid_t)pid)
		return 0;
	return pid;
}

/* Reads the process id in the file, 0 if there is none.  -1: the file cannot be read;
 * errno says why. */
static int read_pid(const char *path, long *pid)
{
	char text[32];
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	ssize_t len = read(fd, text, sizeof(text) - 1);
	int reason = errno;
	close(fd);
	errno = reason;
	if (len < 0)
		return -1;
	text[len] = '\0';
	*pid = pid_in(text);
	return 0;
}

static int could_not_open(const struct pidfile *p, struct err *err)
{
	return err_set(
	    err, "could not open pidfile '%s': %s", p->path, strerror(errno));
}

int pidfile_check(const struct pidfile *p, long elder, int patience_ms, struct log *log,
    struct err *err)
{
	struct pollfd end = {.fd = -1, .events = POLLIN};
	const char *path = p->path;
	long pid;

	if (!path)
		return 0;
	if (read_pid(path, &pid) < 0)
		return errno == ENOENT ? 0 : could_not_open(p, err);
	if (elder > 0 && pid == elder)
		return 0;
	/* one that was killed has its number until its parent asks for it, which some
	 * parents never do */
	end.fd = process_open((int)pid);
	bool has_ended = end.fd >= 0 && poll(&end, 1, patience_ms) > 0;
	if (end.fd >= 0)
		close(end.fd);
	/* a file without a valid process id is not removed: its process may run */
	if (!has_ended && (pid <= 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH))
		return err_set(
		    err, "pidfile '%s' exists, another instance running?", path);
	log_info(log, "stale pidfile, removing");
	if (unlink(path) < 0)
		return err_set(
		    err, "could not remove pidfile '%s': %s", path, strerror(errno));
	return 0;
}

/* ---- claiming ---- */

/* A descriptor; -1 and err; -2: the file was renamed meanwhile. */
static int open_locked(const struct pidfile *p, struct err *err)
{
	const char *path = p->new_path;
	int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	struct stat own, there;

	if (fd < 0)
		return could_not_open(p, err);
	/* some file systems have no locks */
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
		close(fd);
		return err_set(err,
		    "pidfile '%s' is locked: another process is starting; try again "
		    "when it is up",
		    path);
	}
	/* the owner of the file may have renamed it between open() and flock() */
	if (fstat(fd, &own) == 0 && stat(path, &there) == 0 &&
	    own.st_dev == there.st_dev && own.st_ino == there.st_ino)
		return fd;
	close(fd);
	return -2;
}

int pidfile_claim(struct pidfile *p, struct err *err)
{
	int fd = -2;

	if (!p->path)
		return 0;
	for (int i = 0; fd == -2 && i < CLAIM_TRIES; i++)
		fd = open_locked(p, err);
	if (fd == -2)
		return err_set(
		    err, "could not open pidfile '%s': it changes", p->new_path);
	if (fd < 0)
		return -1;
	p->fd = fd;
	return 0;
}

int pidfile_write(struct pidfile *p, struct err *err)
{
	char text[32];

	if (p->fd < 0)
		return 0;
	int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
	ssize_t written =
	    ftruncate(p->fd, 0) < 0 ? -1 : pwrite(p->fd, text, (size_t)len, 0);
	int reason = written < 0 ? errno : ENOSPC;
	if (written == len)
		return 0;
	return err_set(
	    err, "could not write pidfile '%s': %s", p->new_path, strerror(reason));
}

int pidfile_publish(struct pidfile *p, struct err *err)
{
	if (p->fd < 0)
		return 0;
	if (rename(p->new_path, p->path) < 0)
		return err_set(err, "could not rename pidfile '%s' to '%s': %s",
		    p->new_path, p->path, strerror(errno));
	close(p->fd);
	p->fd = -1;
	p->is_ours = true;
	return 0;
}

int pidfile_restore(struct pidfile *p, struct err *err)
{
	if (!p->is_ours || access(p->path, F_OK) == 0)
		return 0;
	p->is_ours = false;
	return pidfile_claim(p, err) < 0 || pidfile_write(p, err) < 0
		   ? -1
		   : pidfile_publish(p, err);
}

void pidfile_remove(struct pidfile *p)
{
	long pid;

	if (p->fd >= 0) {
		unlink(p->new_path);
		close(p->fd);
		p->fd = -1;
	}
	if (p->is_ours && read_pid(p->path, &pid) == 0 && pid == (long)getpid())
		unlink(p->path);
	p->is_ours = false;
}
