/*
 * The message table and the headers of frames.  Bodies are not looked at here.
 */
#include "wire/message.h"

#include "base/buf.h"

enum { HEADER_LEN = 5, STARTUP_HEADER_LEN = 8, STARTUP_MOST = 65535 };

/* Each inclusion takes the rows of one side. */
#define ROW(byte, text, least, bits) [byte] = {text, least, (bits) | MSG_KNOWN},
#define NO_ROW(byte, text, least, bits)
#define MSG(side, byte, text, least, bits) side(byte, text, least, bits)

#define FRONT ROW
#define BACK  NO_ROW
static const struct message_row front_rows[256] = {
#include "wire/messages.def"
};
#undef FRONT
#undef BACK

#define FRONT NO_ROW
#define BACK  ROW
static const struct message_row back_rows[256] = {
#include "wire/messages.def"
};
#undef FRONT
#undef BACK

const struct message_row *message_front(uint8_t type)
{
	return &front_rows[type];
}

const struct message_row *message_back(uint8_t type)
{
	return &back_rows[type];
}

enum cut frame_cut(const uint8_t *bytes, size_t have, uint64_t max_size,
    const struct message_row *(*rows)(uint8_t), struct frame *frame)
{
	if (have < HEADER_LEN)
		return CUT_PARTIAL;
	uint32_t least = rows(bytes[0])->min_len;
	uint32_t length = get_u32(bytes + 1);

	frame->type = bytes[0];
	frame->size = (uint64_t)length + 1;
	frame->code = 0;
	/* A byte that is no message still has a length that counts itself. */
	if (length < sizeof(length) || length < least || frame->size > max_size)
		return CUT_BAD;
	return CUT_OK;
}

enum cut frame_cut_startup(
    const uint8_t *bytes, size_t have, uint64_t max_size, struct frame *frame)
{
	if (have < STARTUP_HEADER_LEN)
		return CUT_PARTIAL;
	frame->type = 0;
	frame->size = get_u32(bytes);
	frame->code = get_u32(bytes + 4);
	if (frame->size < STARTUP_HEADER_LEN || frame->size > STARTUP_MOST ||
	    frame->size > max_size)
		return CUT_BAD;
	return CUT_OK;
}
