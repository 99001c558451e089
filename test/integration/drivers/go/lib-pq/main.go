// lib/pq through database/sql: unnamed and prepared statements, binary parameters, COPY, cancel.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"drivers/expect"

	"github.com/lib/pq"
)

var (
	ctx  = context.Background()
	same = expect.Same
	must = expect.Must
)

func state(err error) string {
	var found *pq.Error
	if errors.As(err, &found) {
		return string(found.Code)
	}
	return ""
}

func fails(wanted string, err error) { expect.Fails(wanted, err, state) }

func open(more string) *sql.DB {
	quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(os.Getenv("PGPASSWORD"))
	db := expect.Got(sql.Open("postgres", fmt.Sprintf("password='%s' %s", quoted, more)))
	db.SetMaxOpenConns(1)
	return db
}

func one[T any](db *sql.DB, text string, args ...any) (T, error) {
	var value T
	err := db.QueryRow(text, args...).Scan(&value)
	return value, err
}

func echo[T any](db *sql.DB, kind string, value T) {
	same(kind, expect.Got(one[T](db, "select $1::"+kind, value)), value)
}

func types(db *sql.DB) {
	all := make([]byte, 256)
	for n := range all {
		all[n] = byte(n)
	}
	echo(db, "int4", int64(-2147483648))
	echo(db, "int8", int64(9223372036854775807))
	echo(db, "float8", 0.1)
	echo(db, "bool", true)
	echo(db, "numeric", "12345678901234567890.000123")
	echo(db, "text", "it's \\ $1 ž \U0001f418\n")
	echo(db, "text", "")
	echo(db, "text", sql.NullString{})
	echo(db, "bytea", all)
	echo(db, "mood", "sad")
	var numbers pq.Int64Array
	must(db.QueryRow("select $1::int4[]", pq.Int64Array{1, -2, 3}).Scan(&numbers))
	same("int4[]", numbers, pq.Int64Array{1, -2, 3})
	when := time.Date(2024, 2, 29, 23, 59, 59, 123456000, time.UTC)
	same("timestamptz", expect.Got(one[time.Time](db, "select $1::timestamptz", when)).Equal(when), true)
}

// held uses prepared statements; lib/pq numbers them, so all workers use the same names.
func held(db *sql.DB, worker int) {
	statements := make([]*sql.Stmt, expect.Statements)
	for k := range statements {
		statements[k] = expect.Got(db.Prepare(fmt.Sprintf("select $1::int * %d + %d, $2::text", k, (k%2)*worker)))
	}
	for turn := 0; turn < 4; turn++ {
		tx := expect.Got(db.Begin())
		for k, statement := range statements {
			var number int
			var text string
			must(tx.Stmt(statement).QueryRow(turn, fmt.Sprint("w", worker)).Scan(&number, &text))
			same("statement", number, turn*k+(k%2)*worker)
			same("statement", text, fmt.Sprint("w", worker))
		}
		if turn%2 == 1 {
			must(tx.Rollback())
		} else {
			must(tx.Commit())
		}
		var number int
		var text string
		must(statements[turn].QueryRow(1, "x").Scan(&number, &text))
		same("outside", number, turn+(turn%2)*worker)
	}
	for _, statement := range statements {
		must(statement.Close())
	}
}

func transfers(db *sql.DB, worker int) {
	for turn := 0; turn < 9; turn++ {
		tx := expect.Got(db.Begin())
		expect.Got(tx.Exec("update account set balance = balance - 7 where id = $1", 1+turn))
		expect.Got(tx.Exec("update account set balance = balance + 7 where id = $1", 2+turn))
		if turn%3 == 0 {
			must(tx.Rollback())
			continue
		}
		expect.Got(tx.Exec("insert into event values ($1, $2, $3)", worker, turn, "lib-pq"))
		must(tx.Commit())
	}
}

func wrong(db *sql.DB, worker int) {
	for _, w := range [][2]string{{"select 1/$1::int", "22012"}, {"select * from nowhere where a = $1", "42P01"},
		{"selec $1", "42601"}, {"insert into account values (1, $1)", "23505"}} {
		_, err := db.Exec(w[0], 0)
		fails(w[1], err)
		same("after an error", expect.Got(one[int](db, "select $1::int", worker)), worker)
		tx := expect.Got(db.Begin())
		_, err = tx.Exec(w[0], 0)
		fails(w[1], err)
		must(tx.Rollback())
	}
	_, err := db.Prepare("select * from nowhere where a = $1")
	fails("42P01", err)
	_, err = db.Exec("select 1; select 1/0; select 2")
	fails("22012", err)
	same("large", len(expect.Got(one[string](db, "select $1::text", strings.Repeat("y", 1000000)))), 1000000)
	rows := expect.Got(db.Query("select generate_series(1, $1::int)", 20000))
	count := 0
	for rows.Next() {
		count++
	}
	must(rows.Err())
	same("rows", count, 20000)
}

func copies(db *sql.DB, worker int) {
	tx := expect.Got(db.Begin())
	expect.Got(tx.Exec("create temp table t (n int, note text) on commit drop"))
	into := expect.Got(tx.Prepare(pq.CopyIn("t", "n", "note")))
	for n := 0; n < 2000; n++ {
		expect.Got(into.Exec(n, fmt.Sprint("w", worker)))
	}
	expect.Got(into.Exec())
	must(into.Close())
	var count int
	must(tx.QueryRow("select count(*) from t where note = $1", fmt.Sprint("w", worker)).Scan(&count))
	same("copied", count, 2000)
	must(tx.Commit())
	tx = expect.Got(db.Begin())
	into = expect.Got(tx.Prepare(pq.CopyIn("account", "id", "balance")))
	_, err := into.Exec("x", "y")
	if err == nil {
		_, err = into.Exec()
	}
	fails("22P02", err)
	into.Close()
	must(tx.Rollback())
	same("after COPY", expect.Got(one[int](db, "select count(*) from account")), 10)
}

func cancelled() {
	db := open("")
	defer db.Close()
	for turn := 0; turn < 3; turn++ {
		short, stop := context.WithTimeout(ctx, 150*time.Millisecond)
		_, err := db.ExecContext(short, "select pg_sleep($1)", 30)
		stop()
		same("timeout", errors.Is(err, context.DeadlineExceeded) || state(err) == "57014", true)
		same("after cancel", expect.Got(one[int](db, "select $1::int", turn)), turn)
	}
	tx := expect.Got(db.Begin())
	expect.Got(tx.Exec("set local statement_timeout = 100"))
	_, err := tx.Exec("select pg_sleep($1)", 30)
	fails("57014", err)
	must(tx.Rollback())
}

func sums() {
	db := open("")
	defer db.Close()
	same("sum", expect.Got(one[int](db, "select sum(balance)::int from account")), 10000)
	same("count", expect.Got(one[int](db, "select count(*) from event")), 6*expect.Workers)
	expect.Got(db.Exec("truncate event"))
}

func main() {
	for _, way := range [][2]string{{"default", ""}, {"binary parameters", "binary_parameters=yes"}} {
		expect.Concurrently(func(worker int) {
			db := open(way[1])
			defer db.Close()
			types(db)
			for _, part := range []func(*sql.DB, int){held, transfers, wrong, copies} {
				part(db, worker)
			}
		})
		sums()
		expect.Ok("lib-pq " + way[0])
	}
	cancelled()
	expect.Ok("lib-pq cancel")
}
