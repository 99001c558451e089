#include "session/reserved_fds.h"

#include <fcntl.h>
#include <unistd.h>

#include "session/workers.h"

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
	/* workers accept no connections */
	while (workers_is_control(site) && site->spare_count < SITE_SPARES) {
		int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return;
		site->spare_fds[site->spare_count++] = fd;
	}
}
