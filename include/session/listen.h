/*
 * Listening sockets, accepting, and the startup phase up to the StartupMessage.
 */
#ifndef SESSION_LISTEN_H
#define SESSION_LISTEN_H

#include <stdbool.h>

#include "base/err.h"
#include "session/site.h"

struct listener;

/* Open every socket that listen_addr, unix_socket_dir and LISTEN_FDS ask for; logs
 * each. -1 and err when none could be opened or a fatal condition holds. */
int listen_open(struct site *site, struct err *err);
/* Stop accepting: TCP ones are closed; unix ones too when all is true. */
void listen_close(struct site *site, bool all);
/* Is someone accepting on our unix socket already? */
bool listen_is_in_use(const struct settings *settings);
/* tcp_defer_accept may have changed. */
void listen_apply_settings(struct site *site);

#endif
