/*
 * SHOW FDS together with the descriptors.
 */
#ifndef VIEWS_VIEWS_FDS_H
#define VIEWS_VIEWS_FDS_H

#include <stdbool.h>

#include "session/client.h"

/* Whether the client is a console of the process's owner on the Unix socket. */
bool views_may_send_fds(const struct client *client);
/* Sends the rows behind the RowDescription, each with its descriptor (SCM_RIGHTS) in
 * one message of the socket, and with the secrets that an online restart needs.  Waits
 * for a console that reads slowly, and closes one that does not read. */
void views_send_fds(struct client *client, size_t column_count);
/* Sends the answer to a command with this tag and this descriptor, which is closed here
 * afterwards. */
void views_send_fd(struct client *client, const char *tag, int fd);

#endif
