/*
 * Stopping and starting one listening socket.
 */
#include "session/listener.h"

void listener_stop(struct listener *listener)
{
	listener->is_stopped = true;
	watch_off(listener->watch);
}

void listener_start(struct listener *listener)
{
	if (!listener->is_stopped)
		return;
	listener->is_stopped = false;
	/* a pause after a failed accept() ends by its own deadline */
	if (listener->pause.at_us == UINT64_MAX)
		watch_on(listener->watch);
}
