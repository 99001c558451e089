/*
 * What accounts other than the pooler's own may do with a file.
 */
#ifndef TOOLS_FILE_RIGHTS_H
#define TOOLS_FILE_RIGHTS_H

enum {
	FILE_RIGHTS_READ = 1,
	FILE_RIGHTS_WRITE = 2,
};

/* Both return what somebody may do.  A folder on the way that lets them not through
 * protects the file.  A file that cannot be looked at has no such rights. */

/* Every account, whatever its groups. */
unsigned file_rights_of_all(const char *path);
/* Every account, or the members of a group that is neither root's nor the one that this
 * process runs as. */
unsigned file_rights_of_others(const char *path);

#endif
