/*
 * A configuration from a text, for property tests of pools.
 */
#ifndef TEST_PROP_CONFIG_H
#define TEST_PROP_CONFIG_H

#include <string.h>
#include <unistd.h>

#include "conf/config.h"
#include "prop.h"

/* Returns a reference. */
static inline struct config *prop_config(const char *ini)
{
	char path[] = "/tmp/prop-config-XXXXXX";
	struct err err = {.text = ""};
	int fd = mkstemp(path);

	CHECK(fd >= 0 && write(fd, ini, strlen(ini)) == (ssize_t)strlen(ini));
	close(fd);
	struct config *config = config_load(path, NULL, NULL, NULL, NULL, &err);
	unlink(path);
	if (!config)
		fprintf(stderr, "%s\n", err.text);
	CHECK(config);
	return config;
}

#endif
