/*
 * The hosts of one database: which of them its servers may be at.  The control thread
 * decides, for all workers, whenever the value of a host or the configuration has
 * changed; workers get the verdicts as values.  No I/O here.
 *
 * One of the primaries is the primary in force.  It stays so until it is down, hangs,
 * refuses or has another role, or a primary with a higher timeline is up.  A primary
 * with a lower timeline than the highest that was in force is unfit, also while the
 * other one is down: its writes would be lost.  The host that an administrator has
 * chosen (SWITCHOVER) stays in force as long as it is up and has the role, whatever its
 * timeline.  For writers (target_session_attrs read-write and primary) only the primary
 * in force is fit, so that they are never at two hosts.
 *
 * At the first decision all hosts must have been tried; but one that does not answer is
 * waited for for a second only.
 *
 * Lag: each answer of the primary in force is a sample (time, position).  A standby is
 * behind by the bytes between the newest sample and its own position, and by the time
 * from the oldest sample beyond its position to its answer, or to the primary's last
 * one if that is earlier.  So a primary at rest makes nobody lag, the first write after
 * a rest does not either, and nobody falls further behind a primary that is down.
 */
#ifndef POOL_HOST_GROUP_H
#define POOL_HOST_GROUP_H

#include "base/buf.h"
#include "conf/settings.h"
#include "pool/host_watch.h"

enum { HOST_SAMPLES = 64 };

struct host_group_rules {
	enum target_attrs target;
	uint64_t max_lag_us, max_lag_bytes; /* 0: no limit */
};

struct host_member {
	struct host_watch *watch; /* borrowed */
	struct host_verdict verdict;
	bool is_lagging; /* too far behind, until it is at most half as far behind */
};

struct host_sample {
	uint64_t at_us, position;
};

struct host_group {
	struct host_group_rules rules;
	struct host_member *members; /* owned */
	size_t count;
	struct host_watch *primary; /* in force; NULL: none yet.  It may be down. */
	struct host_watch *chosen;  /* by an administrator; NULL: none */
	uint32_t timeline;          /* the highest of a primary that was in force */
	uint64_t begun_us;          /* when its hosts began to be watched; 0: not yet */
	bool is_settled;            /* the first decision was made */
	bool serves;                /* some host serves */
	uint64_t lacking_us;        /* since when no host serves, after one did */
	uint64_t both_us;  /* since when two hosts are known as primaries; or 0 */
	bool is_split;     /* two primaries are up, by what both said since */
	uint64_t split_us; /* when there were two last; 0: never */
	/* of the primary in force, the oldest first; some older ones are left out */
	struct host_sample samples[HOST_SAMPLES];
	size_t sample_count;
	uint64_t heard_us; /* when it answered last, if there are samples */
};

/* What a decision has changed. */
struct host_change {
	bool is_any;   /* some verdict, or limited lag: tell the workers */
	bool is_back;  /* a host serves again, after lacked_us without one */
	bool is_lost;  /* no host serves any more, or each was tried and none serves */
	bool is_split; /* two primaries are up, and were not for a while */
	uint64_t lacked_us;
};

void host_group_init(struct host_group *g);
/* Takes the hosts of the database's entry, in its order; the group keeps what it knows
 * about those that it had before.  hosts: borrowed, and must live as long as they are
 * in the group. */
void host_group_adopt(struct host_group *g, const struct host_group_rules *rules,
    struct host_watch **hosts, size_t count);
/* Its hosts are watched from now on: the database has clients or servers. */
void host_group_begin(struct host_group *g, uint64_t now_us);
/* Nobody needs its hosts for now: the next decision begins like the first one, but for
 * the highest timeline. */
void host_group_rest(struct host_group *g);
void host_group_done(struct host_group *g);
/* Decides anew.  *wake_us is lowered to the time at which to decide again although
 * nothing has changed. */
void host_group_decide(struct host_group *g, uint64_t now_us,
    struct host_change *change, uint64_t *wake_us);
/* This host has answered: if it is the primary in force, that is a sample. */
void host_group_note(struct host_group *g, const struct host_watch *w);
/* An administrator has chosen this host of the group; NULL: nobody is chosen. */
void host_group_choose(struct host_group *g, struct host_watch *w);
/* This host was the primary in force in the process before, at this timeline. */
void host_group_restore(struct host_group *g, struct host_watch *w, uint32_t timeline);
/* Whether the host can be used now. */
bool host_group_serves(const struct host_verdict *v);
/* Whether what runs at the host is lost as soon as another one serves: nobody knows
 * whether it ever answers, or its writes are not at the primary in force. */
bool host_group_is_hopeless(const struct host_verdict *v);
/* "not tried", "up", "refuses", "hangs", "down" or "unfit", and why. */
const char *host_group_state_shown(const struct host_verdict *v);
const char *host_group_reason_shown(const struct host_verdict *v);
/* Appends both, such as " is unfit (it is a standby)" or " hangs (no answer for 5
 * seconds)". */
void host_group_describe(const struct host_verdict *v, struct buf *out);
/* "primary", "standby", "read-only" or NULL. */
const char *host_group_report_shown(const struct host_report *report);

#endif
