/*
 * A whole site for tests.  The sockets are in the abstract namespace: nothing is left
 * in the file system.
 */
#include "stage.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "auth/userlist.h"
#include "broker/broker.h"
#include "broker/host_monitor.h"
#include "cancel/peers.h"
#include "conf/config.h"
#include "login/listen.h"
#include "login/login.h"
#include "net/block.h"
#include "net/sock.h"
#include "net/tls.h"
#include "relay/relay.h"
#include "session/cancel_keys.h"
#include "session/migrate.h"
#include "session/session.h"
#include "session/tls_setup.h"
#include "session/workers.h"
#include "wire/codec.h"
#include "wire/message.h"

enum { PATIENCE_S = 60, BACK_PORT = 5432, FRONT_PORT = 6432, QUIET_TURNS = 6 };
enum { PIECE_TURNS = 2, PIECES_UP_TO = 4096 };

static void stage_fail(const char *what)
{
	fprintf(stderr, "stage: %s\n", what);
	abort();
}

static void stage_check(bool ok, const char *what)
{
	if (!ok)
		stage_fail(what);
}

/* ---- the loop ---- */

struct stopper {
	struct later later;
	struct loop *loop;
};

static void stop_now(struct later *l)
{
	loop_stop(container_of(l, struct stopper, later)->loop);
}

void stage_turn(struct stage *stage)
{
	struct stopper stopper = {.later.run = stop_now, .loop = stage->site.loop};
	loop_later(stage->site.loop, &stopper.later);
	loop_run(stage->site.loop);
}

/* Number of calls that move bytes, up to now. */
static uint64_t stage_moves(const struct stage *stage)
{
	const struct loop_counts *c = loop_counts(stage->site.loop);
	struct peer *peer;
	uint64_t sum = c->recv_calls + c->send_calls + c->ctl_calls;
	list_for (peer, &stage->peers, node)
		sum += peer->in.len + peer->has_ended;
	return sum + stage->peers.count + site_client_count(&stage->site) +
	       stage->site.server_count;
}

void stage_settle(struct stage *stage)
{
	int quiet = 0;
	while (quiet < QUIET_TURNS) {
		uint64_t before = stage_moves(stage);
		stage_turn(stage);
		quiet = stage_moves(stage) == before ? quiet + 1 : 0;
	}
}

void stage_until(struct stage *stage, stage_is_fn *is_so, void *arg)
{
	static const struct timespec nap = {.tv_nsec = 300000};
	time_t end = time(NULL) + PATIENCE_S;
	for (unsigned i = 1; !is_so(arg); i++) {
		stage_turn(stage);
		if (i % 32 == 0)
			nanosleep(&nap, NULL);
		stage_check(time(NULL) <= end, "waited in vain");
	}
}

/* ---- peers ---- */

static void peer_receive(struct peer *peer, int fd)
{
	uint8_t *to = buf_room(&peer->in, 65536);
	ssize_t got = recv(fd, to, 65536, MSG_DONTWAIT);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got > 0) {
		buf_grow(&peer->in, (size_t)got);
	} else {
		peer->has_ended = true;
		watch_off(peer->watch);
	}
	if (peer->play)
		peer->play(peer);
}

bool stage_plays;

static void peer_readable(void *ctx, int fd)
{
	stage_plays = true;
	peer_receive(ctx, fd);
	stage_plays = false;
}

static struct peer *peer_new(struct stage *stage, int fd)
{
	struct peer *peer = mem_zero(sizeof(*peer));
	peer->stage = stage;
	peer->fd = fd;
	buf_init(&peer->in, 0);
	buf_init(&peer->text, 0);
	peer->watch = watch_new(stage->site.loop, fd, WATCH_READ, peer_readable, peer);
	list_push_back(&stage->peers, &peer->node);
	return peer;
}

void peer_close(struct peer *peer)
{
	struct stage *stage = peer->stage;
	if (node_is_linked(&peer->fresh_node))
		list_remove(&stage->fresh, &peer->fresh_node);
	list_remove(&stage->peers, &peer->node);
	watch_free(&peer->watch);
	close(peer->fd);
	buf_done(&peer->in);
	buf_done(&peer->text);
	mem_free(peer);
}

