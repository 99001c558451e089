/*
 * Tests that need a server of their own: a script starts it and then runs the test
 * program, with what it has to know in the environment.
 */
#ifndef TEST_AUTH_SCENE_H
#define TEST_AUTH_SCENE_H

/* Runs this program again below the script, unless it runs there already.  Returns only
 * there. */
void scene_enter(const char *script, char **argv);

#endif
