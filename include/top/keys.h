/*
 * What keys do: they choose the panel, its order, and how often the pooler is asked.
 */
#ifndef TOP_KEYS_H
#define TOP_KEYS_H

#include <stdbool.h>

#include "top/panel.h"

/* Keys that are no characters. */
enum {
	KEYS_UP = 256,
	KEYS_DOWN,
	KEYS_LEFT,
	KEYS_RIGHT,
	KEYS_PAGE_UP,
	KEYS_PAGE_DOWN,
	KEYS_ERASE
};

enum keys_prompt { PROMPT_NONE, PROMPT_FILTER, PROMPT_DELAY };

struct keys {
	struct panel_choice choice;
	double delay_s; /* seconds between two queries */
	bool is_helping;
	enum keys_prompt prompt; /* what is being typed */
	char typed[64];
};

enum keys_result {
	KEYS_NOTHING,
	KEYS_DRAW,  /* draw again */
	KEYS_ASK,   /* ask the pooler now */
	KEYS_LEAVE, /* end the program */
};

void keys_init(struct keys *keys);
enum keys_result keys_press(struct keys *keys, int key);

/* The help: lines that explain the keys. */
const char *keys_help(void);
/* Writes the last line of the screen, without a newline. */
void keys_put_foot(struct buf *out, const struct keys *keys);

#endif
