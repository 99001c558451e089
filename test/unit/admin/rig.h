/*
 * A site without a process around it, and consoles at the far end of socket pairs.
 */
#ifndef TEST_UNIT_ADMIN_RIG_H
#define TEST_UNIT_ADMIN_RIG_H

#include <stdbool.h>

#include "base/buf.h"
#include "session/client.h"
#include "session/site.h"

struct rig {
	struct site site;
	struct config *config;
	/* What the console asked of the process. */
	unsigned reloads, sets;
	char set_name[64], set_value[256];
	enum shutdown_mode shutdown_asked;
	bool refuses; /* RELOAD and SET fail */
	bool is_busy; /* with a reload that takes longer */
	struct deadline patience;
	bool is_late;
};

/* The text is that of the ini file. */
struct rig *rig_new(const char *ini);
void rig_free(struct rig **rig);

/* A console and the other end of its connection. */
struct desk {
	struct rig *rig;
	struct client *client; /* not to be touched after it was closed */
	int fd;
	struct watch *watch;
	struct buf in;    /* bytes not shown yet */
	struct buf text;  /* the last answer in letters */
	unsigned readies; /* ReadyForQuery messages in `in` */
	unsigned wanted;
	bool has_ended; /* the console closed */
};

/* Logged in; its greeting is in desk->text. */
void desk_open(struct desk *desk, struct rig *rig, bool is_admin);
void desk_close(struct desk *desk);
void desk_send(struct desk *desk, const void *bytes, size_t len);
/* Send a Query without waiting. */
void desk_say(struct desk *desk, const char *sql);
/* Wait for that many ReadyForQuery messages, or the end, and show all that came, one
 * message per line: "T version:25", "D PgBouncer 2.0.0", "C SHOW", "Z I". */
const char *desk_hear(struct desk *desk, unsigned readies);
/* Both. */
const char *desk_ask(struct desk *desk, const char *sql);
/* Let the loop turn for that long. */
void rig_turn(struct rig *rig, unsigned milliseconds);

#endif
