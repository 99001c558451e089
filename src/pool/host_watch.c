#include "pool/host_watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* How often a host is tried that cannot be used, or asked while some database has no
 * host: clients wait. */
enum { AGAIN_US = 1000000 };

/* How often one is asked over an open connection while clients use its databases or
 * wait: it may hang, or another one may have been promoted. */
enum { URGENT_US = 200000 };

/* The least time between two attempts or questions, however many hints come. */
enum { LEAST_US = 100000 };

void host_watch_init(struct host_watch *w, const char *name, int port)
{
	memset(w, 0, sizeof(*w));
	w->name = name ? mem_strdup(name) : NULL;
	w->port = port;
}

void host_watch_done(struct host_watch *w)
{
	mem_free(w->name);
}

static void set_state(
    struct host_watch *w, enum host_state state, const char *reason, uint64_t now_us)
{
	struct host_value *v = &w->value;
	bool is_new =
	    v->state != state || strncmp(v->reason, reason, sizeof(v->reason) - 1) != 0;

	if (v->state != state)
		v->since_us = now_us;
	v->state = state;
	if (is_new)
		snprintf(v->reason, sizeof(v->reason), "%s", reason);
	w->has_changed = w->has_changed || is_new;
}

static void set_unasked(struct host_watch *w, const char *text)
{
	char *unasked = w->value.unasked;

	if (strncmp(unasked, text, HOST_REASON_MAX - 1) == 0)
		return;
	snprintf(unasked, HOST_REASON_MAX, "%s", text);
	w->has_changed = true;
}

static void set_report(struct host_watch *w, const struct host_report *report)
{
	struct host_report *own = &w->value.report;

	w->has_changed =
	    w->has_changed ||
	    (own->role != report->role || own->is_read_only != report->is_read_only ||
		own->timeline != report->timeline);
	*own = *report;
}

/* ---- what to do ---- */

/* How long after the last outcome the host is tried or asked again; UINT64_MAX: only
 * after a hint. */
static uint64_t interval_us(const struct host_watch *w, const struct host_policy *p)
{
	bool is_good = w->value.state == HOST_UP && !*w->value.unasked;
	/* a lone host is asked once when its servers become silent, which a long query
	 * explains, and from then on once in a period */
	bool is_urgent = p->is_urgent && !(p->is_lone && w->begun_us);
	uint64_t period_us = p->period_us ? p->period_us : UINT64_MAX;

	if (w->is_hinted)
		return LEAST_US;
	if (is_urgent && w->phase == WATCH_RESTING)
		return period_us < URGENT_US ? period_us : URGENT_US;
	if (is_urgent || w->value.state == HOST_DOWN || w->value.state == HOST_HANGS)
		return period_us < AGAIN_US ? period_us : AGAIN_US;
	/* each attempt that a server refuses is a line in its log */
	return is_good || p->period_us ? period_us : AGAIN_US;
}

static uint64_t due_us(const struct host_watch *w, const struct host_policy *p)
{
	uint64_t interval = interval_us(w, p);

	if (!w->done_us)
		return w->begun_us ? w->begun_us + LEAST_US : 0;
	return interval == UINT64_MAX ? UINT64_MAX : w->done_us + interval;
}

static void lower(uint64_t *wake_us, uint64_t at_us)
{
	if (at_us < *wake_us)
		*wake_us = at_us;
}

enum watch_step host_watch_next(struct host_watch *w, const struct host_policy *policy,
    uint64_t now_us, uint64_t *wake_us)
{
	bool is_waiting = w->phase == WATCH_CONNECTING || w->phase == WATCH_ASKING;
	uint64_t due;
	char reason[64];

	if (!policy->is_wanted) {
		bool was_apart = w->phase == WATCH_APART;
		w->phase = WATCH_APART;
		w->is_hinted = false;
		w->done_us = 0;
		/* nobody knows how it is when it is needed again */
		set_unasked(w, "");
		set_state(w, HOST_NOT_TRIED, "", now_us);
		return was_apart ? WATCH_NOTHING : WATCH_CLOSE;
	}
	if (is_waiting && policy->hung_us) {
		due = w->begun_us + policy->hung_us;
		if (now_us >= due) {
			/* The host has not answered in time.  The next attempt has a
			 * connection of its own, because this one may be dead. */
			snprintf(reason, sizeof(reason), "no answer for %.15g seconds",
			    (double)policy->hung_us / 1e6);
			w->phase = WATCH_APART;
			w->done_us = now_us;
			set_state(w, HOST_HANGS, reason, now_us);
			return WATCH_CLOSE;
		}
		lower(wake_us, due);
	}
	if (is_waiting)
		return WATCH_NOTHING;
	if (policy->is_lone && w->phase == WATCH_RESTING && w->done_us) {
		w->phase = WATCH_APART;
		return WATCH_CLOSE;
	}
	due = due_us(w, policy);
	if (now_us >= due) {
		bool is_connected = w->phase == WATCH_RESTING;
		w->is_hinted = false;
		w->begun_us = now_us;
		w->phase = is_connected ? WATCH_ASKING : WATCH_CONNECTING;
		return is_connected ? WATCH_ASK : WATCH_CONNECT;
	}
	lower(wake_us, due);
	return WATCH_NOTHING;
}

