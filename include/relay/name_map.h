/*
 * Changes names in answers: PostgreSQL's messages have the pooler's name of a
 * statement, and the client must read its own name for it.
 */
#ifndef RELAY_NAME_MAP_H
#define RELAY_NAME_MAP_H

#include <stdint.h>

#include "session/server.h"
#include "wire/prepared.h"
#include "wire/prepared_sql.h"

/* An answer whose names are to be changed. */
struct name_map {
	struct node node;
	uint32_t tag;
	/* how the position in an error changes; 0: not at all */
	struct prepared_sql_move move;
	/* for a Parse that should fail because the name is in use: the text that gets
	 * the name if the Parse succeeds; one reference, or NULL */
	struct prepared_text *parsed;
	/* for the Execute of PREPARE, EXECUTE or DEALLOCATE: what its success changes
	 */
	enum command_kind kind;
	struct prepared_text *text; /* one reference, or NULL */
	bool is_short;              /* it is of the slab */
	char ours[PREPARED_NAME_SIZE];
	char theirs[];
};
/* Aliases whose names are short, as nearly all are, come from a slab. */
struct slab *name_map_slab(struct mem *mem);
/* Makes an alias for the answer of this tag and enters it in the link.  NULL: no
 * memory. */
struct name_map *name_map_new(
    struct server *server, uint32_t tag, const char *ours, const char *theirs);
/* Sends a message up to and including the pooler's name of the statement, in place of
 * the client's, and enters it in the ledger.  The rest are the client's bytes from
 * *rest on.  -1: no memory. */
int name_map_send(struct server *server, const struct message *m, const char *name,
    uint32_t tag, size_t *rest);
/* The same, and the client will read its own name in errors about the statement. */
int name_map_send_back(struct server *server, const struct message *m, const char *ours,
    const char *theirs, size_t *rest);
/* The alias of this tag; NULL: there is none. */
struct name_map *name_map_find(const struct server *server, uint32_t tag);
void name_map_end(struct server *server, uint32_t tag);
void name_map_clear_all(struct server *server);

#endif
