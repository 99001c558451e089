/*
 * What is known of a host, as values that threads send each other.
 */
#ifndef POOL_HOST_STATE_H
#define POOL_HOST_STATE_H

#include <stdbool.h>
#include <stdint.h>

enum host_state {
	HOST_NOT_TRIED,
	HOST_UP,
	HOST_REFUSES, /* it answers logins with an error */
	HOST_HANGS,   /* connected or connecting, but it does not answer */
	HOST_DOWN,    /* it cannot be reached */
};

enum host_role {
	HOST_ROLE_UNKNOWN, /* no server has told it yet */
	HOST_PRIMARY,
	HOST_STANDBY, /* in recovery (hot standby) */
};

/* What a server says about itself. */
struct host_report {
	enum host_role role;
	bool is_read_only;   /* the value of default_transaction_read_only */
	bool is_kept_posted; /* the server reports changes by itself */
	uint32_t timeline;   /* of a primary; 0: not known */
	uint64_t at_us;      /* when it said so */
	/* bytes of WAL that a primary has written or a standby has replayed, since the
	 * beginning; 0: not known */
	uint64_t position;
};

enum { HOST_REASON_MAX = 160 };

/* One host for all databases. */
struct host_value {
	enum host_state state;
	uint64_t since_us; /* when the state began; the process's clock */
	struct host_report report;
	/* why it is in that state, in the words of the system or the server; "": up */
	char reason[HOST_REASON_MAX];
	/* what cannot be asked, and why; "": everything */
	char unasked[HOST_REASON_MAX];
};

/* One host as one database sees it. */
struct host_verdict {
	struct host_value value;
	/* it has the role that the database wants, on the right timeline, and is not
	 * too far behind; says nothing about its state */
	bool is_fit;
	bool is_spare;    /* unfit only because a standby is up */
	bool is_outdated; /* it is up, and unfit because its timeline is older */
	/* for writers: the host in force */
	bool is_in_force;
	/* the database's primary is, or was at last, this host; then also the highest
	 * timeline of its primaries, 0: not known */
	bool is_primary;
	uint32_t highest_timeline;
	/* how far a standby is behind the primary; UINT64_MAX: not known */
	uint64_t lag_us, lag_bytes;
	/* it may be used although it has not been tried: no role is asked for, or it
	 * cannot be asked */
	bool may_be_tried;
	char unfit_reason[HOST_REASON_MAX]; /* "": it is fit */
};

#endif
