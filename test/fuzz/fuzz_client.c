/* links: admin views login relay handoff cancel broker session pool wire auth net conf
 * base */
/*
 * A client sends any bytes, from its first packet on or after a login, to an ordinary
 * database or the console.  First byte: how to begin; second: sizes of the pieces.  The
 * servers follow the protocol.  The process neither stops nor hangs, and it keeps no
 * memory or connection.
 */
#include <stdint.h>

#include "../unit/stage/stage.c"
#include "admin/console.h"
#include "admin/wait.h"

enum { BEGIN_LOGGED_IN = 1, BEGIN_CONSOLE = 2, BEGIN_SESSION = 4, BEGIN_METHOD = 8 };

static int no_reload(struct site *site, uint64_t *ticket, struct err *err)
{
	(void)site, (void)ticket;
	return err_set(err, "no");
}

static int no_set(
    struct site *site, const char *name, const char *value, struct err *err)
{
	(void)site, (void)name, (void)value;
	return err_set(err, "no");
}

static bool not_put_off(const struct site *site)
{
	(void)site;
	return false;
}

static void no_shutdown(struct site *site, enum shutdown_mode mode)
{
	(void)site, (void)mode;
}

static void no_pause(struct site *site)
{
	(void)site;
}

static const struct process_verbs verbs = {
    .reload = no_reload,
    .set = no_set,
    .is_set_put_off = not_put_off,
    .shutdown = no_shutdown,
    .pause = no_pause,
    .suspend = no_pause,
    .resume = no_pause,
};

static void serve_message(struct peer *server)
{
	static const struct {
		char front, back;
	} answers[] = {{'P', '1'}, {'B', '2'}, {'C', '3'}, {'D', 'n'}, {'E', 'I'}};
	uint8_t type = server->in.bytes[0];
	if (type == 'Q')
		peer_answer(server, "DONE", 'I');
	else if (type == 'S')
		peer_ready(server, 'I');
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		if (answers[i].front == type)
			peer_put(server, (uint8_t)answers[i].back, "", 0);
}

static void serve(struct peer *server)
{
	struct buf *in = &server->in;
	size_t size;
	if (server->has_ended)
		return;
	if (!server->started) {
		if (in->len < 8 || in->len < get_u32(in->bytes))
			return;
		server->started = get_u32(in->bytes + 4);
		buf_shift(in, get_u32(in->bytes));
		if (server->started == PROTOCOL_3_2)
			peer_greet(server);
	}
	while ((size = peer_message(server))) {
		serve_message(server);
		buf_shift(in, size);
	}
}

static struct peer *begin(struct stage *stage, uint8_t how)
{
	struct peer *client;
	if (!(how & BEGIN_LOGGED_IN)) {
		client = stage_client(stage);
		if (how & BEGIN_METHOD)
			peer_start(client, "u", "d", NULL, NULL);
		return client;
	}
	if (!(how & BEGIN_CONSOLE))
		return stage_login(stage, "u", "application_name", "x");
	client = stage_client(stage);
	peer_start(client, "pgbouncer", "pgbouncer", NULL, NULL);
	peer_hear(client, 'Z');
	return client;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const methods[] = {"trust", "plain", "md5", "scram-sha-256"};
	uint8_t how = size > 0 ? data[0] : 0;
	size_t piece = size > 1 ? 1 + (data[1] & 63) : 1;
	struct stage *stage = stage_new(
	    "pool_size=1", how & BEGIN_SESSION ? "pool_mode = session\n" : "");

	stage->play = serve;
	stage->site.verbs = &verbs;
	stage->site.waits = waits_new(&stage->site);
	catalog_add_admin(stage->site.catalog, &console_service);
	if (!(how & BEGIN_LOGGED_IN))
		stage_set(stage, "auth_type", methods[how >> 4 & 3]);
	struct peer *client = begin(stage, how);
	for (size_t at = 2; at < size && !client->has_ended; at += piece) {
		peer_send(client, data + at, size - at < piece ? size - at : piece);
		stage_turn(stage);
	}
	stage_settle(stage);
	peer_close(client);
	stage_settle(stage);
	waits_free(&stage->site.waits);
	stage_free(&stage);
	return 0;
}
