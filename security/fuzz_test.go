package security_test

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/security/sectest"
)

// fuzzKeys are the shared keys of fuzzed handshakes.
var fuzzKeys = [][]byte{[]byte("a key that all of them have")}

// fuzzParams are a client's parameters.
var fuzzParams = []byte("what the opening said")

// parties makes the two sides of a handshake, by TLS or a shared key.
func parties(server, client *tls.Config) (c, s *security.Handshake) {
	judge := func([]byte) ([]byte, error) { return []byte("and the answer"), nil }
	say, hear := security.Opening{Params: fuzzParams, Judge: judge}, security.Opening{Judge: judge}
	if server == nil {
		return security.NewPSK(fuzzKeys, nil, true, say),
			security.NewPSK(fuzzKeys, nil, false, hear)
	}
	return security.NewTLS(client, true, say), security.NewTLS(server, false, hear)
}

// FuzzHandshake: whatever comes at whatever point of a handshake, to either side, in whatever
// pieces, nothing panics or hangs, no side believes that it is done, and errors are typed. The
// input is a byte for the kind, the side and the point, a byte for the size of pieces, and what
// comes.
func FuzzHandshake(f *testing.F) {
	ca := sectest.NewCA("test")
	server := security.ServerConfig(ca.Config("server.test", ""))
	client := security.ClientConfig(ca.Config("", "spiffe://test/client"), "server.test")
	for kind := range 2 {
		var sc, cc *tls.Config
		if kind == 1 {
			sc, cc = server, client
		}
		c, s := parties(sc, cc)
		hello, _ := c.Step(nil)
		answer, _ := s.Step(hello)
		f.Add(append([]byte{byte(kind), 200}, hello...))
		f.Add(append([]byte{byte(kind | 2), 7}, answer...))
		f.Add(append([]byte{byte(kind | 4), 90}, hello[:len(hello)/2]...))
		c.Close()
		s.Close()
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 3 {
			return
		}
		how, piece, data := data[0], int(data[1])+1, data[2:]
		var sc, cc *tls.Config
		if how&1 != 0 {
			sc, cc = server, client
		}
		c, s := parties(sc, cc)
		defer c.Close()
		defer s.Close()
		side := s
		hello, err := c.Step(nil)
		if err != nil {
			t.Fatal(err)
		}
		if how&2 != 0 {
			side = c
		} else if how&4 != 0 { // behind a good beginning
			if _, err = s.Step(hello); err != nil {
				t.Fatal(err)
			}
		}
		for len(data) > 0 && err == nil {
			n := min(piece, len(data))
			_, err = side.Step(data[:n])
			data = data[n:]
		}
		if side.Done() {
			t.Error("it is done")
		}
		if err != nil && !errors.Is(err, security.ErrHandshake) &&
			!errors.Is(err, security.ErrNoCipher) {
			t.Errorf("an error without a name: %v", err)
		}
	})
}

