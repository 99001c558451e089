/*
 * Listening sockets, accepting, and the startup phase up to the StartupMessage.
 */
#ifndef LOGIN_LISTEN_H
#define LOGIN_LISTEN_H

#include <stdbool.h>

#include "base/err.h"
#include "session/client.h"
#include "session/site.h"

struct listener;
struct passage;

/* Open every socket that listen_addr, unix_socket_dir and LISTEN_FDS ask for; logs
 * each. -1 and err when none could be opened or a fatal condition holds. */
int listen_open(struct site *site, struct err *err);
/* A listening socket of another process: taken over, and stopped.  listen_open keeps it
 * if the settings ask for it. */
void listen_take(struct site *site, int fd, bool is_unix);
/* They are another process's now. */
void listen_let_go(struct site *site);
/* None accepts anything, and then all do again. */
void listen_stop(struct site *site);
void listen_start(struct site *site);
/* A connection that another process has accepted, and what it has said so far: a cancel
 * request that nobody knew there. */
void listen_admit(
    struct site *site, int fd, enum passed_from from, const uint8_t *bytes, size_t len);
/* A connection that comes from another site of the process: see passing.h. */
void listen_admit_passage(struct site *site, struct passage *passage);
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
