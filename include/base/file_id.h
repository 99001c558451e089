/*
 * Tells whether a file has changed since it was read.
 */
#ifndef BASE_FILE_ID_H
#define BASE_FILE_ID_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct file_id {
	dev_t device;
	ino_t inode;
	off_t size;
	int64_t changed_ns, status_ns; /* mtime and ctime */
	/* false: the file is missing, or was changed so lately that another change
	 * might leave its times as they are */
	bool is_sure;
};

/* Notes the state of the file.  Must be called before the file is read. */
void file_id_take(struct file_id *id, const char *path);
/* Whether the contents are certain to be the same. */
bool file_id_is_same(const struct file_id *a, const struct file_id *b);

#endif
