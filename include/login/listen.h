/*
 * Listening sockets, accepting, and the startup phase up to the StartupMessage.
 */
#ifndef LOGIN_LISTEN_H
#define LOGIN_LISTEN_H

#include <stdbool.h>

#include "base/err.h"
#include "session/site.h"

struct listener;

/* Open every socket that listen_addr, unix_socket_dir and LISTEN_FDS ask for; logs
 * each. -1 and err when none could be opened or a fatal condition holds. */
int listen_open(struct site *site, struct err *err);
/* Stop accepting: TCP ones are closed; unix ones too when all is true. */
void listen_close(struct site *site, bool all);
/* Notes how many sockets the service manager has passed to this process.  To be called
 * before the process goes into the background: they are passed by process id. */
void listen_note_passed(struct site *site);
/* Does another process serve the unix socket that these settings name? */
bool listen_is_in_use(const struct site *site, const struct settings *settings);
/* Settings of sockets may have changed. */
void listen_apply_settings(struct site *site);

#endif
