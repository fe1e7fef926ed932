package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	n := flag.Int("callers", 64, "goroutines that wait")
	d := flag.Duration("duration", time.Second, "of each way")
	flag.Parse()
	if *n < 1 {
		fmt.Fprintln(os.Stderr, "wakeups: --callers: want at least 1")
		os.Exit(2)
	}
	fmt.Printf("%d callers, %d processors\n", *n, runtime.GOMAXPROCS(0))
	for _, inLine := range []bool{false, true} {
		name := "runtime.Gosched"
		if inLine {
			name = "in line"
		}
		r := run(*n, *d, inLine)
		fmt.Printf("%-16s %6.0f ns CPU, %6.0f ns, %6.1f switches of threads for 1,000\n", name,
			float64(r.cpu)/r.wakes, float64(r.took)/r.wakes, 1000*float64(r.switches)/r.wakes)
	}
}

// result counts wake-ups and their cost.
type result struct {
	wakes     float64
	cpu, took time.Duration
	switches  int64
}

// run wakes n goroutines in rounds. Each answers by a counter, and waits again.
func run(n int, d time.Duration, inLine bool) result {
	var answers atomic.Int64
	callers := make([]chan struct{}, n)
	for i := range callers {
		callers[i] = make(chan struct{}, 1)
		go func() {
			for range callers[i] {
				answers.Add(1)
			}
		}()
		defer close(callers[i])
	}
	line, turn := make(chan struct{}, 1), make(chan struct{}, 1)
	go func() {
		for range line {
			turn <- struct{}{}
		}
	}()
	defer close(line)
	var before, after unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &before) // cannot fail
	begin, rounds := time.Now(), int64(0)
	for time.Since(begin) < d {
		rounds++
		for i, c := range callers {
			if inLine && i == n-1 {
				line <- struct{}{}
			}
			c <- struct{}{}
		}
		if inLine {
			<-turn
		}
		for answers.Load() < rounds*int64(n) {
			runtime.Gosched()
		}
	}
	took := time.Since(begin)
	_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
	return result{float64(rounds) * float64(n), cpu(&after) - cpu(&before), took,
		int64(after.Nvcsw + after.Nivcsw - before.Nvcsw - before.Nivcsw)}
}

func cpu(u *unix.Rusage) time.Duration {
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
