/* links: login relay handoff cancel broker session pool wire auth net conf base */
/*
 * A server sends any bytes, from its first answer on or after its login, while
 * clients send queries.  First byte: how to begin; second: sizes of the pieces; third:
 * what the client asks.  The process neither stops nor hangs, and it keeps no memory or
 * connection.
 */
#include <stdint.h>

#include "../unit/stage/stage.c"

enum { BEGIN_GREETED = 1, BEGIN_SESSION = 2, BEGIN_CANCEL = 4, BEGIN_SECOND = 8 };

static void ask(struct peer *client, uint8_t what)
{
	switch (what & 3) {
	case 0:
		peer_text(client, 'Q', "select 1");
		break;
	case 1:
		peer_put(client, 'P', "\0select 1\0\0", 12);
		peer_put(client, 'B', "\0\0\0\0\0\0\0\0", 8);
		peer_put(client, 'D', "P\0", 2);
		peer_put(client, 'E', "\0\0\0\0\0", 5);
		peer_put(client, 'S', "", 0);
		break;
	case 2:
		peer_text(client, 'Q', "copy t from stdin");
		peer_put(client, 'd', "1\n", 2);
		peer_put(client, 'S', "", 0);
		peer_put(client, 'c', "", 0);
		break;
	case 3:
		peer_text(client, 'Q', "begin");
		peer_text(client, 'Q', "commit");
		break;
	}
}

static void ask_to_cancel(struct stage *stage, const struct peer *client)
{
	struct peer *carrier = stage_client(stage);
	struct buf b;
	buf_init(&b, 0);
	codec_put_cancel_request(&b, client->key, CANCEL_KEY_LEN);
	peer_send(carrier, b.bytes, b.len);
	buf_done(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t how = size > 0 ? data[0] : 0, what = size > 2 ? data[2] : 0;
	size_t piece = size > 1 ? 1 + (data[1] & 63) : 1;
	struct stage *stage = stage_new(
	    "pool_size=1", how & BEGIN_SESSION ? "pool_mode = session\n" : "");
	struct peer *client, *server, *second = NULL;

	stage_set(stage, "server_login_retry", "60");
	if (how & BEGIN_GREETED) {
		stage_pair(stage, &client, &server);
	} else {
		client = stage_client(stage);
		peer_start(client, "u", "d", NULL, NULL);
		server = stage_server(stage);
		peer_first_packet(server);
	}
	if (how & BEGIN_GREETED && how & BEGIN_SECOND) {
		second = stage_login(stage, "u", "application_name", "second");
		ask(second, what >> 2);
	}
	ask(client, what);
	stage_settle(stage);
	if (how & BEGIN_GREETED && how & BEGIN_CANCEL)
		ask_to_cancel(stage, client);
	for (size_t at = 3; at < size && !server->has_ended; at += piece) {
		peer_send(server, data + at, size - at < piece ? size - at : piece);
		stage_turn(stage);
	}
	stage_settle(stage);
	peer_close(how & 16 ? client : server);
	stage_settle(stage);
	stage_free(&stage);
	return 0;
}
