/*
 * Compares files by what stat() says, so that an unchanged file need not be read again.
 */
#include "base/mark.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Longer than the granularity of time stamps in any file system. */
#define YOUNG_NS INT64_C(1000000000)

static int64_t nanoseconds(const struct timespec *t)
{
	return (int64_t)t->tv_sec * INT64_C(1000000000) + t->tv_nsec;
}

void mark_take(struct mark *mark, const char *path)
{
	struct timespec now;
	struct stat st;

	memset(mark, 0, sizeof(*mark));
	clock_gettime(CLOCK_REALTIME, &now);
	if (stat(path, &st) < 0)
		return;
	mark->device = st.st_dev;
	mark->inode = st.st_ino;
	mark->size = st.st_size;
	mark->changed_ns = nanoseconds(&st.st_mtim);
	mark->status_ns = nanoseconds(&st.st_ctim);
	mark->is_sure = nanoseconds(&now) - mark->status_ns > YOUNG_NS;
}

bool mark_is_same(const struct mark *a, const struct mark *b)
{
	return a->is_sure && b->is_sure && a->device == b->device &&
	       a->inode == b->inode && a->size == b->size &&
	       a->changed_ns == b->changed_ns && a->status_ns == b->status_ns;
}
