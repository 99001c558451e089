/*
 * Carries frames, each with a descriptor or without, over a socket between two
 * processes of one machine.
 */
#ifndef DAEMON_COURIER_H
#define DAEMON_COURIER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/loop.h"

struct courier;

struct courier_ops {
	/* A frame came; bytes are borrowed, fd (-1: none) is the receiver's.  It may
	 * send, but must not free the courier. */
	void (*arrived)(
	    void *ctx, uint8_t kind, const uint8_t *bytes, size_t len, int fd);
	/* The other end is closed (err NULL), or what came cannot be read.  Called
	 * once; the owner frees the courier then or later. */
	void (*ended)(void *ctx, const struct err *err);
};

/* Frames longer than this are not sent and not believed. */
enum { COURIER_FRAME_MAX = 512 * 1024 * 1024 };

/* fd is a non-blocking socket, the courier's from now on. */
struct courier *courier_new(
    struct loop *loop, int fd, const struct courier_ops *ops, void *ctx);
void courier_free(struct courier **courier);

/* Sends the whole frame, and waits for the other end to read, each time at most so
 * long. fd stays the caller's.  -1 and err: the other end will not understand anything
 * sent after that. */
int courier_send(struct courier *courier, uint8_t kind, const void *bytes, size_t len,
    int fd, int patience_ms, struct err *err);
/* It is over: nothing that the other end sends from now on arrives, and its sending
 * fails; what it has sent before arrives inside the call. */
void courier_cut(struct courier *courier);

#endif
