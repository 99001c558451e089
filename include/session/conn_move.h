/*
 * A connection goes to another thread of the process as the same object, or to another
 * process as a description with its socket.
 */
#ifndef SESSION_CONN_MOVE_H
#define SESSION_CONN_MOVE_H

#include "session/conn.h"

/* For a takeover: conn_stop, and the engine takes no more bytes from the socket. */
void conn_quiesce(struct conn *conn);
/* After conn_quiesce: is nothing in transit any more?  Then all output has been sent,
 * and what the peer has sent is in memory here or still in the socket. */
bool conn_is_silent(const struct conn *conn);
/*
 * To another site of the process as the same object.  conn_leave: no more messages are
 * shown, and ops->leaves follows in a later step of the turn; it calls conn_detach.
 * conn_detach may also be called from outside of the connection's handlers.  Then no
 * thread has the connection, until conn_attach is called at the other site: what has
 * arrived and was not taken is shown to its owner there, and no deadline is set.
 * Instead of that, conn_close_detached closes the socket.  -1: no memory; the
 * connection stays and is doomed.
 */
void conn_leave(struct conn *conn);
int conn_detach(struct conn *conn);
void conn_attach(struct conn *conn, struct site *site);
void conn_close_detached(struct conn *conn);
/* Appends the bytes that have arrived and were not taken; they are kept here as well.
 */
void conn_put_unread(const struct conn *conn, struct buf *out);
/* Takes over a connected socket that another process has served so far.  passing: how
 * many bytes of a message that was taken are still to come.  bytes: what has arrived
 * and was not taken; they are copied and shown later in this turn.  -1: no memory. */
int conn_restore(
    struct conn *conn, int fd, uint64_t passing, const uint8_t *bytes, size_t len);

#endif
