#include "relay/login_answer.h"

#include <string.h>

#include "broker/broker.h"
#include "broker/dial.h"
#include "session/server.h"
#include "wire/codec.h"

/* ANSWERS: how many are kept.  KEPT_MOST: the size of one that is kept.  ROOM is
 * mostly enough for one, whose buffer need not grow then. */
enum { ANSWERS = 32, KEPT_MOST = 4096, ROOM = 768 };

struct login_answer {
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

struct login_answers {
	struct login_answer kept[ANSWERS];
};

static void login_answer_done(struct login_answer *o)
{
	vars_done(&o->asked);
	vars_done(&o->reported);
	vars_done(&o->filled);
	buf_done(&o->untracked);
	buf_done(&o->bytes);
	o->is_kept = false;
}

struct login_answers *login_answers_new(void)
{
	return mem_zero(sizeof(struct login_answers));
}

void login_answers_free(struct login_answers **all)
{
	if (!*all)
		return;
	for (size_t i = 0; i < ANSWERS; i++)
		login_answer_done(&(*all)->kept[i]);
	mem_free(*all);
	*all = NULL;
}

/* ---- building ---- */

static const char *notice_of(const struct client *client)
{
	const char *notice = site_settings(client->conn.site)->login_notify_message;

	return notice && *notice ? notice : NULL;
}

static void put_end(struct login_answer *o, const struct client *client)
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
static void build(struct login_answer *o, const struct client *client,
    const struct vars *reported, const struct buf *untracked)
{
	*o = (struct login_answer){.is_kept = false};
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

static void send_to(struct client *client, const struct login_answer *o)
{
	vars_share(&client->params.vars, &o->filled);
	conn_send_copy(&client->conn, &o->bytes);
}

/* Sends one that is made for this client alone.  If no server of the pool has reported
 * its parameters yet, it is for a replication client, which is told those of its own
 * server. */
static void send_own(struct client *client)
{
	const struct login_params *login_params =
	    broker_login_params(client->request.in_pool.pool);
	struct server *own = client_server(client);
	struct login_answer made;

	if (own)
		build(&made, client, &own->vars, dial_untracked(own));
	else if (login_params)
		build(&made, client, &login_params->vars, &login_params->untracked);
	else
		build(&made, client, NULL, NULL);
	send_to(client, &made);
	login_answer_done(&made);
}

/* ---- keeping ---- */

static bool is_made_from(const struct login_answer *o, const struct vars *asked,
    const struct login_params *login_params, size_t key_len)
{
	const struct buf *untracked = &login_params->untracked;

	return o->is_kept && o->key_len == key_len && vars_is_equal(&o->asked, asked) &&
	       vars_is_equal(&o->reported, &login_params->vars) &&
	       o->untracked.len == untracked->len &&
	       (!untracked->len ||
		   memcmp(o->untracked.bytes, untracked->bytes, untracked->len) == 0);
}

/* Notes what it was made from.  A client may have asked for very long values; such an
 * answer is not kept. */
static void keep(struct login_answer *o, const struct vars *asked,
    const struct login_params *login_params)
{
	if (o->bytes.failed || o->bytes.len > KEPT_MOST)
		return;
	vars_share(&o->asked, asked);
	vars_share(&o->reported, &login_params->vars);
	buf_put(
	    &o->untracked, login_params->untracked.bytes, login_params->untracked.len);
	o->is_kept = !o->untracked.failed;
}

/* Sends the answer of clients with these values, with the client's key. */
static void send_common(struct client *client, const struct login_params *login_params)
{
	uint64_t mix = (uint64_t)(uintptr_t)client->params.vars.set * 3 +
		       (uintptr_t)login_params->vars.set;
	/* the only place where an answer made from these values may be */
	struct login_answer *o =
	    &client->conn.site->login_answers
		 ->kept[mix * UINT64_C(0x9e3779b97f4a7c15) >> 32 & (ANSWERS - 1)];
	const struct cancel_key *key = &client->cancel_key;

	if (is_made_from(o, &client->params.vars, login_params, key->len)) {
		memcpy(o->bytes.bytes + o->key_at, cancel_key_bytes(key), key->len);
	} else {
		login_answer_done(o);
		build(o, client, &login_params->vars, &login_params->untracked);
		keep(o, &client->params.vars, login_params);
	}
	send_to(client, o);
	if (!o->is_kept)
		login_answer_done(o);
}

void login_answer_send(struct client *client)
{
	const struct login_params *login_params =
	    broker_login_params(client->request.in_pool.pool);

	/* a notice may change with the next RELOAD */
	if (login_params && !client_server(client) && !notice_of(client))
		send_common(client, login_params);
	else
		send_own(client);
}
