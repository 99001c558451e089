/*
 * SHOW LISTENERS.
 */
#include <stdio.h>

#include "relay/listen_table.h"
#include "views/views.def"
#include "views/views.h"

enum { POINTER_TEXT = 24, CHANNELS_SHOWN = 20 };

static void put_listener(
    struct rows *rows, const struct listen_pool *pool, const struct listening *l)
{
	const struct client *client = l->client;
	char ptr[POINTER_TEXT], addr[SOCK_ADDR_TEXT];
	const struct subscription *s;
	struct buf channels;
	size_t shown = 0;

	buf_init(&channels, 0);
	list_for (s, &l->subscriptions, of_client) {
		if (shown++ == CHANNELS_SHOWN) {
			buf_printf(&channels, ", .. (%zu)", l->subscriptions.count);
			break;
		}
		buf_printf(
		    &channels, "%s%s", channels.len ? ", " : "", s->channel->name);
	}
	snprintf(ptr, sizeof(ptr), "%p", (const void *)&client->conn);
	row_begin(rows);
	LISTENERS_COLUMNS(CELL)
	row_end(rows);
	buf_done(&channels);
}

void view_listeners(struct rows *rows)
{
	const struct listen_pool *pool;
	const struct listening *l;
	size_t at = 0;

	while ((pool = listen_table_next(rows->site, &at)))
		list_for (l, &pool->clients, node)
			put_listener(rows, pool, l);
}

unsigned view_listener_count(const struct pool *pool)
{
	const struct site *site = pool->database->catalog->events_ctx;
	const struct listen_pool *found = NULL;
	struct buf key;

	buf_init(&key, 0);
	buf_put_str(&key, pool->database->name);
	buf_put_str(&key, pool->user->name);
	if (!key.failed)
		found = listen_table_find(site, (const char *)key.bytes, key.len);
	buf_done(&key);
	return found ? (unsigned)found->clients.count : 0;
}
