/* links: base conf */
/* Any bytes as a connection string; an entry that is accepted is as in config.h. */
#include <stdlib.h>
#include <string.h>

#include "conf/entry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
	if (!holds)
		abort();
}

static void check_database(const struct database_config *db)
{
	must(db->dbname && *db->dbname);
	must(db->host_count >= 1);
	must(db->port >= 1 && db->port <= 65535);
	must(db->own.default_pool_size >= 0 && db->own.min_pool_size >= 0);
	for (size_t i = 0; i < db->host_count; i++) {
		must(db->hosts[i].weight >= 1);
		must((db->hosts[i].host == NULL) == (db->host == NULL));
	}
	must(setting_pool_mode_name(db->own.pool_mode) != NULL);
	must(setting_load_balance_name(db->load_balance_hosts) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *arena = arena_new();
	char *text = arena_strndup(arena, size ? (const char *)data : "", size);
	struct database_config db, again;
	struct user_config user;
	struct peer_config peer;
	struct err err;

	if (entry_parse_connstr(&db, "d", text, arena, &err) == 0) {
		check_database(&db);
		must(strcmp(db.connstr, text) == 0);
		must(entry_parse_connstr(&again, "d", text, arena, &err) == 0);
		must(!entry_is_obsoleting(&db, &again));
	}
	if (entry_parse_user(&user, "u", text, arena, NULL, &err) == 0)
		must(user.own.default_pool_size >= 0);
	if (entry_parse_peer(&peer, "1", text, arena, NULL, &err) == 0)
		must(peer.host != NULL);
	arena_free(&arena);
	return 0;
}
