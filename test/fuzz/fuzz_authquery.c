/* links: login relay handoff cancel broker session pool wire auth net conf base */
/*
 * A server answers an auth_query with any bytes.  First byte: the client's login method
 * and whether answers are kept; second: sizes of the pieces.  Only a whole answer lets
 * a client in; the process must not stop, hang or keep anything.
 */
#include <stdint.h>

#include "../unit/stage/stage.c"

enum { WITH_CACHE = 4, WITH_SECOND = 8, CLIENT_GOES = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const types[] = {"trust", "plain", "md5", "scram-sha-256"};
	uint8_t how = size > 0 ? data[0] : 0;
	size_t piece = size > 1 ? 1 + (data[1] & 63) : 1;
	struct stage *stage = stage_new("pool_size=1 auth_user=u",
	    how & WITH_CACHE ? "auth_query_cache_time = 60\n" : "");
	struct peer *client = stage_client(stage), *server;

	stage_set(stage, "server_login_retry", "60");
	stage_set(stage, "auth_type", types[how & 3]);
	peer_start(client, "w", "d", NULL, NULL);
	if (how & WITH_SECOND)
		peer_start(stage_client(stage), "x", "d", NULL, NULL);
	server = stage_ready_server(stage);
	peer_hear(server, 'S');
	for (size_t at = 2; at < size && !server->has_ended; at += piece) {
		peer_send(server, data + at, size - at < piece ? size - at : piece);
		stage_turn(stage);
	}
	stage_settle(stage);
	peer_close(how & CLIENT_GOES ? client : server);
	stage_settle(stage);
	stage_free(&stage);
	return 0;
}
