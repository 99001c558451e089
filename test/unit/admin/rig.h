/*
 * A site without a process around it, and consoles with the tests' ends of the sockets.
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
	/* What the console asked the process to do. */
	unsigned reloads, sets;
	char set_name[64], set_value[256];
	enum shutdown_mode shutdown_asked;
	bool refuses; /* RELOAD and SET fail */
	bool is_busy; /* a reload is still under way */
	struct deadline patience;
	bool is_late;
};

/* Takes the text of the ini file. */
struct rig *rig_new(const char *ini);
void rig_free(struct rig **rig);

/* A console and the other end of its connection. */
struct console_client {
	struct rig *rig;
	struct client *client; /* must not be used after the console closed */
	int fd;
	struct watch *watch;
	struct buf in;    /* bytes that are not in `text` yet */
	struct buf text;  /* the last answer, one line per message */
	unsigned readies; /* ReadyForQuery messages in `in` */
	unsigned wanted;
	bool has_ended; /* the console closed */
};

/* Opens a console that is logged in; the answer to the login is in client->text. */
void console_client_open(struct console_client *client, struct rig *rig, bool is_admin);
void console_client_close(struct console_client *client);
void console_client_send(struct console_client *client, const void *bytes, size_t len);
/* Sends a Query without waiting. */
void console_client_say(struct console_client *client, const char *sql);
/* Waits for that many ReadyForQuery messages, or the end, and returns all that came,
 * one message per line: "T version:25", "D PgBouncer 2.0.0", "C SHOW", "Z I". */
const char *console_client_hear(struct console_client *client, unsigned readies);
/* Sends a Query and waits for its ReadyForQuery. */
const char *console_client_ask(struct console_client *client, const char *sql);
/* Lets the loop turn for that long. */
void rig_turn(struct rig *rig, unsigned milliseconds);

#endif
