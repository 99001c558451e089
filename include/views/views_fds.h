/*
 * SHOW FDS with the descriptors themselves.
 */
#ifndef VIEWS_VIEWS_FDS_H
#define VIEWS_VIEWS_FDS_H

#include <stdbool.h>

#include "session/client.h"

/* Is this the console of the process's owner, over the unix socket? */
bool views_may_send_fds(const struct client *client);
/* The answer behind the RowDescription, which was sent; each row comes with its
 * descriptor (SCM_RIGHTS), in one message of the socket, and with the secrets that a
 * takeover needs.  Waits for a console that is slow to read, and closes one that does
 * not. */
void views_send_fds(struct client *client, size_t column_count);
/* The answer to a command with this tag, and this descriptor with it, which is closed
 * here. */
void views_send_fd(struct client *client, const char *tag, int fd);

#endif
