/*
 * SHOW PINS.
 */
#include <stdio.h>

#include "pool/pins.h"
#include "relay/pin_question.h"
#include "session/client.h"
#include "session/server.h"
#include "views/views.def"
#include "views/views.h"

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
