//go:build linux

package shm

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// serverRole begins the role of a child that is an RPC server: an echo.
const serverRole = "erpc:"

func serve(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	s, err := erpc.NewServer(erpc.Config{})
	fail(err)
	fail(s.HandleInline(1, func(r erpc.ReqHandle) { _ = r.RespondBytes(r.Data()) }))
	c, err := Listen("child", Config{Dir: dir})
	fail(err)
	fmt.Println("up")
	_ = s.Serve(c)
}

// TestLibrary makes calls of the library between two processes: many small ones, and
// some of the largest size.
func TestLibrary(t *testing.T) {
	small, large := 100_000, 20
	if testing.Short() {
		small, large = 5000, 3
	}
	cfg := meeting(t, Config{})
	start(t, serverRole+cfg.Dir)
	ctx, cancel := context.WithTimeout(context.Background(), 2*hang)
	defer cancel()
	client, err := erpc.Dial(ctx, listen(t, "", cfg), "shm:child", erpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var wg sync.WaitGroup
	const callers = 50
	for k := range callers {
		wg.Go(func() {
			req := make([]byte, 32)
			for i := range small / callers {
				binary.LittleEndian.PutUint64(req, uint64(k*small+i))
				if got, err := client.Call(ctx, 1, req); err != nil || !bytes.Equal(got, req) {
					t.Errorf("call %d of %d: %x, %v", i, k, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
	message := make([]byte, 8<<20)
	for i := range message {
		message[i] = byte(i * i >> 7)
	}
	for i := range large {
		message[i*1000]++
		if got, err := client.Call(ctx, 1, message); err != nil || !bytes.Equal(got, message) {
			t.Fatalf("large call %d: %d bytes, %v", i, len(got), err)
		}
	}
	if s := client.Stats(); s.Transport.TxDropped != 0 || s.Transport.RxDropped != 0 {
		t.Errorf("packets were dropped: %+v", s.Transport)
	}
}
