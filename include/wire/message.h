/*
 * The message-type table (messages.def) and cutting of frames.  See the PostgreSQL
 * documentation, "Message Formats".  A frame is: type byte (absent in the startup
 * phase), length as 32 bits that counts itself but not the type byte, body.
 */
#ifndef WIRE_MESSAGE_H
#define WIRE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum message_flag {
	MSG_LOGIN = 1 << 0,   /* belongs to the login phase only */
	MSG_OWES = 1 << 1,    /* front: owes an answer (enters the ledger) */
	MSG_OPENS = 1 << 2,   /* front: needs a server, opens a transaction */
	MSG_NAMES = 1 << 3,   /* front: names a prepared statement or portal */
	MSG_STREAMS = 1 << 4, /* never needed whole: may pass in pieces */
	MSG_SECRET = 1 << 5,  /* content must never be logged */
	MSG_COPY = 1 << 6,    /* part of a COPY stream */
	MSG_ASYNC = 1 << 7,   /* back: may come at any time, answers nothing */
	MSG_KNOWN = 1 << 8,   /* set for every row of the table */
};

struct message_row {
	const char *name; /* "Query"; NULL for bytes that are no message */
	uint32_t min_len; /* smallest legal length field */
	uint32_t flags;
};

/* Rows by type byte; unknown bytes have a row with flags 0. */
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

/* Codes in place of a protocol version in the first packet. */
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
	    size; /* whole frame on the wire: type byte and length field included */
	uint32_t code; /* startup-phase packets: version or request code */
};

enum cut {
	CUT_OK,      /* *frame is filled; the body may be incomplete */
	CUT_PARTIAL, /* fewer than 5 (8) bytes: wait */
	CUT_BAD,     /* length below the type's minimum or frame above max_size */
};

/* Look at the header of an ordinary message.  rows: those of its side. */
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
	/* A byte that is no message still has a length that counts itself. */
	if (length < sizeof(length) || length < least || frame->size > max_size)
		return CUT_BAD;
	return CUT_OK;
}
/* Look at a packet of the startup phase (no type byte): length 8..65535 and its first
 * two bytes zero, else CUT_BAD. */
enum cut frame_cut_startup(
    const uint8_t *bytes, size_t have, uint64_t max_size, struct frame *frame);

#endif
