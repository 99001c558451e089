/*
 * prepare_unnamed: texts that clients send again and again for their unnamed
 * statements. Which ones these are is counted; from then on the shared statement that
 * named ones use serves them, where a Parse would make the same statement for certain.
 */
#ifndef RELAY_COMMON_TEXTS_H
#define RELAY_COMMON_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "session/server.h"
#include "wire/prepared.h"

/* Makes site->text_counts_slab, for the table that counts texts of a site. */
struct slab *common_texts_slab(struct mem *mem);
/* Frees that table. */
void common_texts_free(struct site *site);

/* Counts the text of a whole unnamed Parse: len bytes from behind its name.  Returns
 * the shared text that may serve it now, with a reference for the caller; or NULL: the
 * Parse has to be sent.  has_escapes: see sql_facts_has_escapes. */
struct prepared_text *common_texts_find(
    const struct server *server, const uint8_t *key, size_t len, bool has_escapes);

#endif
