/*
 * Frames with descriptors: whole, cut into pieces, too many at once, and invalid.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "daemon/fd_channel.h"
#include "net/sock.h"

struct office {
	struct mem mem;
	struct loop *loop;
	struct fd_channel *channel;
	struct deadline patience;
	struct buf heard; /* "a3 ", "b0+fd ", "ended ", "ended:why " */
	int far;          /* the test's end of the socket pair */
	unsigned wanted;  /* stop the loop after this many events */
};

static void heard_one(struct office *o)
{
	if (--o->wanted == 0)
		loop_stop(o->loop);
}

static void arrived(void *ctx, uint8_t kind, const uint8_t *bytes, size_t len, int fd)
{
	struct office *o = ctx;

	buf_printf(&o->heard, "%c%zu", kind, len);
	if (len > 0 && len < 8)
		buf_printf(&o->heard, ":%.*s", (int)len, (const char *)bytes);
	if (fd >= 0) {
		buf_printf(&o->heard, "+fd");
		close(fd);
	}
	buf_printf(&o->heard, " ");
	heard_one(o);
}

static void ended(void *ctx, const struct err *err)
{
	struct office *o = ctx;

	buf_printf(&o->heard, err ? "ended:%s " : "ended ", err ? err->text : "");
	o->wanted = 1;
	heard_one(o);
}

static const struct fd_channel_ops ops = {.arrived = arrived, .ended = ended};

static void late(struct deadline *d)
{
	loop_stop(container_of(d, struct office, patience)->loop);
}

static struct office *office_new(void)
{
	struct office *o = mem_zero(sizeof(*o));
	struct err err;
	int ends[2];

	mem_init(&o->mem);
	o->loop = loop_new(&o->mem, &err);
	assert_int_equal(sock_pair(ends, &err), 0);
	o->far = ends[1];
	buf_init(&o->heard, 0);
	o->channel = fd_channel_new(o->loop, ends[0], &ops, o);
	deadline_init(&o->patience, late);
	return o;
}

static void office_free(struct office *o)
{
	fd_channel_free(&o->channel);
	if (o->far >= 0)
		close(o->far);
	buf_done(&o->heard);
	deadline_clear(o->loop, &o->patience);
	loop_free(&o->loop);
	mem_free(o);
}

static void run(struct office *o, unsigned wanted)
{
	o->wanted = wanted;
	deadline_set(o->loop, &o->patience, loop_now(o->loop) + 30000000);
	loop_run(o->loop);
}

static void send_frame(struct office *o, const char *kind_and_text, int fd)
{
	struct err err;
	struct buf b;

	buf_init(&b, 0);
	buf_put_u8(&b, (uint8_t)kind_and_text[0]);
	buf_put_u8(&b, fd >= 0);
	buf_put_u32(&b, (uint32_t)strlen(kind_and_text + 1));
	buf_put_text(&b, kind_and_text + 1);
	assert_int_equal(sock_send_fd(o->far, b.bytes, b.len, fd, 1000, &err), 0);
	buf_done(&b);
}

static void frames_come_in_order(void **state)
{
	struct office *o = office_new();

	(void)state;
	send_frame(o, "aone", -1);
	send_frame(o, "b", 0);
	send_frame(o, "ctwo", 0);
	send_frame(o, "d", -1);
	run(o, 4);
	assert_string_equal(buf_text(&o->heard), "a3:one b0+fd c3:two+fd d0 ");
	office_free(o);
}

static void a_frame_in_pieces(void **state)
{
	static const uint8_t frame[] = {'a', 0, 0, 0, 0, 3, 'o', 'n', 'e'};
	struct office *o = office_new();

	(void)state;
	for (size_t i = 0; i < sizeof(frame); i++) {
		assert_int_equal(write(o->far, frame + i, 1), 1);
		if (i + 1 < sizeof(frame)) {
			deadline_set(o->loop, &o->patience, loop_now(o->loop));
			loop_run(o->loop);
			assert_int_equal(o->heard.len, 0);
		}
	}
	run(o, 1);
	assert_string_equal(buf_text(&o->heard), "a3:one ");
	office_free(o);
}

static void what_is_no_frame(void **state)
{
	struct office *o = office_new();

	(void)state;
	assert_int_equal(write(o->far, "\xff\xff\xff\xff\xff\xff", 6), 6);
	run(o, 1);
	assert_string_equal(buf_text(&o->heard), "ended:what came is no frame ");
	office_free(o);
}

static void a_descriptor_that_is_missing(void **state)
{
	struct office *o = office_new();

	(void)state;
	assert_int_equal(write(o->far, "a\1\0\0\0\0", 6), 6);
	run(o, 1);
	assert_string_equal(buf_text(&o->heard), "ended:a descriptor is missing ");
	office_free(o);
}

static void the_end(void **state)
{
	struct office *o = office_new();

	(void)state;
	send_frame(o, "alast", -1);
	close(o->far);
	o->far = -1;
	run(o, 2);
	assert_string_equal(buf_text(&o->heard), "a4:last ended ");
	office_free(o);
}

/* What was sent before the break arrives; afterwards the other end cannot send. */
static void cut(void **state)
{
	struct office *o = office_new();
	struct err err;

	(void)state;
	send_frame(o, "aone", -1);
	fd_channel_cut(o->channel);
	assert_string_equal(buf_text(&o->heard), "a3:one ");
	assert_int_equal(sock_send_fd(o->far, "x", 1, -1, 1000, &err), -1);
	office_free(o);
}

/* Stands for that of the system. */
static int failures_to_come;
ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	if (failures_to_come > 0) {
		failures_to_come--;
		errno = ENOBUFS;
		return -1;
	}
	return syscall(SYS_recvmsg, fd, m, flags);
}

/* What was sent before a call failed arrives, and the other end notices that nothing
 * more will. */
static void a_call_that_fails(void **state)
{
	struct office *o = office_new();
	struct err err;

	(void)state;
	assert_false(fd_channel_is_deaf(o->channel));
	send_frame(o, "aone", -1);
	failures_to_come = 1;
	run(o, 2);
	assert_string_equal(buf_text(&o->heard), "a3:one ended ");
	assert_true(fd_channel_is_deaf(o->channel));
	assert_int_equal(sock_send_fd(o->far, "x", 1, -1, 1000, &err), -1);
	office_free(o);
}

static void sending(void **state)
{
	struct office *o = office_new();
	uint8_t bytes[32];
	int fds[16];
	size_t count = 16;
	struct err err;

	(void)state;
	assert_int_equal(fd_channel_send(o->channel, 'a', "one", 3, 0, 1000, &err), 0);
	assert_int_equal(
	    sock_receive_fds(o->far, bytes, sizeof(bytes), fds, &count), 9);
	assert_memory_equal(bytes, "a\1\0\0\0\3one", 9);
	assert_int_equal(count, 1);
	close(fds[0]);
	office_free(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(frames_come_in_order),
	    cmocka_unit_test(a_frame_in_pieces),
	    cmocka_unit_test(what_is_no_frame),
	    cmocka_unit_test(a_descriptor_that_is_missing),
	    cmocka_unit_test(the_end),
	    cmocka_unit_test(cut),
	    cmocka_unit_test(a_call_that_fails),
	    cmocka_unit_test(sending),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
