/*
 * What the relay floor needs before the first connection.
 */
#include "relay/relay_floor.h"

#include "relay/leaks.h"
#include "wire/prepared.h"

void relay_floor_init(struct site *site)
{
	site->prepared = prepared_registry_new();
	site->sql_prepared = prepared_registry_new_named("PGBOUNCER_SQL_");
	site->leaks = leaks_new();
}

void relay_floor_done(struct site *site)
{
	prepared_registry_free(&site->prepared);
	prepared_registry_free(&site->sql_prepared);
	leaks_free(&site->leaks);
}
