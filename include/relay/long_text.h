/*
 * The text of a named statement that is too long to be compared with others, or to be
 * copied or freed in one turn: kept in parts as it arrives, shared with nobody.
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

/* A Parse with more than this behind its name is one. */
enum { LONG_TEXT_MORE_THAN = 2 * 1024 * 1024 };

/* Those that nobody needs any more, freed some parts per turn. */
struct long_texts *long_texts_new(struct loop *loop);
void long_texts_free(struct long_texts **all);

/* A text that nobody else gets, with what is here of the Parse behind its name, copied.
 * One reference for the caller.  NULL: no memory. */
struct prepared_text *long_text_new(const struct site *site,
    const struct sql_effects *effects, const uint8_t *p, size_t len);
bool long_text_is(const struct prepared_text *text);
/* The rest of the Parse, if there is more to come, belongs to its text. */
void long_text_expect(
    struct server *server, const struct message *m, struct prepared_text *text);
/* More bytes of a message, whether they are expected or not.  -1: no memory. */
int long_text_part(struct server *server, const uint8_t *p, size_t len, bool is_last);
/* Nothing is expected any more. */
void long_text_forget(struct server *server);
/* All of them, by reference. */
size_t long_text_len(const struct prepared_text *text);
void long_text_put(const struct prepared_text *text, struct stream *stream);

#endif
