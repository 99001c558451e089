/*
 * Brings a snapshot to each site.  The catalog applies it to databases and users.
 */
#include "daemon/config_apply.h"

#include <stdatomic.h>

#include "broker/broker_floor.h"
#include "cancel/peers.h"
#include "net/dns.h"
#include "session/session.h"
#include "session/workers.h"

struct config_apply {
	struct config *config;      /* one reference, as of the next two members */
	struct access_rules *rules; /* NULL: auth_type needs no rules */
	struct tls_setup *tls;
	struct userlist *users; /* one reference; NULL: the list in force stays */
	atomic_uint refs;
	unsigned broadcast; /* number of the broadcast, once it goes to all sites */
	bool is_obsoleting; /* TLS settings of servers have changed: their connections
			       are replaced */
	bool is_tls_only;
};

/* One as a message to a worker that did not answer. */
struct notice {
	struct thread_message message;
	struct site *site;
	struct config_apply *apply; /* one reference */
};

struct config_apply *config_apply_new(
    const struct loaded_config *running, const struct loaded_config *next)
{
	struct config_apply *a = mem_zero(sizeof(*a));

	a->refs = 1;
	a->config = config_ref(next->config);
	a->rules = access_rules_ref(next->rules);
	a->tls = tls_setup_ref(next->tls ? next->tls : running->tls);
	a->users = userlist_ref(next->users);
	a->is_obsoleting = running->tls && next->tls &&
			   tls_setup_is_obsoleting(running->tls, next->tls);
	return a;
}

void config_apply_limit_to_tls(struct config_apply *a)
{
	a->is_tls_only = true;
}

void config_apply_unref(struct config_apply **ap)
{
	struct config_apply *a = *ap;

	*ap = NULL;
	if (!a || atomic_fetch_sub(&a->refs, 1) > 1)
		return;
	config_unref(&a->config);
	access_rules_unref(&a->rules);
	tls_setup_unref(&a->tls);
	userlist_unref(&a->users);
	mem_free(a);
}

/* ---- one site ---- */

/* Every site reports the same change; only the control site logs it. */
static void note_change(void *ctx, const char *text)
{
	const struct site *site = ctx;

	if (workers_is_control(site))
		log_put(site->log, LEVEL_WARNING | KIND_RELOAD, NULL, "%s", text);
}

void config_apply_take(struct site *site, const struct config_apply *a)
{
	const struct settings *s = &a->config->settings;

	if (!a->is_tls_only)
		catalog_adopt(site->catalog, a->config, a->users, note_change, site);
	if (a->is_obsoleting)
		catalog_mark_dirty(site->catalog, NULL);
	/* logins and connections keep the old rules and contexts that they hold
	 * references to */
	struct access_rules *old_rules = site->rules;
	struct tls_setup *old_tls = site->tls;
	site->rules = access_rules_ref(a->rules);
	site->tls = tls_setup_ref(a->tls);
	access_rules_unref(&old_rules);
	tls_setup_unref(&old_tls);
	if (a->is_tls_only)
		return;
	site->net.rounds = s->sbuf_loopcnt;
	dns_configure(
	    site->dns, s->dns_max_ttl, s->dns_nxdomain_ttl, s->dns_zone_check_period);
	session_review(site);
	broker_floor_review(site);
	peers_review(site);
}

/* ---- all sites ---- */

static void adopt(struct site *site, void *ctx)
{
	const struct config_apply *a = ctx;

	workers_follow_broadcast(site, a->broadcast);
	config_apply_take(site, a);
}

static void notice_arrived(struct thread_message *message)
{
	struct notice *notice = container_of(message, struct notice, message);

	adopt(notice->site, notice->apply);
	config_apply_unref(&notice->apply);
	mem_free(notice);
}

void config_apply_spread(struct site *control, struct config_apply *a)
{
	struct workers *workers = control->worker ? control->worker->workers : NULL;

	a->broadcast = workers_begin_broadcast(control);
	for (unsigned i = 0; workers && i < workers->worker_count; i++)
		if (!workers_call(&workers->members[i], adopt, a)) {
			struct worker *to = &workers->members[i];
			struct notice *notice = mem_zero(sizeof(*notice));
			atomic_fetch_add(&a->refs, 1);
			notice->message.handle = notice_arrived;
			notice->site = to->site;
			notice->apply = a;
			workers_post(to, &notice->message);
		}
	adopt(control, a);
}
