package main

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/userspace-rpc/erpc/cmd/erpc/measure"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// TestServerDies: figures from before the server was killed are printed, with the reason, and the
// exit status says that the bench failed.
func TestServerDies(t *testing.T) {
	for _, line := range []string{
		"bench rate --raw --rounds 1000000", "bench latency --raw --rounds 1000000",
		"bench rate --versus none --rounds 1000000",
		"bench rate", // one round
	} {
		t.Run(line, func(t *testing.T) {
			server := start(t, "server --raw --addr 127.0.0.1:0 --json")
			var ready measure.ReadyLine
			decodeOne(t, waitFor(t, server.out, "ready"), &ready)
			way := newRelay(t, ready.Addr)
			defer way.close()
			addr := ready.Addr
			if !strings.Contains(line, "--rounds") {
				addr = way.front.LocalAddr().String()
			}
			p := start(t, line+" --addr "+addr+" --duration 1h --json"+gentle)
			if strings.Contains(line, "--rounds") {
				waitFor(t, p.errLines, "round 1 of")
			} else {
				waitFor(t, p.errLines, "measuring for")
				for range 100 {
					<-way.passed
				}
				way.close()
			}
			if err := server.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			said := make(chan string)
			go func() {
				rest, _ := io.ReadAll(p.errLines)
				said <- string(rest)
			}()
			out, err := io.ReadAll(p.out)
			if err != nil {
				t.Fatal(err)
			}
			last := <-said
			var exit *exec.ExitError
			if err := p.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != cli.Failed {
				t.Errorf("ended with %v", err)
			}
			var r struct {
				Rps    float64 `json:"rps"`
				Failed string  `json:"failed"`
			}
			if err := json.Unmarshal(out, &r); err != nil {
				t.Fatalf("%v in %q, after %q", err, out, last)
			}
			if r.Rps <= 0 || r.Failed == "" || !strings.HasSuffix(strings.TrimSpace(last), r.Failed) {
				t.Errorf("printed %s and said %q", out, last)
			}
		})
	}
}

// relay passes packets between one client and a server, until it is closed.
type relay struct {
	front, back *net.UDPConn
	passed      chan struct{} // gets one for a packet of the server, if somebody waits for it
	ended       sync.WaitGroup
}

func newRelay(t *testing.T, server string) *relay {
	t.Helper()
	to, err := net.ResolveUDPAddr("udp", server)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{passed: make(chan struct{})}
	if r.front, err = net.ListenUDP("udp", &net.UDPAddr{IP: to.IP}); err != nil {
		t.Fatal(err)
	}
	if r.back, err = net.DialUDP("udp", nil, to); err != nil {
		t.Fatal(err)
	}
	var client atomic.Pointer[net.UDPAddr]
	r.ended.Go(func() {
		for b := make([]byte, 1<<16); ; {
			n, from, err := r.front.ReadFromUDP(b)
			if err != nil {
				return
			}
			client.Store(from)
			_, _ = r.back.Write(b[:n])
		}
	})
	r.ended.Go(func() {
		for b := make([]byte, 1<<16); ; {
			n, err := r.back.Read(b)
			if err != nil {
				return
			}
			_, _ = r.front.WriteToUDP(b[:n], client.Load())
			select {
			case r.passed <- struct{}{}:
			default:
			}
		}
	})
	return r
}

func (r *relay) close() {
	_, _ = r.front.Close(), r.back.Close()
	r.ended.Wait()
}
