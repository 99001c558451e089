/*
 * Tells whether a file has changed since it was read.
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
	/* false: the file is missing, or was changed so lately that another change
	 * might leave its times as they are */
	bool is_sure;
};

/* Notes the state of the file.  Must be called before the file is read. */
void mark_take(struct mark *mark, const char *path);
/* Whether the contents are certain to be the same. */
bool mark_is_same(const struct mark *a, const struct mark *b);

#endif
