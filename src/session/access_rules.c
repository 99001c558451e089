#include "session/access_rules.h"

#include "base/mem.h"

struct access_rules *access_rules_new(struct hba *hba, struct ident *ident)
{
	struct access_rules *rules = mem_zero(sizeof(*rules));

	rules->hba = hba;
	rules->ident = ident;
	rules->refs = 1;
	return rules;
}

struct access_rules *access_rules_ref(struct access_rules *rules)
{
	if (rules)
		atomic_fetch_add(&rules->refs, 1);
	return rules;
}

void access_rules_unref(struct access_rules **r)
{
	struct access_rules *rules = *r;

	*r = NULL;
	if (!rules || atomic_fetch_sub(&rules->refs, 1) > 1)
		return;
	hba_free(&rules->hba);
	ident_free(&rules->ident);
	oauth_keys_unref(&rules->oauth_keys);
	mem_free(rules);
}
