/*
 * Tests that need a server of their own: a script starts it and then runs the test
 * program, with what it has to know in the environment.
 */
#ifndef TEST_AUTH_SCENE_H
#define TEST_AUTH_SCENE_H

/* Runs this program again under the script, unless it already runs there.  Returns only
 * in the program that runs under the script. */
void scene_enter(const char *script, char **argv);

#endif
