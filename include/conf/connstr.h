/*
 * The grammar of connection strings, `key=value key='va''lue'`, as used in [databases],
 * [users] and [peers].  Keys are not known here.
 */
#ifndef CONF_CONNSTR_H
#define CONF_CONNSTR_H

/* Take the next pair off *at, which is cut and unquoted in place.  1 and a pair, whose
 * value is empty only when it was written as ''; 0 at the end; -1 on a syntax error. */
int connstr_next(char **at, const char **key, const char **value);

#endif
