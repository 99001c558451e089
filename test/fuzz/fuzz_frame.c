/* links: wire base */
/*
 * Frames cut from any bytes: the first byte chooses the phase and the side, the rest is
 * the stream.  A frame is never smaller than its header nor larger than allowed.
 */
#include <stdlib.h>

#include "wire/message.h"

enum { MOST = 1 << 16, HEADER = 5, STARTUP_HEADER = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static enum cut cut_next(
    uint8_t phase, const uint8_t *at, size_t left, struct frame *frame)
{
	if (phase == 0)
		return frame_cut_startup(at, left, MOST, frame);
	return frame_cut(
	    at, left, MOST, phase == 1 ? message_front_rows : message_back_rows, frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct frame frame;

	if (!len)
		return 0;
	uint8_t phase = data[0] % 3;
	size_t least = phase ? HEADER : STARTUP_HEADER;
	for (size_t at = 1; at < len; at += frame.size) {
		size_t left = len - at;
		enum cut cut = cut_next(phase, data + at, left, &frame);
		if ((cut == CUT_PARTIAL) != (left < least))
			abort();
		if (cut != CUT_OK)
			break;
		if (frame.size < least || frame.size > MOST)
			abort();
		if (frame.size > left)
			break;
	}
	return 0;
}
