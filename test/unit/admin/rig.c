/*
 * A site without a process around it, and consoles with the tests' ends of the sockets.
 */
#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "admin/console.h"
#include "admin/wait.h"
#include "base/mem.h"
#include "broker/broker.h"
#include "broker/host_monitor.h"
#include "cancel/cancel.h"
#include "cancel/peers.h"
#include "conf/config.h"
#include "login/login.h"
#include "relay/relay.h"
#include "session/session.h"
#include "wire/codec.h"

/* ---- the process ---- */

static struct rig *site_rig(struct site *site)
{
	return container_of(site, struct rig, site);
}

static int rig_reload(struct site *site, uint64_t *ticket, struct err *err)
{
	struct rig *rig = site_rig(site);
	*ticket = rig->is_busy ? 7 : 0;
	if (rig->is_busy)
		return 1;
	rig->reloads++;
	return rig->refuses ? err_set(err, "x.ini:3: bad") : 0;
}

static int rig_set(
    struct site *site, const char *name, const char *value, struct err *err)
{
	struct rig *rig = site_rig(site);
	rig->sets++;
	snprintf(rig->set_name, sizeof(rig->set_name), "%s", name);
	snprintf(rig->set_value, sizeof(rig->set_value), "%s", value);
	return rig->refuses ? err_set(err, "refused") : 0;
}

static bool rig_is_set_put_off(const struct site *site)
{
	return container_of(site, const struct rig, site)->is_busy;
}

static void rig_shutdown(struct site *site, enum shutdown_mode mode)
{
	site_rig(site)->shutdown_asked = mode;
	site->shutdown = mode;
}

static void rig_pause(struct site *site)
{
	site->catalog->paused = true;
	catalog_schedule_all(site->catalog, NULL);
}

/* Nothing has to be waited for: the command is complete at once. */
static void rig_suspend(struct site *site)
{
	site->catalog->suspended = true;
	site->is_still = true;
}

static void rig_resume(struct site *site)
{
	site->catalog->paused = false;
	site->catalog->suspended = false;
	site->is_still = false;
	catalog_schedule_all(site->catalog, NULL);
	wait_review(site);
}

static const struct process_verbs rig_verbs = {
    .reload = rig_reload,
    .set = rig_set,
    .is_set_put_off = rig_is_set_put_off,
    .shutdown = rig_shutdown,
    .pause = rig_pause,
    .suspend = rig_suspend,
    .resume = rig_resume,
};

static struct config *load(const char *ini)
{
	char path[] = "/tmp/test-console-XXXXXX";
	struct err err;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, ini, strlen(ini)), (ssize_t)strlen(ini));
	close(fd);
	struct config *config = config_load(path, NULL, NULL, NULL, NULL, &err);
	unlink(path);
	if (!config)
		fail_msg("%s", err.text);
	return config;
}

static void out_of_patience(struct deadline *d)
{
	struct rig *rig = container_of(d, struct rig, patience);
	rig->is_late = true;
	loop_stop(rig->site.loop);
}

struct rig *rig_new(const char *ini)
{
	struct rig *rig = mem_zero(sizeof(*rig));
	struct site *site = &rig->site;
	struct err err;

	site->log = log_new();
	log_quiet(site->log, true);
	mem_init(&site->mem);
	site->loop = loop_new(&site->mem, &err);
	assert_non_null(site->loop);
	net_init(&site->net, site->loop, &site->mem);
	site->vars = vars_schema_new("search_path");
	site->catalog = catalog_new(&site->mem);
	site->version = "2.0.0";
	site->verbs = &rig_verbs;
	rig->config = load(ini);
	assert_int_equal(session_init(site, &err), 0);
	broker_init(site);
	peers_init(site);
	relay_init(site);
	login_init(site);
	catalog_adopt(site->catalog, rig->config, NULL, NULL, NULL);
	catalog_add_admin(site->catalog, &console_service);
	site->waits = waits_new(site);
	deadline_init(&rig->patience, out_of_patience);
	return rig;
}

