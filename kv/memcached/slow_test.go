package memcached

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// slowly runs a client of a connection while time is simulated, and returns how long it took.
func slowly(t *testing.T, client func(c net.Conn, each time.Duration) error, each time.Duration) (
	took time.Duration, err error,
) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newServer(t, 1, mica.Config{Memory: 8 << 20})
		play(s, "set k 0 0 1000000\r\n"+strings.Repeat("x", 1_000_000)+"\r\n", 1<<20)
		here, there := net.Pipe()
		ended := make(chan struct{})
		go func() {
			newConn(s, there).serve()
			_ = there.Close()
			close(ended)
		}()
		begin := time.Now()
		err = client(here, each)
		took = time.Since(begin)
		_ = here.Close()
		<-ended // it may visit the partition
	})
	return took, err
}

// TestSlowButSteady: a client that reads or sends a large value slowly has all the time it needs,
// and one that does so more slowly than it may is cut off.
func TestSlowButSteady(t *testing.T) {
	read := func(c net.Conn, each time.Duration) error {
		fmt.Fprint(c, "get k\r\n")
		for left := int64(1_000_000); left > 0; left -= 10_000 {
			<-time.After(each)
			if _, err := io.CopyN(io.Discard, c, 10_000); err != nil {
				return err
			}
		}
		return nil
	}
	send := func(c net.Conn, each time.Duration) error {
		fmt.Fprint(c, "set k 0 0 1000000\r\n")
		for range 100 {
			<-time.After(each)
			if _, err := io.WriteString(c, strings.Repeat("x", 10_000)); err != nil {
				return err
			}
		}
		_, err := io.WriteString(c, "\r\n")
		return err
	}
	for _, row := range []struct {
		name   string
		client func(c net.Conn, each time.Duration) error
		each   time.Duration
		well   bool
	}{
		{"reads 30 kB/s", read, time.Second / 3, true},
		{"reads 10 kB/s", read, time.Second, true},
		{"reads 2 kB/s", read, 5 * time.Second, false},
		{"sends 10 kB/s", send, time.Second, true},
		{"sends 1 kB/s", send, 10 * time.Second, true},
		{"sends 200 B/s", send, 50 * time.Second, false},
	} {
		took, err := slowly(t, row.client, row.each)
		if (err == nil) != row.well || row.well && took < 100*row.each {
			t.Errorf("%s: %v after %v", row.name, err, took)
		}
	}
}
