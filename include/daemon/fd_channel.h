/*
 * Sends and receives frames over a unix socket between two processes.  A frame may
 * carry one file descriptor.
 */
#ifndef DAEMON_FD_CHANNEL_H
#define DAEMON_FD_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/loop.h"

struct fd_channel;

struct fd_channel_ops {
	/* A frame has arrived.  bytes are borrowed; fd (-1: none) belongs to the
	 * receiver.  The function may send, but must not free the channel. */
	void (*arrived)(
	    void *ctx, uint8_t kind, const uint8_t *bytes, size_t len, int fd);
	/* The other end has closed (err NULL), or sent something that cannot be read.
	 * Called once; the owner frees the channel then or later. */
	void (*ended)(void *ctx, const struct err *err);
};

/* Longer frames are not sent, and end the connection when they are received. */
enum { FD_CHANNEL_FRAME_MAX = 512 * 1024 * 1024 };

/* fd is a non-blocking socket, which the channel owns from now on. */
struct fd_channel *fd_channel_new(
    struct loop *loop, int fd, const struct fd_channel_ops *ops, void *ctx);
void fd_channel_free(struct fd_channel **channel);

/* Sends a whole frame.  When the socket is full it waits at most patience_ms
 * milliseconds for the other end to read something.  fd stays the caller's.  -1 and
 * err: the frame was not sent completely, so nothing more may be sent. */
int fd_channel_send(struct fd_channel *channel, uint8_t kind, const void *bytes,
    size_t len, int fd, int patience_ms, struct err *err);
/* Closes the connection for the other end: nothing that it sends from now on arrives,
 * and its sending fails.  Frames that it has sent before are delivered inside the call.
 */
void fd_channel_cut(struct fd_channel *channel);
/* Whether this end has ceased to receive because it could not read: the other end may
 * have noticed that, and cannot answer. */
bool fd_channel_is_deaf(const struct fd_channel *channel);

#endif
