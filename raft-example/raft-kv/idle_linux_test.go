package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

var idleFor = flag.Duration("idle.for", 0,
	"how long TestIdle leaves a cluster alone; without it the test is left out")

// TestIdle says how much of a core three durable members take that have nothing to do, with default
// settings and clients that have gone. The figure depends on the machine, and has no bound here.
func TestIdle(t *testing.T) {
	if *idleFor == 0 {
		t.Skip("a measurement: -idle.for says how long")
	}
	f, cf := testFleet(t, t.TempDir())
	c, err := cf.dial()
	if err == nil {
		err = c.Put(testContext(t), "k", []byte("v"))
		c.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(3 * time.Second) // then they rest
	used := func() (sum time.Duration) {
		for _, m := range f.children {
			d, err := cpuOf(m.cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			sum += d
		}
		return sum
	}
	before, began := used(), time.Now()
	<-time.After(*idleFor)
	took := time.Since(began)
	t.Logf("three members at rest: %.2f %% of a core for %v",
		100*float64(used()-before)/float64(took), took.Round(time.Millisecond))
}

// cpuOf returns the CPU time of a process; Linux counts it in hundredths of a second there.
func cpuOf(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	var sum time.Duration
	for _, i := range []int{11, 12} { // utime and stime
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * 10 * time.Millisecond
	}
	return sum, nil
}
