/*
 * Bounds the memory that clients in mid-login use together.
 */
#ifndef LOGIN_LONG_PARTS_H
#define LOGIN_LONG_PARTS_H

#include <stddef.h>

#include "session/client.h"

/* Messages of logins have some hundred bytes.  A site keeps longer parts of messages
 * for a few clients at a time. */
enum { LONG_PARTS_FROM = 4096, LONG_PARTS_MOST = 64 };

/* A client in mid-login is going to keep len bytes of an incomplete message.  If they
 * are many, and as many other clients of its site as may keep so many do, the oldest of
 * those is closed with an error. */
void long_parts_make_room(const struct client *keeper, size_t len);

#endif