void rig_free(struct rig **r)
{
	struct rig *rig = *r;
	struct site *site = &rig->site;

	rig_turn(rig, 1);
	assert_true(site_client_count(site) == 0);
	waits_free(&site->waits);
	host_monitor_end(site);
	broker_stop(site);
	catalog_free(&site->catalog);
	session_done(site);
	login_done(site);
	relay_done(site);
	peers_done(site);
	broker_done(site);
	vars_schema_free(&site->vars);
	net_done(&site->net);
	loop_free(&site->loop);
	log_free(&site->log);
	config_unref(&rig->config);
	mem_free(rig);
	*r = NULL;
}

static void run(struct rig *rig, unsigned milliseconds)
{
	loop_touch_clock(rig->site.loop);
	rig->is_late = false;
	deadline_set(rig->site.loop, &rig->patience,
	    loop_now(rig->site.loop) + milliseconds * 1000ull);
	loop_run(rig->site.loop);
	deadline_clear(rig->site.loop, &rig->patience);
}

void rig_turn(struct rig *rig, unsigned milliseconds)
{
	run(rig, milliseconds);
}

/* ---- the client's end ---- */

static unsigned count_ready(const struct buf *in)
{
	unsigned count = 0;
	size_t at = 0;

	while (in->len - at >= 5) {
		size_t size = 1 + (size_t)get_u32(in->bytes + at + 1);
		if (in->len - at < size)
			break;
		count += in->bytes[at] == 'Z';
		at += size;
	}
	return count;
}

static void console_client_readable(void *ctx, int fd)
{
	struct console_client *client = ctx;
	uint8_t *to = buf_room(&client->in, 65536);
	ssize_t got = read(fd, to, 65536);

	if (got > 0) {
		buf_grow(&client->in, (size_t)got);
		client->readies = count_ready(&client->in);
	} else {
		client->has_ended = true;
		watch_off(client->watch);
	}
	if (client->has_ended || client->readies >= client->wanted)
		loop_stop(client->rig->site.loop);
}

static void show_row(struct buf *out, const uint8_t *body, size_t len)
{
	struct cursor c;
	size_t count, value_len;
	const uint8_t *value;

	cursor_init(&c, body, len);
	assert_int_equal(codec_read_row_count(&c, &count), 0);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(codec_next_field(&c, &value, &value_len), 0);
		if (i > 0)
			buf_put_u8(out, '|');
		if (value)
			buf_put(out, value, value_len);
		else
			buf_put_text(out, "\\N");
	}
}

static void show_columns(struct buf *out, const uint8_t *body, size_t len)
{
	struct cursor c;

	cursor_init(&c, body, len);
	for (unsigned count = cursor_u16(&c); count > 0; count--) {
		buf_put_text(out, cursor_str(&c));
		assert_int_equal(cursor_u32(&c), 0); /* table */
		assert_int_equal(cursor_u16(&c), 0); /* column number */
		unsigned oid = cursor_u32(&c);
		int16_t type_len = (int16_t)cursor_u16(&c);
		assert_int_equal(type_len, oid == 23 ? 4 : oid == 20 ? 8 : -1);
		assert_int_equal(cursor_u32(&c), UINT32_MAX); /* modifier */
		assert_int_equal(cursor_u16(&c), 0);          /* text */
		buf_printf(out, ":%u%s", oid, count > 1 ? "|" : "");
	}
	assert_false(c.overrun);
	assert_int_equal(cursor_left(&c), 0);
}

/* "S=ERROR C=08P01 M=text" */
static void show_fields(struct buf *out, const uint8_t *body, size_t len)
{
	struct cursor c;
	uint8_t field;
	const char *space = "";

	cursor_init(&c, body, len);
	while ((field = cursor_u8(&c))) {
		buf_printf(out, "%s%c=%s", space, field, cursor_str(&c));
		space = " ";
	}
	assert_false(c.overrun);
}

