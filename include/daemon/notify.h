/*
 * Tells the service manager the state of the process: the sd_notify(3) protocol, one
 * datagram to the socket that NOTIFY_SOCKET names.  Without that variable the functions
 * do nothing.
 */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

#include <stdint.h>

void notify_ready(void);
/* The process is ready and is the main process of the service from now on. */
void notify_taken_over(void);
void notify_reloading(void);
void notify_stopping(void);
/* Sets the text that `systemctl status` shows. */
void notify_status(const char *text);
/* The manager restarts the process if notify_alive was not called for so many
 * microseconds (WATCHDOG_USEC).  0: it does not watch this process. */
uint64_t notify_watchdog_us(void);
void notify_alive(void);

#endif
