/* HBA texts parsed for tests, and peers that ask. */
#ifndef HBA_ASKING_H
#define HBA_ASKING_H

#include <stdbool.h>

#include "auth/hba.h"
#include "base/buf.h"
#include "base/mem.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

struct notes {
	struct buf text; /* a line for each note */
	bool has_place;  /* with "where|" in front */
};

/* For hba_parse: ctx is struct notes; the other one fails when a remark comes. */
void take_note(void *ctx, enum remark kind, const char *where, const char *text);
void no_note(void *ctx, enum remark kind, const char *where, const char *text);
/* There is one ident map: "ok".  NULL when the file is refused. */
struct hba *parse_noting(const char *text, struct notes *n);
/* No remark may come. */
struct hba *parse(const char *text);

/* joe asks for db; ip NULL: by a unix socket. */
struct hba_peer peer_at(const char *ip);
/* The line of the rule that fits, 0 when none does. */
unsigned line_for(const struct hba *hba, const struct hba_peer *p);
/* Does this one rule fit? */
bool is_let_in(const char *rule, const struct hba_peer *p);
bool is_address_in(const char *rule, const char *ip);
bool is_name_in(const char *rule, const char *database, const char *user);

/* The file of this one line is refused with this fault. */
void expect_refused(const char *line, const char *why);

#endif
