/*
 * How PostgreSQL spells the values that clients of a pool ask for in their startup
 * packets: `utf-8` is reported as `UTF8`, and `ISO` as `ISO, MDY` where the rest of
 * DateStyle is MDY by default.  What servers have answered is kept, so that only the
 * first client with a spelling needs a server to be greeted.
 */
#ifndef BROKER_SPELLINGS_H
#define BROKER_SPELLINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "broker/login_params.h"
#include "wire/vars.h"

/* What servers have answered, up to a limit; what was not used for longest goes first.
 */
struct spellings;

struct spellings *spellings_new(void);
void spellings_free(struct spellings **s);

/* On a server whose own value of parameter i is `base`, asking for `asked` gives
 * `value`. Very long values are not kept. */
void spellings_keep(struct spellings *s, size_t i, const char *base, const char *asked,
    const char *value);
/* Replaces the values in `asked` by those that PostgreSQL would report, where that is
 * known without a server.  Returns the bits of the parameters where it is not known,
 * which keep their values.  s may be NULL.  -1 in *failed: no memory. */
uint64_t spellings_apply(struct spellings *s, const struct login_params *login_params,
    struct vars *asked, int *failed);

#endif
