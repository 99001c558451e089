#include "top/keys.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 10, ESCAPE = 27, BACKSPACE = 127 };

static const double delay_least = 0.1, delay_most = 3600;

void keys_init(struct keys *keys)
{
	memset(keys, 0, sizeof(*keys));
	panel_choice_init(&keys->choice);
	keys->delay_s = 1;
}

const char *keys_help(void)
{
	return "1 pools   2 databases   3 latency   4 blockers   5 hosts   6 workers   "
	       "7 clients\n"
	       "\n"
	       "< >       sort by the column to the left or right (also arrows)\n"
	       "r         the other way round\n"
	       "t         latency: since the start, or recent\n"
	       "/         rows of databases with this in their name; empty: all\n"
	       "up, down  rows further up or down (also k, j, page keys)\n"
	       "d s       seconds between two looks\n"
	       "blank     look now\n"
	       "h ?       this help\n"
	       "q         quit\n"
	       "\n"
	       "Rates and averages are those since the last look.\n";
}

void keys_put_foot(struct buf *out, const struct keys *keys)
{
	switch (keys->prompt) {
	case PROMPT_FILTER:
		buf_printf(out, "database: %s_", keys->typed);
		break;
	case PROMPT_DELAY:
		buf_printf(out, "seconds: %s_", keys->typed);
		break;
	case PROMPT_NONE:
		buf_put_text(out,
		    "h help  q quit  1-7 panels  < > sort  r reverse  / filter  "
		    "d delay");
		break;
	}
}

/* ---- prompts ---- */

static enum keys_result type(struct keys *keys, int key)
{
	size_t len = strlen(keys->typed);

	if (key == '\n' || key == '\r') {
		double delay = strtod(keys->typed, NULL);
		if (keys->prompt == PROMPT_FILTER) {
			memcpy(keys->choice.filter, keys->typed,
			    sizeof(keys->choice.filter));
			keys->choice.skip = 0;
		} else if (delay >= delay_least && delay <= delay_most) {
			keys->delay_s = delay;
		}
		keys->prompt = PROMPT_NONE;
		return KEYS_ASK;
	}
	if (key == ESCAPE)
		keys->prompt = PROMPT_NONE;
	else if (key == KEYS_ERASE || key == BACKSPACE || key == '\b')
		keys->typed[len ? len - 1 : 0] = '\0';
	else if (key >= ' ' && key < 256 && len + 1 < sizeof(keys->typed))
		keys->typed[len] = (char)key;
	else
		return KEYS_NOTHING;
	return KEYS_DRAW;
}

static enum keys_result begin(struct keys *keys, enum keys_prompt prompt)
{
	keys->prompt = prompt;
	memset(keys->typed, 0, sizeof(keys->typed));
	return KEYS_DRAW;
}

/* ---- the panel ---- */

static enum keys_result sort_by(struct keys *keys, int step)
{
	int *sort = &keys->choice.sort[keys->choice.id];
	int count = panel_columns(keys->choice.id);

	*sort += step;
	if (*sort >= count)
		*sort = count - 1;
	if (*sort < 0)
		*sort = 0;
	return KEYS_DRAW;
}

static enum keys_result scroll(struct keys *keys, int step)
{
	keys->choice.skip += step;
	if (keys->choice.skip < 0)
		keys->choice.skip = 0;
	return KEYS_DRAW;
}

static enum keys_result choose_panel(struct keys *keys, int key)
{
	for (int i = 0; i < PANELS; i++)
		if (panel_key((enum panel_id)i) == key) {
			keys->choice.id = (enum panel_id)i;
			keys->choice.skip = 0;
			return KEYS_ASK;
		}
	return KEYS_NOTHING;
}

static enum keys_result move(struct keys *keys, int key)
{
	switch (key) {
	case '<':
	case KEYS_LEFT:
		return sort_by(keys, -1);
	case '>':
	case KEYS_RIGHT:
		return sort_by(keys, 1);
	case 'k':
	case KEYS_UP:
		return scroll(keys, -1);
	case 'j':
	case KEYS_DOWN:
		return scroll(keys, 1);
	case KEYS_PAGE_UP:
		return scroll(keys, -PAGE);
	case KEYS_PAGE_DOWN:
		return scroll(keys, PAGE);
	}
	return choose_panel(keys, key);
}

enum keys_result keys_press(struct keys *keys, int key)
{
	if (keys->prompt != PROMPT_NONE)
		return type(keys, key);
	if (keys->is_helping) {
		keys->is_helping = false;
		enum keys_result chosen = choose_panel(keys, key);
		if (chosen != KEYS_NOTHING)
			return chosen;
		return key == 'q' ? KEYS_LEAVE : KEYS_DRAW;
	}
	switch (key) {
	case 'q':
	case 'Q':
		return KEYS_LEAVE;
	case 'h':
	case '?':
		keys->is_helping = true;
		return KEYS_DRAW;
	case 'r':
		keys->choice.is_upside[keys->choice.id] ^= true;
		return KEYS_DRAW;
	case 't':
		keys->choice.is_recent ^= true;
		return KEYS_DRAW;
	case '/':
		return begin(keys, PROMPT_FILTER);
	case 'd':
	case 's':
		return begin(keys, PROMPT_DELAY);
	case ' ':
		return KEYS_ASK;
	}
	return move(keys, key);
}
