/*
 * The text of a named statement that is too long to be compared with others, or to be
 * copied or freed in one turn of the loop.  It is kept in parts as it arrives and is
 * not shared with other clients.
 */
#ifndef RELAY_LONG_TEXT_H
#define RELAY_LONG_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/loop.h"
#include "net/stream.h"
#include "session/server.h"
#include "session/site.h"
#include "wire/prepared.h"

/* A Parse with more bytes than this after its name has a long text. */
enum { LONG_TEXT_MORE_THAN = 2 * 1024 * 1024 };

/* The set of long texts without references, which are freed a few parts per turn. */
struct long_texts *long_texts_new(struct loop *loop);
void long_texts_free(struct long_texts **all);

/* Makes a long text and copies the part of the Parse after its name that has arrived.
 * One reference for the caller.  NULL: no memory. */
struct prepared_text *long_text_new(const struct site *site,
    const struct sql_effects *effects, const uint8_t *p, size_t len);
bool long_text_is(const struct prepared_text *text);
/* The rest of the Parse, if it is incomplete, will be appended to this text. */
void long_text_expect(
    struct server *server, const struct message *m, struct prepared_text *text);
/* More bytes of a message have arrived: appends them if a text expects them.  -1: no
 * memory. */
int long_text_part(struct server *server, const uint8_t *p, size_t len, bool is_last);
/* No text expects bytes any more. */
void long_text_forget(struct server *server);
/* Sends the text, without copying it. */
size_t long_text_len(const struct prepared_text *text);
void long_text_put(const struct prepared_text *text, struct stream *stream);

#endif
