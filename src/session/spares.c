/*
 * Spare descriptors.  Who gets them at the descriptor limit is login/listen's business.
 */
#include "session/spares.h"

#include <fcntl.h>
#include <unistd.h>

void spares_init(struct site *site)
{
	site->spare_count = 0;
	spares_refill(site);
}

void spares_done(struct site *site)
{
	while (spares_give_up(site))
		;
}

bool spares_give_up(struct site *site)
{
	if (site->spare_count == 0)
		return false;
	close(site->spare_fds[--site->spare_count]);
	return true;
}

void spares_refill(struct site *site)
{
	while (site->spare_count < SITE_SPARES) {
		int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return;
		site->spare_fds[site->spare_count++] = fd;
	}
}
