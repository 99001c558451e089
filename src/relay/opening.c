/*
 * Builds openings and keeps those that were built lately.
 */
#include "relay/opening.h"

#include <string.h>

#include "broker/broker.h"
#include "broker/dial.h"
#include "session/server.h"
#include "wire/codec.h"

/* OPENINGS: how many are kept.  KEPT_MOST: the size of one that is kept.  ROOM is
 * mostly enough for one, whose buffer need not grow then. */
enum { OPENINGS = 32, KEPT_MOST = 4096, ROOM = 768 };

struct opening {
	/* what it was made from: the values that the client asked for, and what the
	 * pool's servers have reported */
	struct vars asked, reported;
	struct buf untracked;
	/* the values that the client asked for, and those reported for all others */
	struct vars filled;
	struct buf bytes;
	size_t key_at, key_len; /* the place of the cancel key in the bytes */
	bool is_kept;
};

struct openings {
	struct opening kept[OPENINGS];
};

static void opening_done(struct opening *o)
{
	vars_done(&o->asked);
	vars_done(&o->reported);
	vars_done(&o->filled);
	buf_done(&o->untracked);
	buf_done(&o->bytes);
	o->is_kept = false;
}

struct openings *openings_new(void)
{
	return mem_zero(sizeof(struct openings));
}

void openings_free(struct openings **all)
{
	if (!*all)
		return;
	for (size_t i = 0; i < OPENINGS; i++)
		opening_done(&(*all)->kept[i]);
	mem_free(*all);
	*all = NULL;
}

/* ---- building ---- */

static const char *notice_of(const struct client *client)
{
	const char *notice = site_settings(client->conn.site)->login_notify_message;

	return notice && *notice ? notice : NULL;
}

static void put_end(struct opening *o, const struct client *client)
{
	const char *notice = notice_of(client);
	const struct cancel_key *key = &client->cancel_key;

	o->key_len = key->len;
	codec_put_backend_key(&o->bytes, cancel_key_bytes(key), key->len);
	o->key_at = o->bytes.len - o->key_len;
	if (notice)
		codec_put_notice(&o->bytes, notice, NULL);
	codec_put_ready(&o->bytes, 'I');
}

/* reported and untracked: of the servers; NULL: nothing is known of them. */
static void build(struct opening *o, const struct client *client,
    const struct vars *reported, const struct buf *untracked)
{
	*o = (struct opening){.is_kept = false};
	buf_init(&o->untracked, 0);
	buf_init(&o->bytes, 0);
	buf_room(&o->bytes, ROOM);
	vars_share(&o->filled, &client->params.vars);
	if (reported) {
		vars_put_status(&client->params.vars, reported, untracked, &o->bytes);
		/* if its server has another value, that is reported later */
		vars_fill(&o->filled, reported);
	}
	put_end(o, client);
}

static void send_to(struct client *client, const struct opening *o)
{
	vars_share(&client->params.vars, &o->filled);
	conn_send_copy(&client->conn, &o->bytes);
}

/* Sends one that is made for this client alone.  If no server of the pool has reported
 * its parameters yet, it is for a replication client, which is told those of its own
 * server. */
static void send_own(struct client *client)
{
	const struct welcome *welcome = broker_welcome(client->request.ask.pool);
	struct server *own = client_server(client);
	struct opening made;

	if (own)
		build(&made, client, &own->vars, dial_untracked(own));
	else if (welcome)
		build(&made, client, &welcome->vars, &welcome->untracked);
	else
		build(&made, client, NULL, NULL);
	send_to(client, &made);
	opening_done(&made);
}

/* ---- keeping ---- */

/* The only place where an opening made from these values may be. */
static struct opening *place_of(
    struct openings *all, const struct vars *asked, const struct vars *reported)
{
	uint64_t mix = (uint64_t)(uintptr_t)asked->set * 3 + (uintptr_t)reported->set;

	return &all->kept[mix * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (OPENINGS - 1)];
}

static bool is_made_from(const struct opening *o, const struct vars *asked,
    const struct welcome *welcome, size_t key_len)
{
	const struct buf *untracked = &welcome->untracked;

	return o->is_kept && o->key_len == key_len && vars_is_equal(&o->asked, asked) &&
	       vars_is_equal(&o->reported, &welcome->vars) &&
	       o->untracked.len == untracked->len &&
	       (!untracked->len ||
		   memcmp(o->untracked.bytes, untracked->bytes, untracked->len) == 0);
}

/* Notes what it was made from.  A client may have asked for very long values; such an
 * opening is not kept. */
static void keep(
    struct opening *o, const struct vars *asked, const struct welcome *welcome)
{
	if (o->bytes.failed || o->bytes.len > KEPT_MOST)
		return;
	vars_share(&o->asked, asked);
	vars_share(&o->reported, &welcome->vars);
	buf_put(&o->untracked, welcome->untracked.bytes, welcome->untracked.len);
	o->is_kept = !o->untracked.failed;
}

/* Sends the opening of clients with these values, with the client's key. */
static void send_common(struct client *client, const struct welcome *welcome)
{
	struct opening *o =
	    place_of(client->conn.site->openings, &client->params.vars, &welcome->vars);
	const struct cancel_key *key = &client->cancel_key;

	if (is_made_from(o, &client->params.vars, welcome, key->len)) {
		memcpy(o->bytes.bytes + o->key_at, cancel_key_bytes(key), key->len);
	} else {
		opening_done(o);
		build(o, client, &welcome->vars, &welcome->untracked);
		keep(o, &client->params.vars, welcome);
	}
	send_to(client, o);
	if (!o->is_kept)
		opening_done(o);
}

void opening_send(struct client *client)
{
	const struct welcome *welcome = broker_welcome(client->request.ask.pool);

	/* a notice may change with the next RELOAD */
	if (welcome && !client_server(client) && !notice_of(client))
		send_common(client, welcome);
	else
		send_own(client);
}
