/*
 * HBA rules and ident maps as one counted thing.  What they say is auth's business.
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
