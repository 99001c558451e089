/*
 * Whether a file is still the one that was read.
 */
#ifndef BASE_MARK_H
#define BASE_MARK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mark {
	dev_t device;
	ino_t inode;
	off_t size;
	int64_t changed_ns, status_ns; /* mtime and ctime */
	bool is_sure; /* false: the file is missing, or so young that it may change once
			 more without a trace in its times */
};

/* Looks at the file, before it is read. */
void mark_take(struct mark *mark, const char *path);
/* Is it certain that the contents are the same? */
bool mark_is_same(const struct mark *a, const struct mark *b);

#endif
