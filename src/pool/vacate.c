/*
 * Finds the databases that are the same one on the server, by their entries.
 */
#include "pool/vacate.h"

#include <string.h>

#include "pool/slots.h"

static bool is_same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

struct verdict vacate_next(
    struct catalog *c, const char *name, const char *from, bool is_there)
{
	const struct verdict nothing = {.kind = VERDICT_NONE, .wake_us = UINT64_MAX};
	int others = is_there ? -1 : 0;
	const struct database *own;
	struct slot *slot = NULL;
	struct database *db;
	bool is_new;

	/* what was described to another process must stay as it is */
	if (c->is_offered)
		return nothing;
	/* that of another worker's client may not be made here yet */
	own = catalog_database(c, from, &is_new);
	if (!own || own->is_admin)
		return nothing;
	/* other names of the same host are other servers */
	list_for (db, &c->database_list, node) {
		if (db->is_admin || strcmp(db->config->dbname, name) != 0 ||
		    !is_same(db->config->host, own->config->host) ||
		    !is_same(db->config->ports, own->config->ports))
			continue;
		others += db->limit ? atomic_load(&db->limit->clients) : 0;
		if (!slot && list_first(&db->resting))
			slot = container_of(
			    list_first(&db->resting), struct slot, db_node);
	}
	return slot && others <= 0 ? slot_retire(slot, "its database is to be vacated")
				   : nothing;
}
