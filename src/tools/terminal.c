#include "tools/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/mem.h"

enum { SECRET_MAX = 1024 };

/* Waits for input.  False: a signal came first. */
static bool wait_for_line(int tty, int signals)
{
	struct pollfd ready[] = {
	    {.fd = tty, .events = POLLIN}, {.fd = signals, .events = POLLIN}};

	while (poll(ready, 2, -1) < 0)
		if (errno != EINTR)
			return false;
	return !ready[1].revents;
}

static void put_text(int tty, const char *text)
{
	(void)!write(tty, text, strlen(text));
}

/* The caller has blocked the signals of `ends`. */
static char *ask_unseen(
    int tty, const char *prompt, const sigset_t *ends, struct err *err)
{
	struct termios before, unseen;
	int signals = signalfd(-1, ends, SFD_CLOEXEC);
	char *secret = NULL;
	char text[SECRET_MAX];

	if (signals < 0 || tcgetattr(tty, &before) < 0) {
		err_set(err, "cannot ask for a password: %s", strerror(errno));
	} else {
		unseen = before;
		unseen.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHONL);
		tcsetattr(tty, TCSAFLUSH, &unseen);
		put_text(tty, prompt);
		ssize_t len =
		    wait_for_line(tty, signals) ? read(tty, text, sizeof(text)) : 0;
		if (len > 0 && text[len - 1] == '\n' && len > 1) {
			text[len - 1] = '\0';
			secret = mem_strdup(text);
		} else {
			err_set(err, "no password was given");
		}
		mem_wipe(text, sizeof(text));
		put_text(tty, "\n");
		tcsetattr(tty, TCSAFLUSH, &before);
	}
	if (signals >= 0)
		close(signals);
	return secret;
}

char *terminal_ask_secret(const char *prompt, struct err *err)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGTSTP};
	int tty = open("/dev/tty", O_RDWR | O_CLOEXEC);
	sigset_t ends, before;
	char *secret;

	if (tty < 0) {
		err_set(err, "there is no terminal to ask for it");
		return NULL;
	}
	sigemptyset(&ends);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaddset(&ends, numbers[i]);
	sigprocmask(SIG_BLOCK, &ends, &before);
	secret = ask_unseen(tty, prompt, &ends, err);
	/* a signal that came meanwhile ends the process here */
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(tty);
	return secret;
}
