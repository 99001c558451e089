/*
 * SWITCHOVER: pauses a database until another host has become its primary, or until the
 * named host can be used, and continues there.  switchover_timeout limits the time;
 * however it ends, the database continues.
 */
#ifndef SESSION_SWITCHOVER_H
#define SESSION_SWITCHOVER_H

#include "base/errors.h"
#include "session/site.h"

struct switchover;

/* May a switchover begin?  0: yes.  -1: *id is an error whose arguments are the names
 * of the database and of the host. */
int switchover_check(const struct site *site, const struct database *db, const char *to,
    enum error_id *id);
/* Begins a switchover that switchover_check has allowed.  `to` is a host as SHOW HOSTS
 * names it, with or without ":port"; "": any.  The caller keeps the result until
 * switchover_forget. */
struct switchover *switchover_begin(
    struct site *site, struct database *db, const char *to);
/* Ends the switchover: the database continues at its old host. */
void switchover_interrupt(struct switchover *s);
/* What has happened since the last call, as text for the console; or NULL.  Valid until
 * the next call. */
const char *switchover_news(struct switchover *s);
bool switchover_has_ended(const struct switchover *s);
/* After the end: why it failed; NULL: it has succeeded. */
const char *switchover_failure(const struct switchover *s);
/* The caller does not need it any more.  The switchover continues if it has not ended.
 */
void switchover_forget(struct switchover **s);

void switchover_init(struct site *site);
/* Frees the switchovers, also those in progress. */
void switchover_done(struct site *site);

#endif
