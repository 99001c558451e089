/*
 * What keys do: which panel is shown, how it is sorted, how often it is asked for.
 */
#ifndef TOP_KEYS_H
#define TOP_KEYS_H

#include <stdbool.h>

#include "top/panel.h"

/* Besides characters. */
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
	double delay_s; /* between two looks */
	bool is_helping;
	enum keys_prompt prompt; /* what is being typed */
	char typed[64];
};

enum keys_result {
	KEYS_NOTHING,
	KEYS_DRAW,  /* what is known is to be drawn anew */
	KEYS_ASK,   /* something else is to be asked for, now */
	KEYS_LEAVE, /* the person wants to go */
};

void keys_init(struct keys *keys);
enum keys_result keys_press(struct keys *keys, int key);

/* Lines that explain the keys. */
const char *keys_help(void);
/* The last line of the screen, with no newline. */
void keys_put_foot(struct buf *out, const struct keys *keys);

#endif
