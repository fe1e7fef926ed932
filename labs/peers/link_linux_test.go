package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// said runs a command in a network namespace and returns its output.
func said(t *testing.T, ns *os.File, args ...string) string {
	t.Helper()
	c := exec.Command(args[0], args[1:]...)
	var out bytes.Buffer
	c.Stdout = &out
	err := start(c, spot{core: -1, net: ns})
	if err == nil {
		err = c.Wait()
	}
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return out.String()
}

// TestLinkFeatures: what a mode says is so at both ends.
func TestLinkFeatures(t *testing.T) {
	needLinks(t)
	for _, m := range []linkMode{veth, software, bareLink} {
		l, err := newLink(m)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := l.close(); err != nil {
				t.Error(err)
			}
		})
		for _, ns := range []*os.File{l.client, l.server} {
			features := said(t, ns, "ethtool", "-k", linkName)
			on := func(name string) bool { return strings.Contains(features, name+": on") }
			whole := m.name == veth.name
			if cc := strings.TrimSpace(said(t, ns, "cat", congestionFile)); cc != "cubic" && cc != "reno" {
				t.Errorf("TCP has %s", cc)
			}
			if on("tcp-segmentation-offload") != whole || on("tx-udp-segmentation") != whole ||
				on("generic-segmentation-offload") != (m.name != bareLink.name) {
				t.Errorf("%s:\n%s", m.name, features)
			}
		}
	}
}

// TestLinkLoses: packets that a link is to lose do not come, whichever way they go.
func TestLinkLoses(t *testing.T) {
	needLinks(t)
	l, err := newLink(losing(1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}()
	for _, way := range []struct {
		from, to *os.File
		addr     string
	}{{l.client, l.server, serverOfLink}, {l.server, l.client, clientOfLink}} {
		err := inNet(way.from, func() error {
			c, err := net.Dial("udp", way.addr+":9")
			if err != nil {
				return err
			}
			_, err = c.Write([]byte("lost"))
			_ = c.Close()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		dropped := func() bool {
			for line := range strings.Lines(said(t, way.to, "ethtool", "-S", linkName)) {
				name, n, _ := strings.Cut(strings.TrimSpace(line), ": ")
				if strings.HasSuffix(name, "xdp_drops") && n != "0" {
					return true
				}
			}
			return false
		}
		for !dropped() {
			if err := t.Context().Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
