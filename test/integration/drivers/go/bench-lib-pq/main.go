// For the benchmark: clients that send one text with new values for as long as they are told. Arguments
// and output are those of node/bench_pg.mjs.
package main

import (
	"database/sql"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"drivers/expect"

	_ "github.com/lib/pq"
)

func work(db *sql.DB, until time.Time, text string, most []int) []time.Duration {
	var took []time.Duration
	values := make([]any, len(most))
	for now := time.Now(); now.Before(until); {
		begun := now
		for i, m := range most {
			values[i] = 1 + rand.Intn(m)
		}
		rows := expect.Got(db.Query(text, values...))
		for rows.Next() {
		}
		expect.Must(rows.Err())
		now = time.Now()
		took = append(took, now.Sub(begun))
	}
	return took
}

// all runs the work of all clients and returns the times of their queries in order.
func all(clients []*sql.DB, length time.Duration, text string, most []int) []time.Duration {
	var group sync.WaitGroup
	each := make([][]time.Duration, len(clients))
	until := time.Now().Add(length)
	for i, db := range clients {
		group.Add(1)
		go func() {
			defer group.Done()
			each[i] = work(db, until, text, most)
		}()
	}
	group.Wait()
	took := slices.Concat(each...)
	slices.Sort(took)
	return took
}

func main() {
	clients := make([]*sql.DB, expect.Got(strconv.Atoi(os.Args[1])))
	seconds := expect.Got(strconv.ParseFloat(os.Args[2], 64))
	var most []int
	for _, m := range os.Args[4:] {
		most = append(most, expect.Got(strconv.Atoi(m)))
	}
	for i := range clients {
		// One message per query, instead of two in two round trips.
		clients[i] = expect.Got(sql.Open("postgres", "binary_parameters=yes"))
		clients[i].SetMaxOpenConns(1)
	}
	all(clients, 200*time.Millisecond, os.Args[3], most)
	fmt.Println("begun")
	begun := time.Now()
	took := all(clients, time.Duration(seconds*float64(time.Second)), os.Args[3], most)
	fmt.Println(len(took), time.Since(begun).Seconds(), took[len(took)*99/100].Seconds()*1000)
}
