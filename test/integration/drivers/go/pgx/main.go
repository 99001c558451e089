// pgx: its five ways to run a query, batches, pipelines, COPY, cancel by context.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"drivers/expect"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
)

var (
	ctx  = context.Background()
	same = expect.Same
	must = expect.Must
)

var ways = []struct {
	name string
	mode pgx.QueryExecMode
}{
	{"cache statement", pgx.QueryExecModeCacheStatement},
	{"cache describe", pgx.QueryExecModeCacheDescribe},
	{"describe exec", pgx.QueryExecModeDescribeExec},
	{"exec", pgx.QueryExecModeExec},
	{"simple protocol", pgx.QueryExecModeSimpleProtocol},
}

func state(err error) string {
	var found *pgconn.PgError
	if errors.As(err, &found) {
		return found.Code
	}
	return ""
}

func fails(wanted string, err error) { expect.Fails(wanted, err, state) }

// connect makes a connection whose contexts send a cancel request instead of disconnecting.
func connect(mode pgx.QueryExecMode, cache int) *pgx.Conn {
	config := expect.Got(pgx.ParseConfig(""))
	config.Port = uint16(expect.Got(strconv.Atoi(os.Getenv("PGPORT"))))
	config.DefaultQueryExecMode = mode
	config.StatementCacheCapacity = cache
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: 10 * time.Second}
	}
	return expect.Got(pgx.ConnectConfig(ctx, config))
}

func one[T any](conn *pgx.Conn, sql string, args ...any) (T, error) {
	var value T
	err := conn.QueryRow(ctx, sql, args...).Scan(&value)
	return value, err
}

func echo[T any](conn *pgx.Conn, kind string, value T) {
	same(kind, expect.Got(one[T](conn, "select $1::"+kind, value)), value)
}

func types(conn *pgx.Conn) {
	all := make([]byte, 256)
	for n := range all {
		all[n] = byte(n)
	}
	text := "it's \\ $1 ž \U0001f418\n"
	echo(conn, "int4", int32(-2147483648))
	echo(conn, "int8", int64(9223372036854775807))
	echo(conn, "float8", 0.1)
	echo(conn, "bool", true)
	echo(conn, "numeric", "12345678901234567890.000123")
	echo(conn, "text", text)
	echo(conn, "text", "")
	echo(conn, "text", (*string)(nil))
	echo(conn, "bytea", all)
	echo(conn, "int4[]", []int32{1, -2, 3})
	echo(conn, "text[]", []string{"a,b", "c\"d", ""})
	echo(conn, "mood", "glad")
	when := time.Date(2024, 2, 29, 23, 59, 59, 123456000, time.UTC)
	same("timestamptz", expect.Got(one[time.Time](conn, "select $1::timestamptz", when)).Equal(when), true)
}

func repeated(conn *pgx.Conn, worker int) {
	for turn := 0; turn < 4; turn++ {
		tx := expect.Got(conn.Begin(ctx))
		for k := 0; k < expect.Statements; k++ {
			mine := (k % 2) * worker
			var number int
			var text string
			sql := fmt.Sprintf("select $1::int * %d + %d, $2::text", k, mine)
			must(tx.QueryRow(ctx, sql, turn, fmt.Sprint("w", worker)).Scan(&number, &text))
			same("statement", number, turn*k+mine)
			same("statement", text, fmt.Sprint("w", worker))
		}
		if turn%2 == 1 {
			must(tx.Rollback(ctx))
		} else {
			must(tx.Commit(ctx))
		}
	}
	// The program chooses the names; every worker uses the same names for different texts.
	for n := 0; n < 4; n++ {
		expect.Got(conn.Prepare(ctx, fmt.Sprint("held", n), fmt.Sprintf("select $1::int + %d", n+worker)))
	}
	for turn := 0; turn < 12; turn++ {
		got := expect.Got(one[int](conn, fmt.Sprint("held", turn%4), turn))
		same("prepared", got, turn+turn%4+worker)
	}
	must(conn.Deallocate(ctx, "held0"))
	expect.Got(conn.Prepare(ctx, "held0", "select $1::text || 'again'"))
	same("prepared again", expect.Got(one[string](conn, "held0", "x")), "xagain")
	must(conn.DeallocateAll(ctx))
}

