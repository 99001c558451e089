/*
 * Tells the service manager how we are: the sd_notify(3) protocol, one datagram to the
 * socket named by NOTIFY_SOCKET.  Without that variable nothing happens.
 */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

#include <stdint.h>

void notify_ready(void);
/* Ready, too, and from now on the main process of the service. */
void notify_taken_over(void);
void notify_reloading(void);
void notify_stopping(void);
/* Text for `systemctl status`. */
void notify_status(const char *text);
/* The manager restarts a process that it has not heard of for so many microseconds
 * (WATCHDOG_USEC); 0: it does not watch this process. */
uint64_t notify_watchdog_us(void);
void notify_alive(void);

#endif
