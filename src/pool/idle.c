#include "pool/idle.h"

#include "pool/pool_effective.h"

void idle_note_pool(struct pool *pool)
{
	struct catalog *c = pool->database->catalog;
	bool is_idle = pool_is_empty(pool);

	if (is_idle == node_is_linked(&pool->idle_node))
		return;
	if (is_idle)
		list_push_back(&c->idle_pools, &pool->idle_node);
	else
		list_remove(&c->idle_pools, &pool->idle_node);
	if (!is_idle && !node_is_linked(&pool->counted_node))
		list_push_back(&c->counted, &pool->counted_node);
	/* 0 means "in use", so it must not be 0 even if the clock is */
	pool->idle_since_us = !is_idle ? 0 : c->seen_us ? c->seen_us : 1;
}

void idle_note_database(struct database *db)
{
	struct catalog *c = db->catalog;
	bool is_idle =
	    db->is_auto && !db->is_gone && !db->holder_count && !db->server_count;

	if (is_idle == node_is_linked(&db->idle_node))
		return;
	if (!is_idle)
		list_remove(&c->idle_databases, &db->idle_node);
	else if (db->was_used)
		list_push_back(&c->idle_databases, &db->idle_node);
	else
		list_push_front(&c->idle_databases, &db->idle_node);
	db->idle_since_us = !is_idle ? 0 : c->seen_us ? c->seen_us : 1;
}