static void listener_ready(void *ctx, int fd)
{
	struct stage *stage = ctx;
	int got;
	while ((got = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct peer *peer = peer_new(stage, got);
		static const int room = 1 << 20;
		setsockopt(got, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
		peer->number = ++stage->dialed;
		peer->play = stage->play;
		list_push_back(&stage->fresh, &peer->fresh_node);
	}
}

/* ---- the site ---- */

static struct config *stage_config(const char *ini)
{
	char path[] = "/tmp/test-stage-XXXXXX";
	struct err err;
	int fd = mkstemp(path);
	struct config *config;

	stage_check(fd >= 0 && write(fd, ini, strlen(ini)) == (ssize_t)strlen(ini),
	    "cannot write the ini file");
	close(fd);
	config = config_load(path, NULL, NULL, NULL, NULL, &err);
	unlink(path);
	if (!config)
		stage_fail(err.text);
	return config;
}

static void stage_adopt(struct stage *stage, struct config *config, const char *list)
{
	struct userlist *users = NULL;
	if (list) {
		users = userlist_parse("users", list, strlen(list), NULL, NULL, NULL);
		stage_check(users != NULL, "bad user list");
	}
	catalog_adopt(stage->site.catalog, config, users, NULL, NULL);
	userlist_unref(&users);
}

void stage_set(struct stage *stage, const char *name, const char *value)
{
	struct err err;
	struct config *config =
	    config_with(stage->site.catalog->config, name, value, &err);
	if (!config)
		stage_fail(err.text);
	stage_adopt(stage, config, NULL);
	config_unref(&config);
}

void stage_review(struct stage *stage)
{
	session_review(&stage->site);
	broker_review(&stage->site);
	peers_review(&stage->site);
}

void stage_drop_all(struct stage *stage)
{
	session_drop_all(&stage->site);
	peers_drop_all(&stage->site);
}

bool stage_is_empty(const struct stage *stage)
{
	return session_is_empty(&stage->site) && peers_are_idle(&stage->site);
}

void stage_users(struct stage *stage, const char *userlist)
{
	stage_adopt(stage, stage->site.catalog->config, userlist);
}

static void stage_listen(struct stage *stage)
{
	struct sock_options options = {.unix_mode = -1, .backlog = 1000};
	struct sock_target target;
	struct err err;
	if (sock_target_unix(&target, stage->back_dir, BACK_PORT, &err) < 0)
		stage_fail(err.text);
	stage->listener_fd = sock_listen(&target, &options, &err);
	if (stage->listener_fd < 0)
		stage_fail(err.text);
	stage->listener = watch_new(
	    stage->site.loop, stage->listener_fd, WATCH_READ, listener_ready, stage);
}

/* The sites of several workers have the same servers, which are dialed at the first
 * stage. */
static void stage_name(struct stage *stage, const struct workers *workers)
{
	static const char hex[] = "0123456789abcdef";
	uint8_t random[8];
	char name[17] = "";

	mem_random(random, sizeof(random));
	for (int i = 0; i < 16; i++)
		name[i] = hex[random[i / 2] >> (i % 2 * 4) & 15];
	snprintf(stage->back_dir, sizeof(stage->back_dir), "@back-%s", name);
	snprintf(stage->front_dir, sizeof(stage->front_dir), "@front-%s", name);
	if (workers)
		snprintf(stage->back_dir, sizeof(stage->back_dir), "@back-%d-%p",
		    (int)getpid(), (const void *)workers);
}

static void stage_ini(
    struct stage *stage, struct buf *ini, const char *options, const char *settings)
{
	buf_init(ini, 0);
	buf_printf(ini,
	    "[databases]\nd = host=%s port=%d %s\n[pgbouncer]\nlisten_addr =\n"
	    "unix_socket_dir = %s\nlisten_port = %d\nauth_type = trust\n"
	    "pool_mode = transaction\nmax_client_conn = 1000\n"
	    "server_check_query =\nserver_login_retry = 0.01\n%s",
	    stage->back_dir, BACK_PORT, options, stage->front_dir, FRONT_PORT,
	    settings);
}

static void stage_join(struct stage *stage, struct workers *workers, unsigned index)
{
	struct site *site = &stage->site;
	struct err err;

	if (workers_join(workers, index, site, &err) < 0)
		stage_fail(err.text);
	catalog_share(site->catalog, workers->central, index);
}

struct stage *stage_new(const char *database_options, const char *settings)
{
	return stage_new_in(NULL, 0, database_options, settings);
}

struct stage *stage_new_in(struct workers *workers, unsigned index,
    const char *database_options, const char *settings)
{
	struct stage *stage = mem_zero(sizeof(*stage));
	struct site *site = &stage->site;
	struct buf ini;
	struct err err;

	/* a helper thread that nobody waits for may still derive at the exit */
	tls_stay_at_exit();
	list_init(&stage->peers);
	list_init(&stage->fresh);
	site->log = log_new();
	log_quiet(site->log, true);
	mem_init(&site->mem);
	site->loop = loop_new(&site->mem, &err);
	net_init(&site->net, site->loop, &site->mem);
	site->vars = vars_schema_new("");
	site->catalog = catalog_new(&site->mem);
	if (workers)
		stage_join(stage, workers, index);
	site->version = "2.0.0";
	stage_name(stage, workers);
	stage_ini(stage, &ini, database_options, settings);
	stage->config = stage_config(buf_text(&ini));
	buf_done(&ini);
	if (session_init(site, &err) < 0)
		stage_fail(err.text);
	broker_init(site);
	peers_init(site);
	relay_init(site);
	login_init(site);
	site->tls = tls_setup_new(stage->config, &err);
	if (!site->tls)
		stage_fail(err.text);
	stage_adopt(stage, stage->config, "\"u\" \"secret\"\n\"v\" \"secret\"\n");
	catalog_set_service(site->catalog, &relay_service);
	stage->listener_fd = -1;
	if (index == 0)
		stage_listen(stage);
	if (listen_open(site, 0, &err) < 0)
		stage_fail(err.text);
	return stage;
}

static void stage_close_peers(struct stage *stage)
{
	struct peer *peer, *next;
	list_for_safe (peer, next, &stage->peers, node)
		peer_close(peer);
}

static bool stage_is_over(void *arg)
{
	return stage_is_empty(arg);
}

static void stage_check_empty(struct stage *stage)
{
	struct site *site = &stage->site;
	struct pool *pool;
	size_t used, spare, bytes;

	stage_check(site->server_count == 0, "servers are left");
	stage_check(site->login_server_count == 0, "dials are left");
	stage_check(list_is_empty(&site->login_clients), "logins are left");
	stage_check(site->worker || cancel_keys_count(site->cancel_keys) == 0,
	    "cancel keys are left");
	stage_check(map_count(site->lookups) == 0, "lookups are left");
	list_for (pool, &site->catalog->pool_list, node) {
		stage_check(list_is_empty(&pool->clients), "clients in a pool");
		stage_check(list_is_empty(&pool->waiting), "a client waits");
		stage_check(list_is_empty(&pool->cancels_waiting), "a cancel waits");
		stage_check(list_is_empty(&pool->cancels_active), "a cancel runs");
		stage_check(pool_server_count(pool) == 0, "a server is counted");
		stage_check(list_is_empty(&pool->slots[SLOT_NONE]), "a server is left");
	}
	stage_check(site->client_slab->used == 0, "a client is left");
	stage_check(site->login_slab->used == 0, "a login is left");
	stage_check(site->dial_slab->used == 0, "a dial is left");
	stage_check(site->net.queues->used == 0, "output is left");
	block_pool_usage(site->net.blocks, &used, &spare, &bytes);
	stage_check(used <= (site->net.current != NULL), "blocks are left");
}

void stage_free(struct stage **s)
{
	struct stage *stage = *s;
	struct site *site = &stage->site;

	stage->play = NULL;
	host_monitor_end(site);
	stage_close_peers(stage);
	stage_settle(stage);
	stage_drop_all(stage);
	watch_free(&stage->listener);
	if (stage->listener_fd >= 0)
		close(stage->listener_fd);
	listen_close(site, true);
	stage_until(stage, stage_is_over, stage);
	stage_turn(stage);
	stage_check_empty(stage);
	/* those that were dialed meanwhile */
	stage_close_peers(stage);
	workers_leave(site);
	migrate_end(site);
	broker_stop(site);
	catalog_free(&site->catalog);
	session_done(site);
	login_done(site);
	relay_done(site);
	peers_done(site);
	broker_done(site);
	vars_schema_free(&site->vars);
	tls_setup_unref(&site->tls);
	net_done(&site->net);
	loop_free(&site->loop);
	log_free(&site->log);
	config_unref(&stage->config);
	mem_free(stage);
	*s = NULL;
}

struct pool *stage_pool(struct stage *stage)
{
	struct catalog *c = stage->site.catalog;
	return catalog_pool(catalog_find_database(c, "d"), catalog_user(c, "u"));
}

/* ---- sending ---- */

/* In how many bytes at a time this is sent: see stage.h. */
static size_t piece_of(const struct peer *peer, size_t len)
{
	const char *piece = getenv(STAGE_PIECE);
	bool is_cut = piece && peer->number && !peer->play && len <= PIECES_UP_TO;

	return is_cut ? (size_t)atoi(piece) : len;
}

void peer_send(struct peer *peer, const void *bytes, size_t len)
{
	const uint8_t *p = bytes;
	size_t piece = piece_of(peer, len);
	bool is_cut = piece < len;
	time_t end = time(NULL) + PATIENCE_S;
	while (len > 0) {
		size_t some = len < piece ? len : piece;
		ssize_t sent = send(peer->fd, p, some, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent > 0) {
			p += sent;
			len -= (size_t)sent;
			for (int i = 0; is_cut && i < PIECE_TURNS; i++)
				stage_turn(peer->stage);
		} else if (errno != EAGAIN) {
			return;
		} else {
			stage_turn(peer->stage);
		}
		stage_check(time(NULL) <= end, "nobody takes what is sent");
	}
}

void peer_put(struct peer *peer, uint8_t type, const void *body, size_t len)
{
	struct buf b;
	buf_init(&b, 0);
	size_t at = codec_begin(&b, type);
	if (len)
		buf_put(&b, body, len);
	codec_end(&b, at);
	peer_send(peer, b.bytes, b.len);
	buf_done(&b);
}

void peer_text(struct peer *peer, uint8_t type, const char *text)
{
	peer_put(peer, type, text, strlen(text) + 1);
}

void peer_start(struct peer *peer, const char *user, const char *database,
    const char *name, const char *value)
{
	struct buf b;
	buf_init(&b, 0);
	size_t at = codec_begin_startup(&b, PROTOCOL_3_0);
	codec_put_param(&b, "user", user);
	codec_put_param(&b, "database", database);
	if (name)
		codec_put_param(&b, name, value);
	codec_end_startup(&b, at);
	peer_send(peer, b.bytes, b.len);
	buf_done(&b);
}

void peer_ready(struct peer *peer, char status)
{
	peer_put(peer, 'Z', &status, 1);
}

void peer_greet(struct peer *peer)
{
	static const char *const params[][2] = {{"DateStyle", "ISO"},
	    {"client_encoding", "UTF8"}, {"TimeZone", "UTC"},
	    {"standard_conforming_strings", "on"}, {"application_name", ""},
	    {"server_version", "15.0"}};
	uint8_t key[8] = {0, 0, 0, 0, 'k', 'e', 'y', '!'};
	struct buf b;

	buf_init(&b, 0);
	codec_put_auth(&b, AUTH_REQ_OK, NULL, 0);
	for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++)
		codec_put_parameter_status(&b, params[i][0], params[i][1]);
	put_u32(key, peer->number);
	codec_put_backend_key(&b, key, sizeof(key));
	codec_put_ready(&b, 'I');
	peer_send(peer, b.bytes, b.len);
	buf_done(&b);
}

void peer_answer(struct peer *peer, const char *tag, char status)
{
	peer_text(peer, 'C', tag);
	peer_ready(peer, status);
}

/* ---- receiving ---- */

size_t peer_message(const struct peer *peer)
{
	size_t size;
	if (peer->in.len < 5)
		return 0;
	size = 1 + (size_t)get_u32(peer->in.bytes + 1);
	return peer->in.len < size ? 0 : size;
}

static bool has_message(void *arg)
{
	return peer_message(arg) > 0;
}

void peer_await(struct peer *peer)
{
	stage_until(peer->stage, has_message, peer);
}

/* Appends the first message to the text and removes it.  Returns its type or 0. */
static uint8_t peer_take(struct peer *peer)
{
	struct buf *out = &peer->text;
	size_t size = peer_message(peer);
	const uint8_t *body;
	uint8_t type;

	if (!size)
		return 0;
	type = peer->in.bytes[0];
	body = peer->in.bytes + 5;
	if (out->len > 0)
		buf_put_u8(out, ' ');
	buf_put_u8(out, type);
	if (type == 'E' || type == 'N') {
		struct error_fields f;
		codec_read_error(body, size - 5, &f);
		buf_printf(out, ":%s:%s", f.severity, f.message);
	} else if (strchr("CQZfd", type) && size > 5 && size < 512) {
		buf_put_u8(out, ':');
		buf_put(out, body, size - 5 - (body[size - 6] == 0));
	} else if (type == 'K' && size <= 5 + sizeof(peer->key)) {
		peer->key_len = size - 5;
		memcpy(peer->key, body, peer->key_len);
	}
	buf_shift(&peer->in, size);
	return type;
}

struct wish {
	struct peer *peer;
	uint8_t type;
	uint32_t code;
};

static bool wish_is_heard(void *arg)
{
	struct wish *wish = arg;
	uint8_t type;
	while ((type = peer_take(wish->peer)))
		if (type == wish->type)
			return true;
	if (wish->peer->has_ended)
		fprintf(stderr, "stage: '%c' did not come, but %s\n", wish->type,
		    buf_text(&wish->peer->text));
	stage_check(!wish->peer->has_ended, "the connection closed");
	return false;
}

const char *peer_hear(struct peer *peer, uint8_t type)
{
	struct wish wish = {.peer = peer, .type = type};
	buf_clear(&peer->text);
	stage_until(peer->stage, wish_is_heard, &wish);
	return buf_text(&peer->text);
}

const char *peer_heard(struct peer *peer)
{
	buf_clear(&peer->text);
	stage_settle(peer->stage);
	while (peer_take(peer))
		;
	return buf_text(&peer->text);
}

static bool peer_is_gone(void *arg)
{
	return ((struct peer *)arg)->has_ended;
}

const char *peer_last_words(struct peer *peer)
{
	buf_clear(&peer->text);
	stage_until(peer->stage, peer_is_gone, peer);
	while (peer_take(peer))
		;
	return buf_text(&peer->text);
}

static bool is_packet_here(void *arg)
{
	struct wish *wish = arg;
	const struct buf *in = &wish->peer->in;
	stage_check(
	    !wish->peer->has_ended, "the connection closed before its first packet");
	if (in->len < 8 || in->len < get_u32(in->bytes))
		return false;
	wish->code = get_u32(in->bytes + 4);
	return true;
}

uint32_t peer_first_packet(struct peer *peer)
{
	struct wish wish = {.peer = peer};
	stage_until(peer->stage, is_packet_here, &wish);
	buf_shift(&peer->in, get_u32(peer->in.bytes));
	peer->started = wish.code;
	return wish.code;
}

/* ---- common set-ups ---- */

struct peer *stage_client(struct stage *stage)
{
	struct sock_options options = {.unix_mode = -1};
	struct sock_target target;
	struct err err;
	int fd = -1;
	if (sock_target_unix(&target, stage->front_dir, FRONT_PORT, &err) < 0 ||
	    sock_connect(&target, &options, &fd, &err) < 0)
		stage_fail(err.text);
	return peer_new(stage, fd);
}

struct peer *stage_login(
    struct stage *stage, const char *user, const char *name, const char *value)
{
	struct peer *client = stage_client(stage);
	peer_start(client, user, "d", name, value);
	peer_hear(client, 'Z');
	return client;
}

struct peer *stage_login_version(struct stage *stage, uint32_t version)
{
	struct peer *client = stage_client(stage);
	struct buf b;
	buf_init(&b, 0);
	size_t at = codec_begin_startup(&b, version);
	codec_put_param(&b, "user", "u");
	codec_put_param(&b, "database", "d");
	codec_end_startup(&b, at);
	peer_send(client, b.bytes, b.len);
	buf_done(&b);
	peer_hear(client, 'Z');
	return client;
}

static bool is_dialed(void *arg)
{
	return !list_is_empty(&((struct stage *)arg)->fresh);
}

struct peer *stage_server(struct stage *stage)
{
	stage_until(stage, is_dialed, stage);
	return container_of(list_pop_front(&stage->fresh), struct peer, fresh_node);
}

struct peer *stage_ready_server(struct stage *stage)
{
	struct peer *server = stage_server(stage);
	stage_check(peer_first_packet(server) >> 16 == 3, "not a login");
	peer_greet(server);
	return server;
}

void stage_pair(struct stage *stage, struct peer **client, struct peer **server)
{
	*client = stage_client(stage);
	peer_start(*client, "u", "d", NULL, NULL);
	*server = stage_ready_server(stage);
	peer_hear(*client, 'Z');
}

/* ---- the monitor of hosts ---- */

void peer_tell_role(struct peer *monitor, bool is_standby)
{
	static const char primary[] = "\0\2\0\0\0\1f\0\0\0\3off";
	static const char standby[] = "\0\2\0\0\0\1t\0\0\0\3off";

	peer_await(monitor);
	buf_clear(&monitor->in);
	peer_put(monitor, 'D', is_standby ? standby : primary, sizeof(primary) - 1);
	peer_answer(monitor, "SELECT 1", 'I');
}

struct peer *stage_monitor(struct stage *stage, bool is_standby)
{
	struct peer *monitor = stage_server(stage);

	peer_first_packet(monitor);
	peer_put(monitor, 'S',
	    is_standby ? "in_hot_standby\0on" : "in_hot_standby\0off",
	    is_standby ? 18 : 19);
	peer_greet(monitor);
	peer_tell_role(monitor, is_standby);
	return monitor;
}
