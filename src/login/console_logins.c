#include "login/console_logins.h"

#include "login/login_state.h"

/* The oldest login whose client has its turn, or else the new one. */
static struct login *choose_leaver(const struct list *logins)
{
	struct login *login;

	list_for (login, logins, console_node)
		if (!login->client->conn.is_doomed && !login_is_waiting(login))
			return login;
	return container_of(list_last(logins), struct login, console_node);
}

void console_logins_add(struct login *login, bool is_full)
{
	struct list *logins = &login->client->conn.site->console_logins;
	struct login *leaver;

	list_push_back(logins, &login->console_node);
	if (!is_full || logins->count <= CONSOLE_LOGINS_MOST)
		return;
	leaver = choose_leaver(logins);
	/* it closes later in this turn, in which more may begin */
	console_logins_remove(leaver);
	client_fatal(leaver->client, ERROR_NO_MORE_CONNECTIONS);
}

void console_logins_remove(struct login *login)
{
	if (node_is_linked(&login->console_node))
		list_remove(
		    &login->client->conn.site->console_logins, &login->console_node);
}
