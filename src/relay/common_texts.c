#include "relay/common_texts.h"

#include "relay/begin.h"
#include "relay/replay.h"
#include "relay/server_prepared.h"
#include "relay/session_state.h"
#include "wire/kept_settings.h"
#include "wire/sql_calls.h"
#include "wire/text_counts.h"

/* A longer text is not counted. */
enum { COMMON_MOST = 16 * 1024 };

struct slab *common_texts_slab(struct mem *mem)
{
	return slab_new(mem, "text_counts", text_counts_size());
}

void common_texts_free(struct site *site)
{
	slab_put(site->text_counts_slab, site->text_counts);
	site->text_counts = NULL;
}

/* Would a Parse succeed or fail as always, for all that is known?  Nothing may be on
 * its way to the server, because it could fail, or change what texts mean; nor may the
 * client have changed that in its transaction, or left it behind (see schema.h). */
static bool is_usual(const struct server *server)
{
	return begin_is_all(server) && pipeline_is_calm(&server->pipeline) &&
	       (server->status == 'I' || server->status == 'T') &&
	       !server->changes_schema && !server->link.schema.is_unusual &&
	       !server->link.is_trying_again && !replay_may_have_run(server) &&
	       !(server->leaks_left & LEAK_READING) &&
	       !kept_settings_are_read(server->kept) && !server->slot.is_replication;
}

struct prepared_text *common_texts_find(
    const struct server *server, const uint8_t *key, size_t len, bool has_escapes)
{
	const struct sql_effects none = {0};
	uint32_t often =
	    (uint32_t)scope_prepare_unnamed(scope_of_pool(server->slot.pool));
	struct site *site = server->conn.site;
	struct prepared_text *text;

	if (!often || !server_prepared_limit(server) || len > COMMON_MOST ||
	    has_escapes || !is_usual(server) ||
	    (session_state_are_kept(server) &&
		(sql_calls_may_be((const char *)key, len) ||
		    sql_calls_may_notify((const char *)key, len))))
		return NULL;
	if (!site->text_counts)
		site->text_counts = text_counts_init(slab_get(site->text_counts_slab));
	if (text_counts_add(site->text_counts, (uintptr_t)server->slot.pool, key, len) <
	    often)
		return NULL;
	text = server_prepared_shared(server, key, len);
	if (text && text->is_lasting)
		return text;
	if (!text_counts_is_lasting((const char *)key, len)) {
		text_counts_refuse(site->text_counts);
	} else if (text || (text = server_prepared_intern(
				server, site->prepared, key, len, &none))) {
		text->is_lasting = true;
		if (text->context)
			return text;
	}
	prepared_unref(text);
	return NULL;
}
