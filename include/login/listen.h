/*
 * Listening sockets, and accepting.
 */
#ifndef LOGIN_LISTEN_H
#define LOGIN_LISTEN_H

#include <stdbool.h>

#include "base/err.h"
#include "session/site.h"

struct listener;

/* The sockets of a process that was killed may outlive it by some milliseconds, if it
 * used io_uring.  For so long a start looks again whether an address becomes free. */
enum { LISTEN_PATIENCE_MS = 500 };

/* Opens every socket that listen_addr, unix_socket_dir and LISTEN_FDS ask for and logs
 * each of them.  Returns -1 and fills err if the settings name nowhere to listen, or if
 * the sockets cannot be opened.  Blocks for at most patience_ms. */
int listen_open(struct site *site, int patience_ms, struct err *err);
/* Takes over a listening socket that another process has passed to this one.  It
 * accepts nothing yet; listen_open keeps it if the settings ask for its address. */
void listen_take(struct site *site, int fd, bool is_unix);
/* The process that passed them does not come back to them: the files of its unix
 * sockets are this one's, which removes them at its end. */
void listen_own(struct site *site);
/* Opens a socket to replace the unix socket that another process still uses, or whose
 * file it has removed.  Nobody finds it before listen_replace_unix. */
int listen_renew_unix(struct site *site, struct err *err);
/* Puts it in the place of the old one, whose connections that wait are accepted.
 * Clients find one of the two at any time. */
void listen_replace_unix(struct site *site);
/* Another process has taken over all listening sockets: closes them here and leaves the
 * files of unix sockets in place. */
void listen_let_go(struct site *site);
/* Stop and start accepting on all listening sockets, which stay open. */
void listen_stop(struct site *site);
void listen_start(struct site *site);
/* Closes the listening TCP sockets, and the unix sockets too if all is true. */
void listen_close(struct site *site, bool all);
/* Notes how many sockets the service manager has passed to this process.  Call it
 * before the process goes into the background: LISTEN_PID names the process that they
 * are for. */
void listen_note_passed(struct site *site);
/* Does another process serve the unix socket that these settings name, for as long as
 * patience_ms?  Blocks meanwhile. */
bool listen_is_in_use(
    const struct site *site, const struct settings *settings, int patience_ms);
/* Applies settings of sockets that a reload may have changed to the listening sockets.
 */
void listen_apply_settings(struct site *site);

#endif
