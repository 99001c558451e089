/*
 * Tells the service manager how we are: the sd_notify(3) protocol, one datagram to the
 * socket named by NOTIFY_SOCKET.  Without that variable nothing happens.
 */
#ifndef NOTIFY_H
#define NOTIFY_H

void notify_ready(void);
void notify_reloading(void);
void notify_stopping(void);
/* Text for `systemctl status`. */
void notify_status(const char *text);

#endif
