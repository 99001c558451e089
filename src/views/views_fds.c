#include "views/views_fds.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "handoff/movable.h"
#include "session/workers.h"
#include "views/views.def"
#include "views/views.h"
#include "wire/codec.h"

/* How long a console that does not read its answer may block the process before it is
 * closed. */
enum { PATIENCE_MS = 2000 };

struct fds {
	struct rows rows;
	struct client *receiver; /* gets descriptors and secrets; NULL: nobody */
};

struct fd_row {
	const char *task, *user, *database;
	const struct vars *vars; /* NULL: a listener has none */
	const struct pool *pool;
	struct sock_addr addr;
	int fd, port, link;
	long long cancel;
};

static long long key_number(const uint8_t *key, size_t len)
{
	uint64_t number = 0;

	for (size_t i = 0; i < 8; i++)
		number = number << 8 | (i < len ? key[i] : 0);
	return (long long)number;
}

static void fill_client(struct fd_row *row, const struct client *client)
{
	const struct server *server = client_server(client);
	const struct cancel_key *key = &client->cancel_key;

	row->task = "client";
	row->user = client->user ? client->user->name : NULL;
	row->database = client->database ? client->database->name : NULL;
	row->vars = &client->params.vars;
	row->pool = client->request.in_pool.pool;
	row->link = server ? server->conn.stream.fd : 0;
	if (key->len)
		row->cancel = key_number(cancel_key_bytes(key), key->len);
}

static void fill(struct fd_row *row, const struct movable *thing)
{
	memset(row, 0, sizeof(*row));
	if (thing->listener) {
		row->task = "pooler";
		row->fd = thing->listener->fd;
		sock_local(thing->listener->fd, &row->addr);
		row->port = row->addr.family == AF_UNIX
				? site_settings(thing->listener->site)->listen_port
				: row->addr.port;
		return;
	}
	row->fd = thing->conn->stream.fd;
	row->addr = thing->conn->remote;
	row->port =
	    row->addr.family == AF_UNIX ? thing->conn->unix_port : row->addr.port;
	if (thing->client) {
		fill_client(row, thing->client);
	} else {
		const struct client *client = server_client(thing->server);
		row->task = "server";
		row->user = thing->server->slot.pool->user->name;
		row->database = thing->server->slot.pool->database->name;
		row->vars = &thing->server->vars;
		row->link = client ? client->conn.stream.fd : 0;
		if (thing->server->key)
			row->cancel =
			    key_number(thing->server->key, thing->server->key_len);
	}
}

static const char *var_shown(const struct fd_row *row, size_t var)
{
	return row->vars ? vars_get(row->vars, var) : NULL;
}

/* "\x..." of a key, or NULL when the client has none. */
static const char *scram_key(const struct fd_row *row, const struct client *receiver,
    bool is_server_key, char out[2 * SCRAM_KEY_LEN + 3])
{
	const struct pool *pool = row->pool;

	if (!receiver || !pool || !pool->credentials.has_login_keys)
		return NULL;
	const uint8_t *key = is_server_key ? pool->credentials.login_keys.server_key
					   : pool->credentials.login_keys.client_key;
	size_t len = (size_t)snprintf(out, 3, "\\x");
	for (size_t i = 0; i < SCRAM_KEY_LEN; i++)
		len += (size_t)snprintf(out + len, 3, "%02x", key[i]);
	return out;
}

static const char *password_shown(
    const struct fd_row *row, const struct client *receiver)
{
	const struct pool *pool = row->pool;

	return receiver && pool && pool->credentials.found
		   ? pool->credentials.found->secret.text
		   : NULL;
}

static void put_row(struct fds *fds, const struct fd_row *row)
{
	const struct client *receiver = fds->receiver;
	struct rows *rows = &fds->rows;
	char ip[SOCK_ADDR_TEXT];
	char client_key[2 * SCRAM_KEY_LEN + 3], server_key[2 * SCRAM_KEY_LEN + 3];

	row_begin(rows);
	FDS_COLUMNS(CELL)
	row_end(rows);
	mem_wipe(client_key, sizeof(client_key));
	mem_wipe(server_key, sizeof(server_key));
}

/* Sends the bytes with a descriptor.  If that fails, the console is closed. */
static void send_with_fd(struct conn *conn, struct buf *out, int fd)
{
	struct err err;

	if (!conn->is_doomed && sock_send_fd(conn->stream.fd, out->bytes, out->len, fd,
				    PATIENCE_MS, &err) < 0) {
		conn_log(conn, LEVEL_WARNING | KIND_CONSOLE,
		    "cannot pass descriptors: %s", err.text);
		conn_doom(conn, "cannot pass descriptors");
	}
	mem_wipe(out->bytes, out->len);
	buf_clear(out);
}

/* False with TLS, whose state another process cannot take over. */
static bool can_be_moved(const struct movable *thing)
{
	const struct server *server =
	    thing->client ? client_server(thing->client) : NULL;

	if (thing->listener)
		return true;
	return thing->conn->stream.fd >= 0 && !thing->conn->stream.tls &&
	       thing->kind != MOVABLE_CANCEL && !(server && server->conn.stream.tls);
}

static void put_thing(void *ctx, const struct movable *thing)
{
	struct fds *fds = ctx;
	struct fd_row row;

	if (!can_be_moved(thing) ||
	    (thing->server && (thing->server->slot.state == SLOT_ACTIVE_CANCEL ||
				  thing->server->slot.state == SLOT_BEING_CANCELED)))
		return;
	fill(&row, thing);
	put_row(fds, &row);
	if (fds->receiver)
		send_with_fd(&fds->receiver->conn, fds->rows.out, row.fd);
}

void view_fds(struct rows *rows)
{
	struct fds fds = {.rows = *rows};

	movable_walk(rows->site, put_thing, &fds);
}

bool views_may_send_fds(const struct client *client)
{
	return client->is_unix_owner && client->user &&
	       strcmp(client->user->name, "pgbouncer") == 0;
}

/* Runs on the site's thread, while the console's thread waits. */
static void send_site(struct site *site, void *ctx)
{
	loop_note_shared(site->loop, true);
	movable_walk(site, put_thing, ctx);
}

void views_send_fds(struct client *client, size_t column_count)
{
	struct fds fds = {.receiver = client};
	struct conn *conn = &client->conn;
	struct buf out;

	buf_init(&out, 0);
	stream_flush(&conn->stream);
	rows_init(&fds.rows, conn->site, &out, column_count);
	/* the receiver wants everything, so it must not take a part for the whole */
	if (workers_each_own_first(conn->site, send_site, &fds) > 0 && !conn->is_doomed)
		conn_doom(conn, "cannot pass descriptors: a worker does not answer");
	codec_put_command_complete(&out, "SHOW");
	codec_put_ready(&out, 'I');
	conn_send(conn, &out);
	buf_done(&out);
}

void views_send_fd(struct client *client, const char *tag, int fd)
{
	struct buf out;

	loop_note_shared(client->conn.site->loop, true);
	buf_init(&out, 0);
	codec_put_command_complete(&out, tag);
	codec_put_ready(&out, 'I');
	stream_flush(&client->conn.stream);
	send_with_fd(&client->conn, &out, fd);
	buf_done(&out);
	close(fd);
}
