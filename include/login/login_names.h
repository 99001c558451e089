/*
 * The database and the user that a client names in its startup packet.
 */
#ifndef LOGIN_LOGIN_NAMES_H
#define LOGIN_LOGIN_NAMES_H

#include "login/authquery.h"

/* Sets client->database, or login->is_fake_db if there is none. */
void login_names_find_database(struct client *client);
/* Finds the user as the method of the login wants it: in auth_file, by auth_query, or
 * nowhere, if others know it.  AUTHQUERY_FOUND: client->user is set, or login->is_mock,
 * if the method knows its users from here. */
enum authquery login_names_find_user(
    struct client *client, void (*on_found)(struct client *client));

#endif
