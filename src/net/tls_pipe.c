/*
 * Moves bytes between a connection and OpenSSL: a BIO without memory of its own, which
 * reads input in place and passes output on.
 */
#include <string.h>

#include "net/tls_parts.h"

static int pipe_read(BIO *bio, char *out, int size)
{
	struct tls_pipe *pipe = BIO_get_data(bio);
	size_t n = size > 0 ? (size_t)size : 0;

	BIO_clear_retry_flags(bio);
	if (n > pipe->in_len)
		n = pipe->in_len;
	if (n == 0) {
		BIO_set_retry_read(bio);
		return -1;
	}
	memcpy(out, pipe->in, n);
	pipe->in += n;
	pipe->in_len -= n;
	return (int)n;
}

static int pipe_write(BIO *bio, const char *p, int len)
{
	struct tls_pipe *pipe = BIO_get_data(bio);

	BIO_clear_retry_flags(bio);
	if (len <= 0)
		return 0;
	if (pipe->put(pipe->ctx, (const uint8_t *)p, (size_t)len) < 0) {
		pipe->has_no_memory = true;
		return -1;
	}
	return len;
}

static long pipe_ctrl(BIO *bio, int command, long number, void *p)
{
	(void)bio, (void)number, (void)p;
	return command == BIO_CTRL_FLUSH;
}

BIO_METHOD *tls_pipe_method(void)
{
	BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "tls pipe");

	if (method && BIO_meth_set_read(method, pipe_read) &&
	    BIO_meth_set_write(method, pipe_write) &&
	    BIO_meth_set_ctrl(method, pipe_ctrl))
		return method;
	BIO_meth_free(method);
	return NULL;
}

BIO *tls_pipe_new(const BIO_METHOD *method, struct tls_pipe *pipe)
{
	BIO *bio = BIO_new(method);

	if (bio) {
		BIO_set_data(bio, pipe);
		BIO_set_init(bio, 1);
	}
	return bio;
}
