/*
 * SWITCHOVER: a database is paused, and goes on at the host that has become its
 * primary, or at the one that is named.  The time it may take is switchover_timeout;
 * whatever ends it, the database goes on.
 */
#ifndef SESSION_SWITCHOVER_H
#define SESSION_SWITCHOVER_H

#include "base/errors.h"
#include "session/site.h"

struct switchover;

/* May one begin?  0: yes.  Otherwise an error whose arguments are the names of the
 * database and of the host. */
int switchover_check(const struct site *site, const struct database *db, const char *to,
    enum error_id *id);
/* Begins after that.  `to` is a host as SHOW HOSTS has it, with ":port" or without; "":
 * any.  The caller watches it until switchover_forget. */
struct switchover *switchover_begin(
    struct site *site, struct database *db, const char *to);
/* Everything goes on as before. */
void switchover_interrupt(struct switchover *s);
/* What there is to tell since the last question, or NULL.  Valid until the next one. */
const char *switchover_news(struct switchover *s);
bool switchover_has_ended(const struct switchover *s);
/* Once it has ended: why it failed; NULL: it is done. */
const char *switchover_failure(const struct switchover *s);
/* Nobody watches it any more; it goes on if it has not ended. */
void switchover_forget(struct switchover **s);

void switchover_init(struct site *site);
/* Those that are under way end with their process. */
void switchover_done(struct site *site);

#endif
