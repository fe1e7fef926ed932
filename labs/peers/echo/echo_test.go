package echo

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

// serve starts a peer's server and returns calls to it, each with its own connection
// where the peer needs that.
func serve(t *testing.T, p Peer, z Sizes, calls int) (list []Call) {
	t.Helper()
	srv, err := p.Listen(z)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve() }()
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	var conn Conn
	for i := range calls {
		if i == 0 || p.ConnPerCall || p.Streams {
			if conn, err = p.Dial(t.Context(), srv.Addr(), z); err != nil {
				t.Fatal(err)
			}
			opened := conn
			// Before the server's end: some servers wait for their clients'.
			t.Cleanup(func() { _ = opened.Close() })
		}
		list = append(list, conn.NewCall())
	}
	return list
}

// fit returns the peers that work on this system.
func fit() []Peer {
	return slices.DeleteFunc(append(Peers(), ForLarge()...),
		func(p Peer) bool { return p.Unfit != "" })
}

func TestPeers(t *testing.T) {
	sizes := [][2]int{{0, 0}, {1, 1}, {32, 32}, {1024, 1024}, {32, 5000}, {5000, 0},
		{8 << 20, 8 << 20}, {8 << 20, 32}}
	for _, p := range fit() {
		t.Run(p.Name, func(t *testing.T) {
			for _, size := range sizes {
				z := Sizes{Request: size[0], Response: size[1]}
				if p.MaxSize > 0 && max(z.Request, z.Response) > p.MaxSize {
					continue // the peer's own tests see it refused
				}
				one := serve(t, p, z, 1)[0]
				request, fixed := Payload(z.Request), fixedOf(z)
				for seq := range uint64(3) {
					Stamp(request, seq)
					response, err := one(t.Context(), request)
					if err == nil {
						err = Check(request, fixed, response, true)
					}
					if err != nil {
						t.Fatalf("%+v, call %d: %v", z, seq, err)
					}
				}
			}
		})
	}
}

// TestWrongBytes: what a server answers with other bytes than those of the request is noticed.
func TestWrongBytes(t *testing.T) {
	z := Sizes{Request: 5000, Response: 5000}
	for _, p := range fit() {
		wrong := p
		wrong.Listen = func(Sizes) (Server, error) {
			return p.Listen(Sizes{Request: 5001, Response: 5000})
		}
		request := Payload(z.Request)
		Stamp(request, 1)
		response, err := serve(t, wrong, z, 1)[0](t.Context(), request)
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		if err := Check(request, nil, response, true); err == nil ||
			!strings.Contains(err.Error(), "differs") {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
}

func fixedOf(z Sizes) []byte {
	if z.Request == z.Response {
		return nil
	}
	return Payload(z.Response)
}

// TestConcurrent: calls at the same time get their own responses.
func TestConcurrent(t *testing.T) {
	const calls, each = 16, 20
	for _, p := range fit() {
		t.Run(p.Name, func(t *testing.T) {
			z := Sizes{Request: 48, Response: 48}
			done := make(chan error, calls)
			for i, call := range serve(t, p, z, calls) {
				go func() {
					request := Payload(z.Request)
					var err error
					for n := 0; n < each && err == nil; n++ {
						Stamp(request, uint64(i)<<32|uint64(n))
						var response []byte
						if response, err = call(context.Background(), request); err == nil {
							err = Check(request, nil, response, true)
						}
					}
					done <- err
				}()
			}
			for range calls {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestCancelled: a call whose context has ended fails.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, p := range fit() {
		call := serve(t, p, Sizes{Request: 8, Response: 8}, 1)[0]
		for range 100 { // net/rpc has no contexts: a response may have come in time
			if _, err := call(ctx, Payload(8)); err != nil {
				break
			} else if p.Name != "net/rpc" {
				t.Errorf("%s: no error", p.Name)
			}
		}
	}
}

// TestNobody: no server, no response.
func TestNobody(t *testing.T) {
	for _, p := range fit() {
		if p.Transport != "tcp" {
			continue // datagrams: only time tells
		}
		srv, err := p.Listen(Sizes{Request: 8, Response: 8})
		if err != nil {
			t.Fatal(err)
		}
		addr := srv.Addr()
		ended := make(chan error, 1)
		go func() { ended <- srv.Serve() }()
		conn, err := p.Dial(t.Context(), addr, Sizes{Request: 8, Response: 8})
		if err == nil { // it serves
			_, err = conn.NewCall()(t.Context(), Payload(8))
			if err = errors.Join(err, conn.Close()); err != nil {
				t.Errorf("%s: %v", p.Name, err)
			}
		}
		_ = srv.Close()
		<-ended
		conn, err = p.Dial(t.Context(), addr, Sizes{Request: 8, Response: 8})
		if err == nil {
			_, err = conn.NewCall()(t.Context(), Payload(8))
			_ = conn.Close()
		}
		if err == nil {
			t.Errorf("%s: a response from nobody", p.Name)
		}
	}
}

func TestCheck(t *testing.T) {
	request := Payload(1000)
	Stamp(request, 7)
	other := Payload(1000)
	Stamp(other, 8)
	middle := append([]byte(nil), request...)
	middle[500]++
	last := append([]byte(nil), request...)
	last[999]++
	tests := []struct {
		name     string
		fixed    []byte
		response []byte
		whole    bool
		want     string
	}{
		{"echo", nil, request, true, ""},
		{"echo, in part", nil, request, false, ""},
		{"short", nil, request[:999], false, "999 bytes, want 1000"},
		{"none", nil, nil, true, "0 bytes"},
		{"of another request", nil, other, false, "differs"},
		{"damaged in the middle", nil, middle, true, "differs"},
		{"damaged in the middle, in part", nil, middle, false, ""},
		{"damaged at the end", nil, last, false, "differs"},
		{"fixed", Payload(10), Payload(10), false, ""},
		{"echo in place of fixed", Payload(10), request, false, "1000 bytes, want 10"},
	}
	for _, tt := range tests {
		err := Check(request, tt.fixed, tt.response, tt.whole)
		if tt.want == "" && err != nil ||
			tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestByName(t *testing.T) {
	for _, p := range append(Peers(), ForLarge()...) {
		if q, ok := ByName(p.Name); !ok || q.Name != p.Name {
			t.Errorf("%s: not found", p.Name)
		}
	}
	if _, ok := ByName("nobody"); ok {
		t.Error("found nobody")
	}
}
