/*
 * The HBA rules and ident maps that were loaded together.  The site holds those in
 * force; a login holds those with which it began until it ends.
 */
#ifndef SESSION_ACCESS_RULES_H
#define SESSION_ACCESS_RULES_H

#include <stdatomic.h>

#include "auth/hba.h"
#include "auth/ident.h"

struct access_rules {
	struct hba *hba;     /* owned */
	struct ident *ident; /* owned; NULL: there are no maps */
	atomic_uint refs;    /* workers share them */
};

/* Takes over both.  The caller gets the first reference. */
struct access_rules *access_rules_new(struct hba *hba, struct ident *ident);
/* Another reference to the same rules.  NULL gives NULL. */
struct access_rules *access_rules_ref(struct access_rules *rules);
/* Drops one reference and sets the caller's pointer to NULL.  The last one frees the
 * rules. */
void access_rules_unref(struct access_rules **rules);

#endif