// TestALPN: a peer that speaks another protocol in TLS is refused, with TLS's alert.
func TestALPN(t *testing.T) {
	ca := sectest.NewCA("test")
	server := security.ServerConfig(ca.Config("server.test", ""))
	client := security.ClientConfig(ca.Config("", ""), "server.test")
	client.NextProtos = []string{"h3"}
	c, s := parties(server, client)
	hello, err := c.Step(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Step(hello)
	var alert tls.AlertError
	if !errors.As(err, &alert) || alert != 120 || !errors.Is(err, security.ErrHandshake) {
		t.Errorf("%v", err) // no_application_protocol, RFC 7301, section 3.2
	}
	client.NextProtos = nil
	c, s = parties(server, client)
	if hello, err = c.Step(nil); err == nil {
		_, err = s.Step(hello)
	}
	if err == nil || s.Done() {
		t.Error("a client without a protocol was welcome")
	}
}

// TestOtherALPN: sides that agree in TLS on another protocol, or on none, make no keys.
func TestOtherALPN(t *testing.T) {
	ca := sectest.NewCA("test")
	for _, protocols := range [][]string{{"h3"}, nil} {
		server := security.ServerConfig(ca.Config("server.test", ""))
		client := security.ClientConfig(ca.Config("", "spiffe://test/client"), "server.test")
		server.NextProtos, client.NextProtos = protocols, protocols
		c, s := parties(server, client)
		hello, err := c.Step(nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := s.Step(hello)
		if err != nil {
			t.Fatal(err)
		}
		finished, err := c.Step(answer)
		refused(t, "client", c, err)
		if len(finished) == 0 { // else the server would not get as far
			t.Fatal("the client has said nothing")
		}
		_, err = s.Step(finished)
		refused(t, "server", s, err)
	}
}

// TestNoExporter: a config for which crypto/tls gives no exporter makes no keys, and says why.
func TestNoExporter(t *testing.T) {
	ca := sectest.NewCA("test")
	client := ca.Config("", "spiffe://test/client")
	client.Renegotiation = tls.RenegotiateOnceAsClient
	c, s := parties(security.ServerConfig(ca.Config("server.test", "")),
		security.ClientConfig(client, "server.test"))
	hello, err := c.Step(nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.Step(hello)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Step(answer)
	if !errors.Is(err, security.ErrHandshake) || c.Done() || c.Secrets() != nil ||
		!strings.Contains(err.Error(), "renegotiation") {
		t.Errorf("%v, done %v", err, c.Done())
	}
}

// TestState: what TLS knows of the peer is there with TLS, and not with a shared key.
func TestState(t *testing.T) {
	ca := sectest.NewCA("test")
	for _, byTLS := range []bool{false, true} {
		var server, client *tls.Config
		if byTLS {
			server = security.ServerConfig(ca.Config("server.test", ""))
			client = security.ClientConfig(ca.Config("", "spiffe://test/client"), "server.test")
		}
		c, s := parties(server, client)
		out, err := c.Step(nil)
		for sides := [2]*security.Handshake{s, c}; err == nil && len(out) > 0; {
			out, err = sides[0].Step(out)
			sides[0], sides[1] = sides[1], sides[0]
		}
		if err != nil || !c.Done() || !s.Done() {
			t.Fatal(err)
		}
		for _, side := range []*security.Handshake{c, s} {
			state := side.TLS()
			if (state != nil) != byTLS || byTLS && len(state.PeerCertificates) != 1 {
				t.Errorf("by TLS %v: %+v", byTLS, state)
			}
		}
	}
}

// refused checks that a side has ended for the protocol in TLS, without keys.
func refused(t *testing.T, side string, h *security.Handshake, err error) {
	t.Helper()
	if !errors.Is(err, security.ErrHandshake) || h.Done() || h.Secrets() != nil ||
		!strings.Contains(err.Error(), "does not speak erpc/3 in TLS") {
		t.Errorf("%s: %v, done %v", side, err, h.Done())
	}
}

// FuzzPSK: a file of shared keys is read or refused, and what is read is good.
func FuzzPSK(f *testing.F) {
	f.Add([]byte("# ours\n00112233445566778899aabbccddeeff\n\nYWJjZGVmZ2hpamtsbW5vcHFyc3Q=\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		keys, err := security.ParsePSK(file)
		if err == nil {
			err = security.CheckPSK(keys)
			if len(keys) == 0 {
				t.Error("no keys, and no error")
			}
		}
		if err != nil && !errors.Is(err, security.ErrPSK) {
			t.Error(err)
		}
	})
}

// TestUnusedFrameKeys: a side makes the keys of the messages that it meets, two directions of the
// handshake and the server's ticket; a client says nothing after the handshake.
func TestUnusedFrameKeys(t *testing.T) {
	ca := sectest.NewCA("test")
	c, s := parties(security.ServerConfig(ca.Config("server.test", "")),
		security.ClientConfig(ca.Config("", "spiffe://test/client"), "server.test"))
	var in []byte
	for first := true; first || len(in) > 0; first = false {
		out, err := c.Step(in)
		if err == nil {
			in, err = s.Step(out)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range []*security.Handshake{c, s} {
		if n := security.FrameKeys(h); n != 3 || !h.Done() {
			t.Errorf("done %t, %d keys", h.Done(), n)
		}
	}
}
