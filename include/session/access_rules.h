/*
 * The HBA rules, ident maps and keys for tokens that were loaded together.  The site
 * holds those in force; a login holds those with which it began until it ends.
 */
#ifndef SESSION_ACCESS_RULES_H
#define SESSION_ACCESS_RULES_H

#include <stdatomic.h>

#include "auth/hba.h"
#include "auth/ident.h"
#include "auth/oauth_keys.h"

struct access_rules {
	struct hba *hba;     /* owned */
	struct ident *ident; /* owned; NULL: there are no maps */
	/* one reference: the keys of oauth_keys_file, for the tokens of all issuers;
	 * NULL: they are fetched */
	struct oauth_keys *oauth_keys;
	atomic_uint refs; /* workers share them */
};

/* Takes over both.  The caller gets the first reference. */
struct access_rules *access_rules_new(struct hba *hba, struct ident *ident);
/* Another reference to the same rules.  NULL gives NULL. */
struct access_rules *access_rules_ref(struct access_rules *rules);
/* Drops one reference and sets the caller's pointer to NULL.  The last one frees the
 * rules. */
void access_rules_unref(struct access_rules **rules);

#endif
