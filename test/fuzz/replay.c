/*
 * Runs a fuzz target once over every file of the folders (or files) it is given, and
 * over the empty input: what libFuzzer would do with a corpus, without libFuzzer.
 * It makes no new inputs; `make fuzz-NAME` does.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void fail(const char *path)
{
	fprintf(stderr, "%s: %s\n", path, strerror(errno));
	exit(1);
}

/* The input is copied to a block of its exact size, so that a read past it is seen. */
static int replay_file(const char *path, size_t size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = malloc(size ? size : 1);

	if (!f || !data)
		fail(path);
	if (fread(data, 1, size, f) != size)
		fail(path);
	fclose(f);
	/* The name is printed first, so that after a crash it is the last line. */
	fprintf(stderr, "input %s\n", path);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	return 1;
}

static int replay_path(const char *path)
{
	struct stat st;
	struct dirent **names;
	int count, done = 0;

	if (stat(path, &st) != 0)
		fail(path);
	if (!S_ISDIR(st.st_mode))
		return replay_file(path, (size_t)st.st_size);
	count = scandir(path, &names, NULL, alphasort);
	if (count < 0)
		fail(path);
	for (int i = 0; i < count; i++) {
		char *inner;

		if (names[i]->d_name[0] != '.') {
			if (asprintf(&inner, "%s/%s", path, names[i]->d_name) < 0)
				fail(path);
			done += replay_path(inner);
			free(inner);
		}
		free(names[i]);
	}
	free(names);
	return done;
}

int main(int argc, char **argv)
{
	int done = 1;

	LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	for (int i = 1; i < argc; i++)
		done += replay_path(argv[i]);
	printf("%d inputs\n", done);
	return 0;
}
