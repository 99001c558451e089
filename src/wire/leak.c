#include "wire/leak.h"

#include "base/text.h"

#define ANY NULL

static const struct {
	const char *name, *tag, *hint;
} rows[] = {
#define LEAK(name, shown, tag, hint) [LEAK_##name] = {shown, tag, hint},
#include "wire/leak_kinds.def"
#undef LEAK
};

enum { SET_FAMILY = LEAK_BIT(SET) | LEAK_BIT(ROLE) | LEAK_BIT(AUTHORIZATION) };

const char *leak_name(enum leak_kind kind)
{
	return rows[kind].name;
}

const char *leak_hint(enum leak_kind kind)
{
	return rows[kind].hint;
}

/* ---- functions ---- */

/* The oids of pg_proc.dat, which never change. */
uint16_t leak_of_function(uint32_t oid)
{
	enum { SET_CONFIG = 2078, LOCK_FIRST = 2880, LOCK_LAST = 2889 };
	enum { UNLOCK = 2884, UNLOCK_SHARED = 2885 };

	if (oid == SET_CONFIG)
		return LEAK_BIT(CONFIG);
	if (oid < LOCK_FIRST || oid > LOCK_LAST || oid == UNLOCK ||
	    oid == UNLOCK_SHARED)
		return 0;
	return LEAK_BIT(ADVISORY);
}

/* ---- tags ---- */

bool leak_may_matter(const char *tag, size_t len)
{
	switch (len ? tag[0] : 'S') {
	case 'S': /* SET, but not SELECT */
		return len < 3 || tag[2] == 'T';
	case 'C': /* CLOSE CURSOR, but not COPY or COMMIT */
		return len < 2 || tag[1] == 'L';
	case 'L':
	case 'D':
	case 'P':
		return true;
	}
	return false;
}

static uint16_t cleared_by(uint16_t expected, const char *tag, size_t len)
{
	if (text_is(tag, len, "DISCARD ALL"))
		return LEAK_KINDS;
	if (text_is(tag, len, "DISCARD TEMP"))
		return LEAK_BIT(TEMP);
	if (text_is(tag, len, "DEALLOCATE ALL"))
		return LEAK_BIT(PREPARE);
	if (text_is(tag, len, "CLOSE CURSOR ALL"))
		return LEAK_BIT(CURSOR);
	if (text_is(tag, len, "UNLISTEN") && (expected & LEAK_UNLISTEN_ALL))
		return LEAK_BIT(LISTEN);
	return 0;
}

/* Some kinds can be left by statements with any tag.  They are counted with the first
 * tag that does not belong to BEGIN or SET. */
static uint16_t of_any(struct leak_watch *watch, const char *tag, size_t len)
{
	uint16_t due = watch->expected & (uint16_t)~watch->met &
		       (LEAK_BIT(TEMP) | LEAK_BIT(ADVISORY) | LEAK_BIT(CONFIG));

	if (text_is(tag, len, "BEGIN") || text_is(tag, len, "SET") ||
	    text_is(tag, len, "START TRANSACTION"))
		return 0;
	watch->met |= due;
	return due;
}

uint16_t leak_of_tag(
    struct leak_watch *watch, const char *tag, size_t len, uint16_t *cleared)
{
	uint16_t kinds = 0;

	*cleared = cleared_by(watch->expected, tag, len);
	if (text_is(tag, len, "SET")) {
		/* Which SET this tag belongs to is unknown when several are in flight.
		 * The kinds that leave something behind are taken first, so that none
		 * is missed. */
		uint16_t family = watch->expected & (SET_FAMILY | LEAK_HARMLESS_SET);
		uint16_t unmet = family & (uint16_t)~watch->met, bit;
		if (!unmet)
			unmet = family;
		if (!unmet)
			return LEAK_BIT(SET);
		bit = unmet & (uint16_t)-unmet;
		watch->met |= bit;
		return bit & LEAK_KINDS;
	}
	for (int i = 0; i < LEAK_KIND_COUNT; i++)
		if (rows[i].tag && text_is(tag, len, rows[i].tag))
			kinds |= (uint16_t)(1 << i);
	if (watch->expected & LEAK_HARMLESS_PREPARE)
		kinds &= (uint16_t)~LEAK_BIT(PREPARE);
	/* Only the text of a DECLARE tells whether the cursor is held. */
	if (!(watch->expected & (uint16_t)~watch->met & LEAK_BIT(CURSOR)))
		kinds &= (uint16_t)~LEAK_BIT(CURSOR);
	watch->met |= kinds & LEAK_BIT(CURSOR);
	return kinds | of_any(watch, tag, len);
}
