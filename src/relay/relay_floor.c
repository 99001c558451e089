/*
 * Makes and frees the part of struct site that belongs to the relay floor.
 */
#include "relay/relay_floor.h"

#include "relay/alias.h"
#include "relay/leaks.h"
#include "relay/long_text.h"
#include "relay/opening.h"
#include "relay/segment.h"
#include "relay/unnamed.h"
#include "wire/prepared.h"

void relay_floor_init(struct site *site)
{
	site->prepared = prepared_registry_new();
	site->sql_prepared = prepared_registry_new_named("PGBOUNCER_SQL_");
	site->long_texts = long_texts_new(site->loop);
	site->leaks = leaks_new();
	site->openings = openings_new();
	site->unnamed_slab = unnamed_slab(&site->mem);
	site->segment_slab = segment_slab(&site->mem);
	site->alias_slab = alias_slab(&site->mem);
}

void relay_floor_done(struct site *site)
{
	prepared_registry_free(&site->prepared);
	prepared_registry_free(&site->sql_prepared);
	long_texts_free(&site->long_texts);
	leaks_free(&site->leaks);
	openings_free(&site->openings);
	slab_free(&site->unnamed_slab);
	slab_free(&site->segment_slab);
	slab_free(&site->alias_slab);
}
