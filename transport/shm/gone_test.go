//go:build linux

package shm

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// hear receives until c has a hint, which it returns, and counts the packets that came before.
func hear(t *testing.T, c *Conn) (h transport.Hint, packets int) {
	t.Helper()
	hints, pkts := make([]transport.Hint, 4), make([]transport.RxPacket, 4)
	for {
		n, err := c.RxBurst(pkts)
		if err != nil {
			t.Fatal(err)
		}
		packets += n
		switch c.Hints(hints) {
		case 0:
		case 1:
			return hints[0], packets
		default:
			t.Fatalf("hints %+v", hints)
		}
		if n > 0 {
			continue
		}
		began := time.Now()
		if err := c.Wait(hang); err != nil || time.Since(began) >= hang {
			t.Fatalf("no hint came: %v", err)
		}
	}
}

// TestGone: that a peer was killed, or closed its endpoint, is told once, behind the packets that
// it sent before.
func TestGone(t *testing.T) {
	cfg := meeting(t, Config{})
	for name, open := range map[string]func(c *Conn) (to transport.Addr, sent int, end func()){
		"killed": func(c *Conn) (transport.Addr, int, func()) {
			cmd, _ := start(t, cfg.Dir)
			to, err := c.Resolve("child")
			if err != nil {
				t.Fatal(err)
			}
			echoes(t, c, to, 20)
			return to, 0, func() { _ = cmd.Process.Kill() }
		},
		"closed": func(c *Conn) (transport.Addr, int, func()) {
			peer := listen(t, "", cfg)
			if _, err := peer.Resolve(c.LocalAddr().String()); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				send(t, peer, c.LocalAddr(), "sent before the end")
			}
			return peer.LocalAddr(), 20, func() { _ = peer.Close() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := listen(t, "", cfg)
			to, sent, end := open(c)
			end()
			h, packets := hear(t, c)
			if h.Kind != transport.HintGone || h.To != to {
				t.Errorf("hint %+v about the end of %v", h, to)
			}
			if packets != sent {
				t.Errorf("%d packets came before the hint, want %d", packets, sent)
			}
			send(t, c, to, "to nobody")
			if n, _ := c.RxBurst(make([]transport.RxPacket, 4)); n != 0 {
				t.Errorf("%d packets after the hint", n)
			}
			if n := c.Hints(make([]transport.Hint, 4)); n != 0 {
				t.Error("it was told twice")
			}
		})
	}
}

// TestGoneSent: packets to a peer, between its end and the next look at what came, hide no hint.
func TestGoneSent(t *testing.T) {
	cfg := meeting(t, Config{})
	a, b := listen(t, "", cfg), listen(t, "b", cfg)
	to, err := a.Resolve("b")
	if err != nil {
		t.Fatal(err)
	}
	exchange(t, a, b)
	_ = b.Close()
	within(t, "the news", a.news.Load)
	send(t, a, to, "to nobody")
	if h, _ := hear(t, a); h.Kind != transport.HintGone || h.To != to {
		t.Errorf("hint %+v about the end of %v", h, to)
	}
}
