package echo

import "testing"

// TestLoopClose: a stream that is closed while requests are in flight gives back their memory.
func TestLoopClose(t *testing.T) {
	srv, err := erpcLoopPeer.Listen(Sizes{Request: 5000, Response: 5000})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve() }()
	c, err := erpcLoopPeer.Dial(t.Context(), srv.Addr(), Sizes{Request: 5000, Response: 5000})
	if err != nil {
		t.Fatal(err)
	}
	s := c.(Stream)
	for id := range uint64(20) { // more than a session has slots
		s.Send(id, Payload(5000))
	}
	if _, err := s.Poll(func(uint64, []byte) error { return nil }); err != nil {
		t.Error(err)
	}
	if packets, sends := c.(Counted).Sent(); packets == 0 || sends == 0 || sends > packets {
		t.Errorf("%d packets, %d sends", packets, sends)
	}
	if err := c.Close(); err != nil { // it counts buffers
		t.Error(err)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
