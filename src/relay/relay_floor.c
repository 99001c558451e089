/*
 * Makes and frees the part of struct site that belongs to the relay floor.
 */
#include "relay/relay_floor.h"

#include "relay/common_texts.h"
#include "relay/listen_hub.h"
#include "relay/login_answer.h"
#include "relay/long_text.h"
#include "relay/name_map.h"
#include "relay/replay.h"
#include "relay/server_prepared.h"
#include "relay/session_state.h"
#include "relay/unnamed.h"
#include "relay/vacate.h"
#include "session/workers.h"
#include "wire/prepared.h"

/* All workers have the same bytes of texts, but each counts their uses itself. */
static void make_registries(struct site *site)
{
	const struct workers *workers = site->worker ? site->worker->workers : NULL;

	site->prepared =
	    prepared_registry_new(workers ? prepared_store_ref(workers->texts)
					  : prepared_store_new(PREPARED_PREFIX));
	site->sql_prepared =
	    prepared_registry_new(workers ? prepared_store_ref(workers->sql_texts)
					  : prepared_store_new(PREPARED_SQL_PREFIX));
}

void relay_floor_init(struct site *site)
{
	make_registries(site);
	site->prepare_like = server_prepared_copy;
	site->long_texts = long_texts_new(site->loop);
	site->leak_table = leak_table_new();
	site->listens = listen_table_new(site, listen_hub_drop);
	site->login_answers = login_answers_new();
	list_init(&site->vacating);
	site->text_counts_slab = common_texts_slab(&site->mem);
	site->unnamed_slab = unnamed_slab(&site->mem);
	site->replay_slab = replay_slab(&site->mem);
	site->name_map_slab = name_map_slab(&site->mem);
}

void relay_floor_done(struct site *site)
{
	prepared_registry_free(&site->prepared);
	prepared_registry_free(&site->sql_prepared);
	long_texts_free(&site->long_texts);
	leak_table_free(&site->leak_table);
	listen_table_free(&site->listens);
	login_answers_free(&site->login_answers);
	vacate_stop(site);
	common_texts_free(site);
	slab_free(&site->text_counts_slab);
	slab_free(&site->unnamed_slab);
	slab_free(&site->replay_slab);
	slab_free(&site->name_map_slab);
}