func transfers(conn *pgx.Conn, worker int) {
	for turn := 0; turn < 9; turn++ {
		tx := expect.Got(conn.Begin(ctx))
		expect.Got(tx.Exec(ctx, "update account set balance = balance - 7 where id = $1", 1+turn))
		inner := expect.Got(tx.Begin(ctx))
		expect.Got(inner.Exec(ctx, "update account set balance = balance + 7 where id = $1", 2+turn))
		must(inner.Commit(ctx))
		if turn%3 == 0 {
			must(tx.Rollback(ctx))
			continue
		}
		expect.Got(tx.Exec(ctx, "insert into event values ($1, $2, $3)", worker, turn, "pgx"))
		must(tx.Commit(ctx))
	}
}

func wrong(conn *pgx.Conn, worker int) {
	for _, w := range [][2]string{{"select 1/$1::int", "22012"}, {"select * from nowhere where a = $1::int", "42P01"},
		{"selec $1::int", "42601"}, {"insert into account values (1, $1::int)", "23505"}} {
		_, err := conn.Exec(ctx, w[0], 0)
		fails(w[1], err)
		same("after an error", expect.Got(one[int](conn, "select $1::int", worker)), worker)
		tx := expect.Got(conn.Begin(ctx))
		_, err = tx.Exec(ctx, w[0], 0)
		fails(w[1], err)
		_, err = tx.Exec(ctx, "select 1")
		fails("25P02", err)
		must(tx.Rollback(ctx))
	}
	name := fmt.Sprint("late_", worker)
	_, err := one[int](conn, "select n from "+name+" where n > $1::int", 0)
	fails("42P01", err)
	expect.Got(conn.Exec(ctx, "create table "+name+" as select 1 as n"))
	same("now there", expect.Got(one[int](conn, "select n from "+name+" where n > $1::int", 0)), 1)
	expect.Got(conn.Exec(ctx, "drop table "+name))
}

func batches(conn *pgx.Conn, worker int) {
	for round := 0; round < 3; round++ {
		batch := &pgx.Batch{}
		for n := 0; n < 60; n++ {
			batch.Queue(fmt.Sprintf("select $1::int + %d", n%(7+round)), n+worker)
		}
		results := conn.SendBatch(ctx, batch)
		for n := 0; n < 60; n++ {
			var got int
			must(results.QueryRow().Scan(&got))
			same("batch", got, n+worker+n%(7+round))
		}
		must(results.Close())
	}
	batch := &pgx.Batch{}
	batch.Queue("select $1::int", 1)
	batch.Queue("select 1/$1::int", 0)
	batch.Queue("select $1::int", 2)
	results := conn.SendBatch(ctx, batch)
	_, err := results.Exec()
	must(err)
	_, err = results.Exec()
	fails("22012", err)
	fails("22012", results.Close())
	batch = &pgx.Batch{}
	batch.Queue("select $1::int", 1)
	batch.Queue("select n from nowhere where n = $1::int", 0)
	fails("42P01", conn.SendBatch(ctx, batch).Close())
	same("after a batch", expect.Got(one[int](conn, "select $1::int", worker)), worker)
	same("large", len(expect.Got(one[string](conn, "select $1::text", strings.Repeat("y", 1000000)))), 1000000)
	rows := expect.Got(conn.Query(ctx, "select generate_series(1, $1::int)", 20000))
	same("rows", len(expect.Got(pgx.CollectRows(rows, pgx.RowTo[int]))), 20000)
}

func copies(conn *pgx.Conn, worker int) {
	name := fmt.Sprint("copied_", worker)
	expect.Got(conn.Exec(ctx, "create table "+name+" (n int, note text)"))
	rows := make([][]any, 2000)
	for n := range rows {
		rows[n] = []any{int32(n), fmt.Sprint("w", worker)}
	}
	count := expect.Got(conn.CopyFrom(ctx, pgx.Identifier{name}, []string{"n", "note"}, pgx.CopyFromRows(rows)))
	same("COPY in", count, int64(2000))
	var out bytes.Buffer
	expect.Got(conn.PgConn().CopyTo(ctx, &out, "copy "+name+" to stdout"))
	same("COPY out", strings.Count(out.String(), fmt.Sprintf("\tw%d\n", worker)), 2000)
	_, err := conn.PgConn().CopyFrom(ctx, strings.NewReader("x\ty\n"), "copy account from stdin")
	fails("22P02", err)
	expect.Got(conn.Exec(ctx, "drop table "+name))
	same("after COPY", expect.Got(one[int](conn, "select count(*) from account")), 10)
}

