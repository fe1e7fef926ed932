package erpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// inPlace is a request and the response that came.
type inPlace struct {
	request  []byte
	response []byte
	writes   int
	writeErr error
	readErr  error
}

func (p *inPlace) WriteRequest(b []byte) error {
	p.writes++
	if n := copy(b, p.request); n != len(b) || n != len(p.request) {
		return fmt.Errorf("room for %d bytes of %d", len(b), len(p.request))
	}
	return p.writeErr
}

func (p *inPlace) ReadResponse(b []byte) error {
	p.response = bytes.Clone(b)
	return p.readErr
}

// placeSizes are around those where messages begin to lie in the loop's memory.
var placeSizes = []int{0, 1, 100, 64<<10 - 1, 64 << 10, 1 << 20, 0, 3 << 20}

// TestCallInPlace: messages of all sizes arrive as they were written, from many goroutines.
func TestCallInPlace(t *testing.T) {
	_, c := pair(t, erpc.Config{})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 24 {
				p := &inPlace{request: pattern(i, placeSizes[(n+i)%len(placeSizes)])}
				err := c.CallInPlace(bg, typeEcho, len(p.request), p)
				if err != nil || !bytes.Equal(p.response, p.request) || p.writes != 1 {
					t.Errorf("%d bytes: %d came back, %d writes, %v",
						len(p.request), len(p.response), p.writes, err)
				}
			}
		})
	}
	all.Wait()
	if n := c.Stats().Memory; n > 64<<20 {
		t.Errorf("%d bytes of memory are left in use", n)
	}
}

// TestCallInPlaceFails: errors of either side end the call, and leave the Client as it was.
func TestCallInPlaceFails(t *testing.T) {
	g, c := pair(t, erpc.Config{})
	own := errors.New("own")
	for _, size := range []int{10, 1 << 20} {
		p := &inPlace{request: pattern(1, size), writeErr: own}
		if err := c.CallInPlace(bg, typeEcho, size, p); err != own || p.response != nil {
			t.Errorf("%d bytes that cannot be written: %v", size, err)
		}
		p = &inPlace{request: pattern(1, size), readErr: own}
		if err := c.CallInPlace(bg, typeEcho, size, p); err != own || len(p.response) != size {
			t.Errorf("%d bytes that cannot be read: %v", size, err)
		}
		p = &inPlace{request: pattern(1, size)}
		if err := c.CallInPlace(bg, typeNobody, size, p); !errors.Is(err, erpc.ErrNoHandler) {
			t.Errorf("%d bytes to nobody: %v", size, err)
		}
		func() {
			defer func() { _ = recover() }()
			_ = c.CallInPlace(bg, typeEcho, size, panics{})
		}()
		ctx, cancel := context.WithCancel(bg)
		go func() {
			eventually(t, g.started, "the handler")
			cancel()
		}()
		p = &inPlace{request: pattern(1, size)}
		err := c.CallInPlace(ctx, typeHold, size, p)
		if !errors.Is(err, erpc.ErrCancelled) || p.response != nil {
			t.Errorf("%d bytes, given up: %v", size, err)
		}
		if err := c.CallInPlace(ctx, typeEcho, size, p); !errors.Is(err, erpc.ErrNotRun) {
			t.Errorf("%d bytes with a context that has ended: %v", size, err)
		}
	}
	large := &inPlace{request: binary.LittleEndian.AppendUint32(nil, 1<<20)}
	if err := c.CallInPlace(bg, typeGrow, 4, large); err != nil || len(large.response) != 1<<20 {
		t.Errorf("a large answer to a small request: %d bytes, %v", len(large.response), err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.CallInPlace(bg, typeGrow, 4, large); !errors.Is(err, erpc.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// panics is a request that cannot be written.
type panics struct{}

func (panics) WriteRequest([]byte) error { panic("on purpose") }
func (panics) ReadResponse([]byte) error { return nil }

// TestCallInPlaceRefused: a large request that a server had no room for is sent again from where
// it was written.
func TestCallInPlaceRefused(t *testing.T) {
	checkLeaks(t)
	g := newRig(t, erpc.Config{MaxBackground: 2, Shares: erpc.Shares{Off: true}})
	c := dial(t, g.serve(t, "127.0.0.1:0"), erpc.Config{Slots: 4})
	var held, all sync.WaitGroup
	for range 2 {
		held.Go(func() {
			if _, err := c.Call(bg, typeHold, nil); err != nil {
				t.Error(err)
			}
		})
	}
	for range 2 {
		eventually(t, g.started, "the handlers")
	}
	for i := range 4 {
		all.Go(func() {
			p := &inPlace{request: pattern(i, 1<<20)}
			err := c.CallInPlace(bg, typeEcho, len(p.request), p)
			if err != nil || !bytes.Equal(p.response, p.request) || p.writes != 1 {
				t.Errorf("%d bytes came back, %d writes, %v", len(p.response), p.writes, err)
			}
		})
	}
	for c.Stats().Failed < 4 { // the server refused calls
		runtime.Gosched()
	}
	close(g.release)
	held.Wait()
	all.Wait()
}

// TestCopyLarge: both ways to copy take all that there is room for.
func TestCopyLarge(t *testing.T) {
	for _, size := range []int{0, 1, 128 << 10, 128<<10 + 1, 1 << 20} {
		src := pattern(3, size)
		for _, room := range []int{0, size / 2, size, size + 1} {
			dst := make([]byte, room)
			n := erpc.CopyLarge(dst, src)
			if want := min(size, room); n != want || !bytes.Equal(dst[:n], src[:n]) {
				t.Errorf("%d bytes to %d: %d", size, room, n)
			}
		}
		if got := erpc.CloneLarge(src); !bytes.Equal(got, src) {
			t.Errorf("a clone of %d bytes has %d", size, len(got))
		}
	}
}