/* ---- events ---- */

void host_watch_connected(struct host_watch *w, uint64_t now_us)
{
	w->phase = WATCH_RESTING;
	w->begun_us = w->done_us = 0;
	(void)now_us;
}

void host_watch_answered(struct host_watch *w, const struct host_report *report,
    const char *unasked, uint64_t now_us)
{
	w->phase = WATCH_RESTING;
	w->done_us = now_us;
	set_report(w, report);
	w->value.report.at_us = now_us;
	set_unasked(w, unasked);
	set_state(w, HOST_UP, "", now_us);
}

void host_watch_failed(
    struct host_watch *w, enum watch_failure kind, const char *text, uint64_t now_us)
{
	bool was_connected = w->phase == WATCH_RESTING || w->phase == WATCH_ASKING;

	w->phase = WATCH_APART;
	w->done_us = now_us;
	if (kind == WATCH_REFUSED && w->is_heard)
		kind = WATCH_UNASKABLE;
	if (kind == WATCH_UNASKABLE || kind == WATCH_NO_LOGIN)
		set_unasked(w, text);
	if (kind == WATCH_UNASKABLE)
		set_state(w, HOST_UP, "", now_us);
	if (kind != WATCH_LOST && kind != WATCH_REFUSED)
		return;
	if (kind == WATCH_LOST && was_connected) {
		/* somebody may have ended this connection only: the next attempt
		 * shows how the host is */
		w->done_us = 0;
		w->is_hinted = true;
		return;
	}
	w->is_heard = false;
	set_report(w, &(struct host_report){.role = HOST_ROLE_UNKNOWN});
	set_unasked(w, "");
	set_state(w, kind == WATCH_REFUSED ? HOST_REFUSES : HOST_DOWN, text, now_us);
}

void host_watch_hint(struct host_watch *w)
{
	w->is_hinted = true;
}

void host_watch_heard(
    struct host_watch *w, const struct host_report *report, uint64_t now_us)
{
	bool was_refusing = w->value.state == HOST_REFUSES;
	char why[HOST_REASON_MAX];

	w->is_heard = true;
	if (was_refusing) {
		/* another user is let in */
		memcpy(why, w->value.reason, sizeof(why));
		set_state(w, HOST_UP, "", now_us);
		set_unasked(w, why);
	}
	if (w->value.state == HOST_NOT_TRIED && *w->value.unasked)
		set_state(w, HOST_UP, "", now_us);
	if (*w->value.unasked && w->value.state == HOST_UP &&
	    report->role != HOST_ROLE_UNKNOWN) {
		set_report(w, report);
		w->value.report.at_us = now_us;
		return;
	}
	w->is_hinted = true;
}

void host_watch_alive(struct host_watch *w, uint64_t now_us)
{
	w->phase = WATCH_APART;
	w->done_us = now_us;
	w->begun_us = 0;
	/* whether it lets anybody in, only a login shows */
	if (w->value.state == HOST_NOT_TRIED || w->value.state == HOST_HANGS)
		set_state(w, HOST_UP, "", now_us);
}

void host_watch_renew(struct host_watch *w)
{
	set_unasked(w, "");
	w->phase = WATCH_APART;
	w->done_us = w->begun_us = 0;
	w->is_hinted = true;
}

bool host_watch_take_change(struct host_watch *w)
{
	bool has_changed = w->has_changed;

	w->has_changed = false;
	return has_changed;
}
