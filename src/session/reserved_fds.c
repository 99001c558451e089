/*
 * Spare descriptors.  login/listen.c decides at the descriptor limit what they are used
 * for.
 */
#include "session/reserved_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "session/crew.h"

void reserved_fds_init(struct site *site)
{
	site->spare_count = 0;
	reserved_fds_refill(site);
}

void reserved_fds_done(struct site *site)
{
	while (reserved_fds_give_up(site))
		;
}

bool reserved_fds_give_up(struct site *site)
{
	if (site->spare_count == 0)
		return false;
	close(site->spare_fds[--site->spare_count]);
	return true;
}

void reserved_fds_refill(struct site *site)
{
	/* a worker accepts no connections, but needs one for reserved_fds_duplicate */
	while (site->spare_count < (crew_is_control(site) ? SITE_SPARES : 1)) {
		int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return;
		site->spare_fds[site->spare_count++] = fd;
	}
}

int reserved_fds_duplicate(struct site *site, int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (copy >= 0)
		reserved_fds_refill(site);
	else if (errno == EMFILE && site->spare_count > 0)
		/* in one step: another thread accepts connections meanwhile */
		copy = dup3(fd, site->spare_fds[--site->spare_count], O_CLOEXEC);
	return copy;
}
