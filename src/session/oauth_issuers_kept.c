/*
 * The table of issuers.
 */
#include "session/oauth_issuers_kept.h"

#include "base/map.h"
#include "base/mem.h"

struct oauth_issuers_kept *oauth_issuers_kept_new(void)
{
	struct oauth_issuers_kept *kept = mem_zero(sizeof(*kept));

	pthread_mutex_init(&kept->lock, NULL);
	kept->table = map_new();
	return kept;
}

void oauth_issuers_kept_free(struct oauth_issuers_kept **keptp)
{
	struct oauth_issuers_kept *kept = *keptp;
	struct oauth_issuer *issuer;
	size_t at = 0;

	*keptp = NULL;
	while ((issuer = map_next(kept->table, &at))) {
		oauth_keys_unref(&issuer->keys);
		mem_free(issuer->failure);
		map_del_str(kept->table, issuer->name);
		mem_free(issuer->name);
		mem_free(issuer);
	}
	map_free(&kept->table);
	pthread_mutex_destroy(&kept->lock);
	mem_free(kept);
}

struct oauth_issuer *oauth_issuers_kept_find(
    struct oauth_issuers_kept *kept, const char *name)
{
	struct oauth_issuer *issuer = map_get_str(kept->table, name);

	if (!issuer) {
		issuer = mem_zero(sizeof(*issuer));
		issuer->name = mem_strdup(name);
		map_put_str(kept->table, issuer->name, issuer);
	}
	return issuer;
}
