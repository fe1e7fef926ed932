package udptest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// TestWildcardServer: a server on all addresses is dialed at one that it would not send from by
// itself, and serves small and large calls, from one socket after another.
func TestWildcardServer(t *testing.T) {
	for _, bind := range []string{":0", "0.0.0.0:0"} {
		conn, err := udp.Listen(bind, udp.Config{})
		if err != nil {
			t.Fatal(err)
		}
		port := conn.LocalAddr().Port
		serveEcho(t, conn)
		for _, host := range []string{"127.0.0.2", "127.0.0.1", "127.9.9.9"} {
			for _, local := range []string{"127.0.0.1:0", ":0"} {
				t.Run(fmt.Sprint(bind, " ", host, " ", local), func(t *testing.T) {
					callAll(t, local, fmt.Sprint(host, ":", port))
				})
			}
		}
	}
}

// serveEcho serves on conn until the test ends.
func serveEcho(t *testing.T, conn *udp.Conn) {
	s, err := erpc.NewServer(erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	err = s.HandleInline(1, func(h erpc.ReqHandle) {
		if err := h.RespondBytes(h.Data()); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(conn) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; !errors.Is(err, erpc.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
}

// callAll makes small and large calls from a socket on local to server.
func callAll(t *testing.T, local, server string) {
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	conn, err := udp.Listen(local, udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := erpc.Dial(ctx, conn, server, erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range 60 {
		req := bytes.Repeat([]byte{byte(i)}, 1+i%3*40_000)
		resp, err := client.Call(ctx, 1, req)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(resp, req) {
			t.Fatalf("call %d: %d bytes of %d, or others", i, len(resp), len(req))
		}
	}
}
