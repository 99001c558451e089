#include "base/file_id.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Longer than the granularity of time stamps in any file system. */
#define YOUNG_NS INT64_C(1000000000)

static int64_t nanoseconds(const struct timespec *t)
{
	return (int64_t)t->tv_sec * INT64_C(1000000000) + t->tv_nsec;
}

void file_id_take(struct file_id *id, const char *path)
{
	struct timespec now;
	struct stat st;

	memset(id, 0, sizeof(*id));
	clock_gettime(CLOCK_REALTIME, &now);
	if (stat(path, &st) < 0)
		return;
	id->device = st.st_dev;
	id->inode = st.st_ino;
	id->size = st.st_size;
	id->changed_ns = nanoseconds(&st.st_mtim);
	id->status_ns = nanoseconds(&st.st_ctim);
	id->is_sure = nanoseconds(&now) - id->status_ns > YOUNG_NS;
}

bool file_id_is_same(const struct file_id *a, const struct file_id *b)
{
	return a->is_sure && b->is_sure && a->device == b->device &&
	       a->inode == b->inode && a->size == b->size &&
	       a->changed_ns == b->changed_ns && a->status_ns == b->status_ns;
}