static void show_parameter(struct buf *out, const uint8_t *body, size_t len)
{
	const char *name, *value;

	assert_int_equal(codec_read_parameter_status(body, len, &name, &value), 0);
	buf_printf(out, "%s=%s", name, value);
}

static void show_message(struct buf *out, uint8_t type, const uint8_t *body, size_t len)
{
	buf_put_u8(out, type);
	buf_put_u8(out, ' ');
	switch (type) {
	case 'T':
		show_columns(out, body, len);
		break;
	case 'D':
		show_row(out, body, len);
		break;
	case 'E':
	case 'N':
		show_fields(out, body, len);
		break;
	case 'S':
		show_parameter(out, body, len);
		break;
	case 'K':
		buf_printf(out, "%zu", len);
		break;
	default:
		buf_put(out, body, len > 0 && body[len - 1] == 0 ? len - 1 : len);
	}
	buf_put_u8(out, '\n');
}

const char *console_client_hear(struct console_client *client, unsigned readies)
{
	size_t at = 0;

	client->wanted = readies;
	if (!client->has_ended && client->readies < readies)
		run(client->rig, 5000);
	assert_false(client->rig->is_late);
	buf_clear(&client->text);
	while (at < client->in.len) {
		size_t size = 1 + (size_t)get_u32(client->in.bytes + at + 1);
		show_message(&client->text, client->in.bytes[at],
		    client->in.bytes + at + 5, size - 5);
		at += size;
	}
	buf_clear(&client->in);
	client->readies = 0;
	return buf_text(&client->text);
}

void console_client_send(struct console_client *client, const void *bytes, size_t len)
{
	assert_int_equal(send(client->fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

void console_client_say(struct console_client *client, const char *sql)
{
	struct buf out;

	buf_init(&out, 0);
	codec_put_query(&out, sql);
	console_client_send(client, out.bytes, out.len);
	buf_done(&out);
}

const char *console_client_ask(struct console_client *client, const char *sql)
{
	console_client_say(client, sql);
	return console_client_hear(client, 1);
}

/* Does what the login does before a service adopts the client. */
static struct client *log_in(struct rig *rig, int fd, bool is_admin)
{
	static const struct conn_ops nobody = {.name = "nobody"};
	struct site *site = &rig->site;
	struct client *client = client_new(site, &nobody);
	struct database *db = catalog_find_database(site->catalog, "pgbouncer");

	client->conn.remote.family = AF_UNIX;
	client->conn.unix_port = 6432;
	client->database = db;
	database_hold(db);
	database_enter(db, true);
	client->user = catalog_user(site->catalog, is_admin ? "boss" : "reader");
	user_may_enter(client->user, true);
	client->is_counted = true;
	client->is_admin = is_admin;
	assert_int_equal(
	    vars_set(&client->params.vars, VAR_APPLICATION_NAME, "test"), 0);
	client_settle(client);
	cancel_give_key(client, false);
	pool_join(catalog_pool(db, client->user), &client->request.in_pool);
	client->request.in_pool.is_logged_in = true;
	conn_open(&client->conn, fd);
	console_service.adopt(client);
	return client;
}

void console_client_open(struct console_client *client, struct rig *rig, bool is_admin)
{
	int fds[2];

	assert_int_equal(
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	memset(client, 0, sizeof(*client));
	client->rig = rig;
	client->fd = fds[1];
	buf_init(&client->in, 0);
	buf_init(&client->text, 0);
	client->watch = watch_new(
	    rig->site.loop, client->fd, WATCH_READ, console_client_readable, client);
	client->client = log_in(rig, fds[0], is_admin);
	console_client_hear(client, 1);
}

void console_client_close(struct console_client *client)
{
	watch_free(&client->watch);
	close(client->fd);
	rig_turn(client->rig, 5);
	buf_done(&client->in);
	buf_done(&client->text);
}
