/* Parses HBA texts for tests, and builds peers to look up. */
#ifndef HBA_ASKING_H
#define HBA_ASKING_H

#include <stdbool.h>

#include "auth/hba.h"
#include "base/buf.h"
#include "base/mem.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

struct notes {
	struct buf text; /* one line per note */
	bool has_place;  /* each line begins with "where|" */
};

/* Callbacks for hba_parse: take_note writes to ctx, a struct notes; no_note fails. */
void take_note(void *ctx, enum diagnostic kind, const char *where, const char *text);
void no_note(void *ctx, enum diagnostic kind, const char *where, const char *text);
/* Parses with one ident map, "ok".  Returns NULL when the file is refused. */
struct hba *parse_noting(const char *text, struct notes *n);
/* Fails on any report. */
struct hba *parse(const char *text);

/* The peer is joe, who asks for db; ip NULL: by a unix socket. */
struct hba_peer peer_at(const char *ip);
/* The line of the rule that fits, or 0. */
unsigned line_for(const struct hba *hba, const struct hba_peer *p);
/* Does this one rule fit? */
bool is_let_in(const char *rule, const struct hba_peer *p);
bool is_address_in(const char *rule, const char *ip);
bool is_name_in(const char *rule, const char *database, const char *user);

/* A file of this one line is refused with this fault. */
void expect_refused(const char *line, const char *why);

#endif
