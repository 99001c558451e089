#include "wire/message.h"

#include <stdio.h>

#include "base/text.h"

enum { STARTUP_HEADER_LEN = 8, STARTUP_MOST = 65535 };

/* The file is included twice, and each time gives the rows of one side. */
#define ROW(byte, text, least, bits) [byte] = {text, least, (bits) | MSG_KNOWN},
#define NO_ROW(byte, text, least, bits)
#define MSG(side, byte, text, least, bits) side(byte, text, least, bits)

#define FRONT ROW
#define BACK  NO_ROW
const struct message_row message_front_rows[256] = {
#include "wire/messages.def"
};
#undef FRONT
#undef BACK

#define FRONT NO_ROW
#define BACK  ROW
const struct message_row message_back_rows[256] = {
#include "wire/messages.def"
};
#undef FRONT
#undef BACK

const char *message_letter(uint8_t type, char out[MESSAGE_LETTER])
{
	snprintf(out, MESSAGE_LETTER, text_is_printable(type) ? "%c" : "\\x%02x", type);
	return out;
}

const char *message_back_name(uint8_t type, char out[MESSAGE_NAME])
{
	const char *name = message_back(type)->name;

	out[0] = '\0';
	if (name)
		snprintf(out, MESSAGE_NAME, " (%s)", name);
	return out;
}

/* This runs for each row of a result, so it is as short as it can be: `left` is the
 * most that a length may say, because a frame is one byte longer. */
size_t frame_alike(const uint8_t *bytes, size_t have, uint64_t max_size,
    const struct message_row *rows, uint8_t type)
{
	uint32_t least = rows[type].min_len;
	const uint8_t *at = bytes;
	size_t left = have;

	least = least < sizeof(uint32_t) ? sizeof(uint32_t) : least;
	if (max_size < have)
		return 0;
	while (left > least && *at == type) {
		uint32_t length = get_u32(at + 1);
		if (length < least || length >= left)
			break;
		at += (size_t)length + 1;
		left -= (size_t)length + 1;
	}
	return have - left;
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
