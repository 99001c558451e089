/*
 * A file is written under another name and then renamed, so that no reader sees half of
 * it.
 */
#include "tools/secret_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

/* 1: the file exists; 0: it does not. */
static int look_at(const char *path, struct stat *st, struct err *err)
{
	if (stat(path, st) < 0)
		return errno == ENOENT
			   ? 0
			   : err_set(err, "cannot write %s: %s", path, strerror(errno));
	if (!S_ISREG(st->st_mode))
		return err_set(err, "%s is not a file: name another one", path);
	if (st->st_mode & S_IRWXO)
		return err_set(err,
		    "%s is open to every account that gets into its folder: first "
		    "chmod o-rwx %s",
		    path, path);
	return 1;
}

int secret_file_check(const char *path, struct err *err)
{
	struct stat st;

	return look_at(path, &st, err) < 0 ? -1 : 0;
}

static int write_all(int fd, const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, bytes, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		bytes += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Copies owner and permissions from the file that is being replaced. */
static int take_after(int fd, const struct stat *st)
{
	if ((st->st_uid != geteuid() || st->st_gid != getegid()) &&
	    fchown(fd, st->st_uid, st->st_gid) < 0)
		return -1;
	return fchmod(fd, st->st_mode & 07777);
}

static int write_beside(const char *place, const struct stat *old, const void *bytes,
    size_t len, struct err *err)
{
	struct buf name;
	char *path;
	int fd, rc;

	buf_init(&name, 0);
	buf_printf(&name, "%s.XXXXXX", place);
	path = mem_strdup(buf_text(&name));
	buf_done(&name);
	fd = mkstemp(path); /* readable by its owner only */
	rc = fd;
	if (fd >= 0) {
		rc = (old && take_after(fd, old) < 0) ||
			     write_all(fd, bytes, len) < 0 || fsync(fd) < 0
			 ? -1
			 : 0;
		if (rc == 0)
			rc = rename(path, place);
	}
	if (rc < 0)
		err_set(err, "cannot write %s: %s", place, strerror(errno));
	if (rc < 0 && fd >= 0)
		unlink(path);
	if (fd >= 0)
		close(fd);
	mem_free(path);
	return rc < 0 ? -1 : 0;
}

int secret_file_write(const char *path, const void *bytes, size_t len, struct err *err)
{
	struct stat st;
	int is_there = look_at(path, &st, err), rc;
	char *place;

	if (is_there < 0)
		return -1;
	/* a symbolic link is kept: the file that it points to is replaced */
	place = is_there ? realpath(path, NULL) : NULL;
	rc = write_beside(place ? place : path, is_there ? &st : NULL, bytes, len, err);
	free(place);
	return rc;
}
