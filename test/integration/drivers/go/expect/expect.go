// Package expect is shared by the Go programs: server address, comparison, workers.
package expect

import (
	"fmt"
	"os"
	"reflect"
	"sync"
)

const (
	Workers    = 6
	Statements = 12
)

// A Difference from the expected result ends a worker, and with it the program.
type Difference struct{ text string }

func (d Difference) Error() string { return d.text }

func Differ(format string, args ...any) { panic(Difference{fmt.Sprintf(format, args...)}) }

func Same(what string, got, wanted any) {
	if !reflect.DeepEqual(got, wanted) {
		Differ("%s: %.200v is not %.200v", what, got, wanted)
	}
}

// Must treats any error as a difference.
func Must(err error) {
	if err != nil {
		Differ("error: %v", err)
	}
}

func Got[T any](value T, err error) T {
	Must(err)
	return value
}

// Fails expects an error with the given SQLSTATE, which state extracts from it.
func Fails(wanted string, err error, state func(error) string) {
	if err == nil {
		Differ("no error where %s was expected", wanted)
	}
	if state(err) != wanted {
		Differ("%v where %s was expected", err, wanted)
	}
}

func Ok(what string) { fmt.Println("ok " + what) }

// Concurrently runs work once for every worker and ends the program when one fails.
func Concurrently(work func(worker int)) {
	var all sync.WaitGroup
	failed := make(chan any, Workers)
	for n := 0; n < Workers; n++ {
		all.Add(1)
		go func() {
			defer all.Done()
			defer func() {
				if difference := recover(); difference != nil {
					failed <- difference
				}
			}()
			work(n)
		}()
	}
	all.Wait()
	select {
	case difference := <-failed:
		fmt.Printf("%d of %d workers failed; the first:\n", len(failed)+1, Workers)
		if _, known := difference.(Difference); !known {
			panic(difference)
		}
		fmt.Println(difference)
		os.Exit(1)
	default:
	}
}
