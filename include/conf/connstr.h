/*
 * Connection strings in the form `key=value key='va''lue'`, as in [databases], [users]
 * and [peers].  The meaning of keys is not known here.
 */
#ifndef CONF_CONNSTR_H
#define CONF_CONNSTR_H

/* Reads the next pair at *at and moves *at behind it.  The text is cut and unquoted in
 * place; *key and *value point into it.  Returns 1 for a pair (its value is empty only
 * if it was written as ''), 0 at the end, -1 for a syntax error. */
int connstr_next(char **at, const char **key, const char **value);

#endif
