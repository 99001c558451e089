#include "top/display.h"

#include <string.h>

#include "base/mem.h"
#include "config.h"

#ifdef HAVE_NCURSES

#	include <langinfo.h>
#	include <locale.h>
#	include <ncurses.h>
#	include <stdio.h>
#	include <sys/ioctl.h>
#	include <unistd.h>

#	include "top/keys.h"

struct display {
	SCREEN *screen;
	bool has_colors;
};

struct display *display_open(struct err *err)
{
	struct display *d = mem_zero(sizeof(*d));

	setlocale(LC_CTYPE, "");
	d->screen = newterm(NULL, stdout, stdin);
	if (!d->screen) {
		mem_free(d);
		err_set(err, "the terminal is not known to ncurses: set TERM");
		return NULL;
	}
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(50);
	curs_set(0);
	d->has_colors = has_colors();
	if (d->has_colors) {
		start_color();
		use_default_colors();
		init_pair(1, COLOR_CYAN, -1);
	}
	return d;
}

void display_close(struct display **dp)
{
	struct display *d = *dp;

	if (!d)
		return;
	*dp = NULL;
	endwin();
	delscreen(d->screen);
	mem_free(d);
}

void display_resize(struct display *d)
{
	struct winsize size;

	(void)d;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col)
		resizeterm(size.ws_row, size.ws_col);
	clearok(stdscr, TRUE);
}

void display_size(const struct display *d, int *width, int *lines)
{
	(void)d;
	getmaxyx(stdscr, *lines, *width);
}

static int look_of(const struct display *d, int line, int titles)
{
	if (line == titles)
		return A_REVERSE;
	if (line == 0 || line == titles - 1)
		return A_BOLD | (d->has_colors ? COLOR_PAIR(1) : 0);
	return A_NORMAL;
}

static void draw_line(int y, int width, int look, const char *text, size_t len)
{
	attrset(look);
	mvaddnstr(y, 0, text, (int)len);
	/* the highlighted bar reaches to the edge */
	if (look & (int)A_REVERSE)
		for (int x = getcurx(stdscr); x && x < width && getcury(stdscr) == y;
		     x++)
			addch(' ');
	attrset(A_NORMAL);
}

void display_draw(struct display *d, const char *text, int titles, const char *foot)
{
	int width, lines, y = 0;

	display_size(d, &width, &lines);
	erase();
	for (; *text && y < lines - 1; y++) {
		size_t len = strcspn(text, "\n");
		draw_line(y, width, look_of(d, y, titles), text, len);
		text += len + (text[len] == '\n');
	}
	/* a character in the last place of the screen would make it scroll */
	draw_line(lines - 1, width, A_DIM, foot, strnlen(foot, (size_t)width - 1));
	refresh();
}

int display_key(struct display *d)
{
	int key = getch();

	(void)d;
	switch (key) {
	case ERR:
		return -1;
	case KEY_UP:
		return KEYS_UP;
	case KEY_DOWN:
		return KEYS_DOWN;
	case KEY_LEFT:
		return KEYS_LEFT;
	case KEY_RIGHT:
		return KEYS_RIGHT;
	case KEY_PPAGE:
		return KEYS_PAGE_UP;
	case KEY_NPAGE:
		return KEYS_PAGE_DOWN;
	case KEY_BACKSPACE:
		return KEYS_ERASE;
	default:
		return key < 256 ? key : 0;
	}
}

#else

#	include <poll.h>
#	include <stdio.h>
#	include <sys/ioctl.h>
#	include <unistd.h>

/* Without ncurses: the lines are written anew each time, and keys come with the next
 * Enter. */
struct display {
	char unused;
};

struct display *display_open(struct err *err)
{
	(void)err;
	return mem_zero(sizeof(struct display));
}

void display_close(struct display **dp)
{
	mem_free(*dp);
	*dp = NULL;
}

void display_resize(struct display *d)
{
	(void)d;
}

void display_size(const struct display *d, int *width, int *lines)
{
	struct winsize size = {.ws_row = 24, .ws_col = 80};

	(void)d;
	(void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	*width = size.ws_col;
	*lines = size.ws_row;
}

void display_draw(struct display *d, const char *text, int titles, const char *foot)
{
	(void)d, (void)titles;
	/* to the first place, and everything behind it away */
	printf("\033[H\033[J%s%s ", text, foot);
	fflush(stdout);
}

int display_key(struct display *d)
{
	struct pollfd typed = {.fd = STDIN_FILENO, .events = POLLIN};
	unsigned char key;

	(void)d;
	if (poll(&typed, 1, 0) <= 0)
		return -1;
	return read(STDIN_FILENO, &key, 1) == 1 ? key : 'q';
}

#endif
