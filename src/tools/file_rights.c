#include "tools/file_rights.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Somebody who is not the owner: a member of this group, or of none that matters. */
struct stranger {
	bool has_group;
	gid_t group;
};

/* Returns the bits for others (rwx) that hold for the stranger. */
static unsigned bits_for(const struct stat *st, const struct stranger *who)
{
	if (who->has_group && who->group == st->st_gid)
		return (unsigned)st->st_mode >> 3 & 7;
	return (unsigned)st->st_mode & 7;
}

/* Whether the stranger gets through all folders above the file; path is cut. */
static bool is_reachable(char *path, const struct stranger *who)
{
	struct stat st;
	char *slash;

	while ((slash = strrchr(path, '/'))) {
		/* the slash of the root stays */
		slash[slash == path] = '\0';
		if (stat(path, &st) < 0 || !(bits_for(&st, who) & S_IXOTH))
			return false;
		if (slash == path)
			break;
	}
	return true;
}

static unsigned rights_of(
    const char *path, const struct stat *st, const struct stranger *who)
{
	unsigned bits = bits_for(st, who);
	char folders[PATH_MAX];

	strcpy(folders, path);
	if (!is_reachable(folders, who))
		return 0;
	return (bits & S_IROTH ? FILE_RIGHTS_READ : 0) |
	       (bits & S_IWOTH ? FILE_RIGHTS_WRITE : 0);
}

/* Returns whether the file can be looked at; real has room for PATH_MAX bytes. */
static bool find_file(const char *path, char *real, struct stat *st)
{
	return path && *path && realpath(path, real) && stat(real, st) == 0;
}

unsigned file_rights_of_all(const char *path)
{
	char real[PATH_MAX];
	struct stat st;

	if (!find_file(path, real, &st))
		return 0;
	return rights_of(real, &st, &(struct stranger){.has_group = false});
}

unsigned file_rights_of_others(const char *path)
{
	char real[PATH_MAX];
	struct stat st;
	unsigned rights = file_rights_of_all(path);

	if (find_file(path, real, &st) && st.st_gid != 0 && st.st_gid != getegid())
		rights |= rights_of(real, &st,
		    &(struct stranger){.has_group = true, .group = st.st_gid});
	return rights;
}
