/*
 * HBA rules and ident maps with a reference count.  auth/hba.c and auth/ident.c apply
 * them.
 */
#include "session/rules.h"

#include "base/mem.h"

struct rules *rules_new(struct hba *hba, struct ident *ident)
{
	struct rules *rules = mem_zero(sizeof(*rules));

	rules->hba = hba;
	rules->ident = ident;
	rules->refs = 1;
	return rules;
}

struct rules *rules_ref(struct rules *rules)
{
	if (rules)
		atomic_fetch_add(&rules->refs, 1);
	return rules;
}

void rules_unref(struct rules **r)
{
	struct rules *rules = *r;

	*r = NULL;
	if (!rules || atomic_fetch_sub(&rules->refs, 1) > 1)
		return;
	hba_free(&rules->hba);
	ident_free(&rules->ident);
	mem_free(rules);
}
