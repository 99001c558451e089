/*
 * The grammar of connection strings, `key=value key='va''lue'`, as used in [databases],
 * [users] and [peers].  Keys are not known here.
 */
#ifndef CONF_CONNSTR_H
#define CONF_CONNSTR_H

/* Read the next pair at *at and move *at behind it.  The text is cut and unquoted in
 * place, and *key and *value point into it.  1: there is a pair; its value is empty
 * only if it was written as ''.  0: there are no more pairs.  -1: syntax error. */
int connstr_next(char **at, const char **key, const char **value);

#endif