// pipeline uses pgx's pipeline mode, with and without Sync, and with Flush.
func pipeline(worker int) {
	conn := connect(pgx.QueryExecModeCacheStatement, 10)
	defer conn.Close(ctx)
	pipe := conn.PgConn().StartPipeline(ctx)
	for n := 0; n < 5; n++ {
		pipe.SendPrepare(fmt.Sprint("p", n), fmt.Sprintf("select $1::int + %d", n*worker), nil)
		pipe.SendQueryPrepared(fmt.Sprint("p", n), [][]byte{[]byte("5")}, nil, nil)
	}
	must(pipe.Sync())
	for n := 0; n < 5; n++ {
		_, prepared := expect.Got(pipe.GetResults()).(*pgconn.StatementDescription)
		same("pipeline", prepared, true)
		row := expect.Got(pipe.GetResults()).(*pgconn.ResultReader).Read()
		must(row.Err)
		same("pipeline", string(row.Rows[0][0]), fmt.Sprint(5+n*worker))
	}
	_, synced := expect.Got(pipe.GetResults()).(*pgconn.PipelineSync)
	same("Sync", synced, true)
	pipe.SendQueryPrepared("p1", [][]byte{[]byte("7")}, nil, nil)
	pipe.SendFlushRequest()
	must(pipe.Flush())
	row := expect.Got(pipe.GetResults()).(*pgconn.ResultReader).Read()
	same("Flush", string(row.Rows[0][0]), fmt.Sprint(7+worker))
	pipe.SendDeallocate("p1")
	pipe.SendPrepare("bad", "selec", nil)
	pipe.SendQueryPrepared("p2", [][]byte{[]byte("7")}, nil, nil)
	must(pipe.Sync())
	_, closed := expect.Got(pipe.GetResults()).(*pgconn.CloseComplete)
	same("Close", closed, true)
	_, err := pipe.GetResults()
	fails("42601", err)
	must(pipe.Close())
	same("after a pipeline", expect.Got(one[int](conn, "select $1::int", worker)), worker)
}

func cancelled() {
	conn := connect(pgx.QueryExecModeCacheStatement, 10)
	defer conn.Close(ctx)
	for turn := 0; turn < 3; turn++ {
		short, stop := context.WithTimeout(ctx, 150*time.Millisecond)
		_, err := conn.Exec(short, "select pg_sleep($1)", 30)
		stop()
		same("timeout", errors.Is(err, context.DeadlineExceeded) || state(err) == "57014", true)
		same("after cancel", expect.Got(one[int](conn, "select $1::int", turn)), turn)
	}
	tx := expect.Got(conn.Begin(ctx))
	expect.Got(tx.Exec(ctx, "set local statement_timeout = 100"))
	_, err := tx.Exec(ctx, "select pg_sleep($1)", 30)
	fails("57014", err)
	must(tx.Rollback(ctx))
}

// readings: two clients prepare the same text, which their parameters give different meanings.
func readings() {
	sql := "select extract(month from '01/02/2024'::date)::int * 100 + " +
		"extract(hour from '2024-01-01'::timestamptz at time zone 'UTC')::int"
	sets := [][]string{{"ISO, MDY", "UTC"}, {"ISO, DMY", "Asia/Tokyo"}}
	wanted := []int{100, 215}
	conns := []*pgx.Conn{}
	for _, set := range sets {
		conn := connect(pgx.QueryExecModeCacheStatement, 10)
		defer conn.Close(ctx)
		expect.Got(conn.Exec(ctx, "set datestyle = '"+set[0]+"'"))
		expect.Got(conn.Exec(ctx, "set timezone = '"+set[1]+"'"))
		conns = append(conns, conn)
	}
	for turn := 0; turn < 3; turn++ {
		for n, conn := range conns {
			same("reading", expect.Got(one[int](conn, sql)), wanted[n])
		}
	}
}

func sums() {
	conn := connect(pgx.QueryExecModeExec, 0)
	defer conn.Close(ctx)
	same("sum", expect.Got(one[int](conn, "select sum(balance)::int from account")), 10000)
	same("count", expect.Got(one[int](conn, "select count(*) from event")), 6*expect.Workers)
	expect.Got(conn.Exec(ctx, "truncate event"))
}

func main() {
	for _, way := range ways {
		expect.Concurrently(func(worker int) {
			conn := connect(way.mode, 5+worker*20)
			defer conn.Close(ctx)
			types(conn)
			for _, part := range []func(*pgx.Conn, int){repeated, transfers, wrong, batches, copies} {
				part(conn, worker)
			}
		})
		sums()
		expect.Ok("pgx " + way.name)
	}
	expect.Concurrently(pipeline)
	expect.Ok("pgx pipeline")
	cancelled()
	expect.Ok("pgx cancel")
	readings()
	expect.Ok("pgx readings")
}
