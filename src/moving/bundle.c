/*
 * Parcels on their way between two sites of one process.
 */
#include "moving/bundle.h"

enum { HEAD = 5 };

void bundle_init(struct bundle *bundle)
{
	buf_init(&bundle->bytes, 0);
}

void bundle_done(struct bundle *bundle)
{
	buf_wipe_done(&bundle->bytes);
}

int bundle_put(void *ctx, const struct parcel *parcel, int fd)
{
	struct bundle *bundle = ctx;
	struct buf bytes;

	(void)fd;
	buf_init(&bytes, 0);
	parcel_encode(parcel, PARCEL_FORMAT, &bytes);
	buf_put_u8(&bundle->bytes, (uint8_t)parcel->kind);
	buf_put_u32(&bundle->bytes, (uint32_t)bytes.len);
	buf_put(&bundle->bytes, bytes.bytes, bytes.len);
	bool has_failed = bytes.failed || bundle->bytes.failed;
	buf_wipe_done(&bytes);
	return has_failed ? -1 : 0;
}

/* All sites of the process are alike, so one state is enough for all senders. */
static struct moving *receiver(struct site *site)
{
	if (!site->moving_within)
		site->moving_within = moving_new_within(site);
	return site->moving_within;
}

void bundle_forget_senders(struct site *site)
{
	moving_free(&site->moving_within);
}

struct opening {
	struct moving *moving;
	bundle_fn *fn;
	void *ctx;
};

static void open_one(
    const struct opening *o, enum parcel_kind kind, const uint8_t *bytes, size_t len)
{
	struct arena *arena = arena_new();
	struct parcel parcel;
	struct err ignored;

	if (parcel_decode(&parcel, kind, PARCEL_FORMAT, bytes, len, arena) == 0) {
		if (moving_check(o->moving, &parcel, &ignored) == 0)
			o->fn(o->ctx, o->moving, &parcel);
		mem_wipe(&parcel, sizeof(parcel));
	}
	arena_free(&arena);
}

void bundle_open(
    const struct bundle *bundle, struct site *site, bundle_fn *fn, void *ctx)
{
	const struct opening o = {receiver(site), fn, ctx};
	const uint8_t *at = bundle->bytes.bytes;
	const uint8_t *end = at + bundle->bytes.len;

	while (at < end) {
		size_t len = (size_t)at[1] << 24 | (size_t)at[2] << 16 |
			     (size_t)at[3] << 8 | at[4];
		open_one(&o, (enum parcel_kind)at[0], at + HEAD, len);
		at += HEAD + len;
	}
	moving_forget_texts(o.moving);
}
