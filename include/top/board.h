/*
 * The data of the live view: the last answers of the console, and those before them.
 */
#ifndef TOP_BOARD_H
#define TOP_BOARD_H

#include "base/buf.h"
#include "top/board.h"
#include "top/keys.h"
#include "top/panel.h"

/* The views that are asked for, in this order; those of panels only while they are
 * shown. */
enum board_view {
	BOARD_VERSION,
	BOARD_STATE,
	BOARD_POOLS,
	BOARD_STATS,
	BOARD_WORKERS,
	BOARD_LATENCY,
	BOARD_BLOCKERS,
	BOARD_HOSTS,
	BOARD_CLIENTS,
	BOARD_VIEWS
};

struct board {
	struct table now[BOARD_VIEWS], before[BOARD_VIEWS];
};

void board_clear(struct board *board);
/* "SHOW POOLS" */
const char *board_query(enum board_view view);
/* Is it needed while this panel is shown? */
bool board_needs(const struct board *board, enum board_view view, enum panel_id panel);
struct panel_input board_input(const struct board *board, enum panel_id panel);
/* Stores an answer as the last one; *answer is empty afterwards. */
void board_take(struct board *board, enum board_view view, struct table *answer);

/* Writes the three lines above the panel: the pooler, the numbers of clients and
 * servers, the throughput. */
void board_put_head(
    struct buf *out, const struct board *board, const char *clock, int width);

/* ---- all lines ---- */

/* The index of the line with the titles of columns. */
enum { SCREEN_TITLES = 5 };

struct screen {
	const struct board *board;
	struct keys *keys;   /* its skip is limited to the rows that exist */
	const char *clock;   /* "12:34:56" */
	const char *message; /* an error to be shown; "": none */
	int width, lines;
};

void screen_put(struct buf *out, const struct screen *screen);

#endif
