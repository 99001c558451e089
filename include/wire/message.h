/*
 * The table of message types (messages.def), and reading the headers of messages.
 * PostgreSQL documentation: "Message Formats".  A frame is one message with its header:
 * type byte (absent in the startup phase), length as 32 bits (it counts itself, but not
 * the type byte), body.
 */
#ifndef WIRE_MESSAGE_H
#define WIRE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum message_flag {
	MSG_LOGIN = 1 << 0, /* allowed only during the login */
	/* from clients: has an answer, so it is entered in the ledger */
	MSG_OWES = 1 << 1,
	/* from clients: needs a server and begins a transaction */
	MSG_OPENS = 1 << 2,
	MSG_NAMES = 1 << 3,   /* from clients: names a prepared statement or portal */
	MSG_STREAMS = 1 << 4, /* may be forwarded in pieces; nobody needs it whole */
	MSG_SECRET = 1 << 5,  /* the content must never be logged */
	MSG_COPY = 1 << 6,    /* part of a COPY stream */
	MSG_ASYNC = 1 << 7,   /* from servers: may come at any time and is no answer */
	MSG_KNOWN = 1 << 8,   /* set in every row of the table */
};

struct message_row {
	const char *name; /* such as "Query"; NULL: no message has this type byte */
	uint32_t min_len; /* the least legal value of the length field */
	uint32_t flags;
};

/* The table by type byte.  A byte that is no message has a row whose flags are 0. */
extern const struct message_row message_front_rows[256]; /* client to server */
extern const struct message_row message_back_rows[256];  /* server to client */

static inline const struct message_row *message_front(uint8_t type)
{
	return &message_front_rows[type];
}
static inline const struct message_row *message_back(uint8_t type)
{
	return &message_back_rows[type];
}

/* A type byte as a text for the log: "D", or "\\x00" if it is not printable. */
enum { MESSAGE_LETTER = 5 };
const char *message_letter(uint8_t type, char out[MESSAGE_LETTER]);
/* What a server's message is called behind its letter in the log: " (DataRow)"; "" if
 * PostgreSQL has no such message. */
enum { MESSAGE_NAME = 32 };
const char *message_back_name(uint8_t type, char out[MESSAGE_NAME]);

/* Request codes that stand in place of a protocol version in the first packet. */
enum {
	STARTUP_CANCEL = 80877102,
	STARTUP_SSL = 80877103,
	STARTUP_GSSENC = 80877104,
	PROTOCOL_V2 = 0x20000,
	PROTOCOL_3_0 = 0x30000,
	PROTOCOL_3_2 = 0x30002,
};

struct frame {
	uint8_t type; /* 0 for a startup-phase packet */
	uint64_t
	    size; /* bytes of the whole frame, including type byte and length field */
	uint32_t code; /* startup phase only: protocol version or request code */
};

enum cut {
	CUT_OK, /* *frame is filled, though the body may be incomplete */
	/* fewer bytes than a header has (5, startup phase 8): wait for more */
	CUT_PARTIAL,
	/* the length is below the type's minimum, or the frame is larger than
	 * max_size */
	CUT_BAD,
};

/* Reads the header of an ordinary message.  rows is the table of the sender's side. */
static inline enum cut frame_cut(const uint8_t *bytes, size_t have, uint64_t max_size,
    const struct message_row *rows, struct frame *frame)
{
	enum { HEADER_LEN = 5 };

	if (have < HEADER_LEN)
		return CUT_PARTIAL;
	uint32_t least = rows[bytes[0]].min_len;
	uint32_t length = get_u32(bytes + 1);

	frame->type = bytes[0];
	frame->size = (uint64_t)length + 1;
	frame->code = 0;
	/* the length of an unknown message must at least count itself */
	if (length < sizeof(length) || length < least || frame->size > max_size)
		return CUT_BAD;
	return CUT_OK;
}
/* Returns the size of the whole message that begins here; 0: it is not whole, or not
 * valid.  frame_cut tells which. */
static inline size_t frame_whole(const uint8_t *bytes, size_t have, uint64_t max_size,
    const struct message_row *rows)
{
	struct frame frame;

	return frame_cut(bytes, have, max_size, rows, &frame) == CUT_OK &&
		       frame.size <= have
		   ? (size_t)frame.size
		   : 0;
}
/* Returns how many bytes the whole messages of this type are that begin here, one after
 * the other. */
size_t frame_alike(const uint8_t *bytes, size_t have, uint64_t max_size,
    const struct message_row *rows, uint8_t type);
/* Reads the header of a packet of the startup phase, which has no type byte.  The
 * length must be 8 to 65535 (so its first two bytes are zero); otherwise CUT_BAD. */
enum cut frame_cut_startup(
    const uint8_t *bytes, size_t have, uint64_t max_size, struct frame *frame);

#endif
