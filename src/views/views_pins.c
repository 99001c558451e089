/*
 * What sessions leave on servers: SHOW PINS, STATE_LEAKS and PREPARED_STATEMENTS.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/pins.h"
#include "relay/pin_question.h"
#include "relay/session_state.h"
#include "session/client.h"
#include "session/server.h"
#include "views/views.def"
#include "views/views.h"
#include "wire/prepared.h"

enum { POINTER_TEXT = 24 };

unsigned view_server_pid(const struct server *server)
{
	bool has_peer = server->conn.remote.family == AF_UNIX && server->conn.peer_pid;

	return has_peer ? (unsigned)server->conn.peer_pid : server->remote_pid;
}

static void put_pin(struct rows *rows, const struct pool *pool,
    const struct server *server, const struct client *client)
{
	const struct link_pin *pin = &server->link.pin;
	char ptr[POINTER_TEXT], link[POINTER_TEXT], addr[SOCK_ADDR_TEXT];
	struct buf kinds;

	buf_init(&kinds, 0);
	pin_question_put_kinds(pin->kinds, &kinds);
	snprintf(ptr, sizeof(ptr), "%p", (const void *)&client->conn);
	snprintf(link, sizeof(link), "%p", (const void *)&server->conn);
	row_begin(rows);
	PINS_COLUMNS(CELL)
	row_end(rows);
	buf_done(&kinds);
}

void view_pins(struct rows *rows)
{
	const struct pool *pool;
	const struct slot *slot;

	list_for (pool, &rows->site->catalog->pool_list, node) {
		if (!pins_count(pool))
			continue;
		list_for (slot, &pool->slots[SLOT_ACTIVE], node) {
			const struct server *server =
			    container_of(slot, struct server, slot);
			const struct client *client = server_client(server);
			if (client && server->link.pin.kinds)
				put_pin(rows, pool, server, client);
		}
	}
}

/* ---- SHOW LEAKS ---- */

void view_state_leaks(struct rows *rows)
{
	const struct leak_row *leak;

	if (!rows->site->leak_table)
		return;
	list_for (leak, session_state_rows(rows->site->leak_table), node) {
		row_begin(rows);
		STATE_LEAKS_COLUMNS(CELL)
		row_end(rows);
	}
}

/* ---- SHOW PREPARED_STATEMENTS ---- */

/* How many bytes of a query are shown, which is enough to recognize it. */
enum { QUERY_SHOWN = 200 };

static void put_prepared(struct rows *rows, const struct prepared_text *text)
{
	char query[QUERY_SHOWN + sizeof("...")];
	struct buf list;

	/* copies a query and cuts it, but not within a UTF-8 character */
	const char *sql = prepared_sql(text);
	size_t len = strlen(sql);
	bool is_cut = len > QUERY_SHOWN;
	if (is_cut)
		for (len = QUERY_SHOWN;
		     len && ((unsigned char)sql[len] & 0xc0) == 0x80;)
			len--;
	memcpy(query, sql, len);
	memcpy(query + len, is_cut ? "..." : "", is_cut ? sizeof("...") : 1);
	buf_init(&list, 0);
	for (size_t i = 0; i < prepared_type_count(text); i++)
		buf_printf(&list, "%s%u", i ? "," : "", prepared_type(text, i));
	const char *types = buf_text(&list);
	row_begin(rows);
	PREPARED_COLUMNS(CELL)
	row_end(rows);
	buf_done(&list);
}

static void put_all(struct rows *rows, const struct prepared_registry *registry)
{
	struct prepared_text **texts;
	size_t count = 0;

	if (!registry)
		return;
	texts = prepared_registry_sorted(registry, &count);
	for (size_t i = 0; i < count; i++)
		put_prepared(rows, texts[i]);
	free(texts);
}

void view_prepared_statements(struct rows *rows)
{
	put_all(rows, rows->site->prepared);
	put_all(rows, rows->site->sql_prepared);
}
