package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/secure/securetest"
	"github.com/userspace-rpc/erpc/security/sectest"
)

// TestSecure: certificates and shared keys work, and everybody else gets one line.
func TestSecure(t *testing.T) {
	c := &securetest.Command{
		Run:      func(args ...string) (int, string, string) { return try(t, args...) },
		Serve:    func(flags ...string) string { return "--servers=" + serve(t, flags...)[0] },
		Works:    []string{"put apple red", "get apple", "load --keys=200", "stats"},
		Clients:  []string{"get apple", "bench --each=10ms --keys=200"},
		Mistakes: []string{"get apple", "serve --addr=127.0.0.1:0 --memory=2"},
	}
	c.All(t)
	c.Reload(t, childEnv, strings.Fields("serve --json --addr=127.0.0.1:0 --memory=2 --no-hugepages"),
		func(addr string) string { return "--servers=" + addr })
	good, shared := sectest.Files(t.TempDir(), "127.0.0.1"), securetest.PSK(t, "5")
	serve := "serve --memory=2 --addr=127.0.0.1:0 "
	c.Line(t, cli.Usage, "know no shared key", serve+"--memcached=127.0.0.1:0", shared)
	c.Line(t, cli.Usage, "needs --tls-cert", serve+"--memcached=127.0.0.1:0", good[2])
	c.Line(t, cli.Usage, "in the clear", serve+"--design=herd", good...)
	c.Line(t, cli.Usage, "in the clear", "bench --design=send", good...)
}

// TestSecureMemcached: memcached's clients use the same certificates over TCP.
func TestSecureMemcached(t *testing.T) {
	good, strange := sectest.Files(t.TempDir(), "127.0.0.1"), sectest.Files(t.TempDir(), "127.0.0.1")
	s := serveAll(t, append(good, "--memory=4", "--memcached=127.0.0.1:0")...)
	cfg := func(flags []string) *tls.Config {
		_, cert, _ := strings.Cut(flags[0], "=")
		_, key, _ := strings.Cut(flags[1], "=")
		_, ca, _ := strings.Cut(good[2], "=")
		c, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(ca)
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(text)
		return &tls.Config{Certificates: []tls.Certificate{c}, RootCAs: pool}
	}
	c, err := tls.Dial("tcp", s.Memcached, cfg(good))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "set pear 0 0 5\r\ngreen\r\nget pear\r\nquit\r\n")
	if got, err := io.ReadAll(c); string(got) != "STORED\r\nVALUE pear 0 5\r\ngreen\r\nEND\r\n" {
		t.Errorf("%q, %v", got, err)
	}
	at := "--servers=" + s.Addrs[0]
	status, out, errOut := try(t, append([]string{"get", "pear", at}, good...)...)
	if out != "green\n" {
		t.Errorf("%d, %q, %s", status, out, errOut)
	}
	bad, err := tls.Dial("tcp", s.Memcached, cfg(strange))
	if err == nil {
		defer bad.Close()
		_, err = bad.Read(make([]byte, 1)) // a client learns it with the first answer
	}
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a strange certificate: %v", err)
	}
	p, err := net.Dial("tcp", s.Memcached)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	fmt.Fprint(p, "get pear\r\n")
	got, err := bufio.NewReader(p).ReadString('\n')
	if !strings.Contains(got, "ERROR this port speaks TLS only") {
		t.Errorf("in the clear: %q, %v", got, err)
	}
}
