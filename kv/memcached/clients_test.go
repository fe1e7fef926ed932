package memcached

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// Programs of clients, which print ok. Each sets 10,000 items together or one after the other, more
// than 1 MB in all, gets them by one multi-get, and then a value of 1 MB.
const (
	pylibmc = `
import sys, pylibmc
c = pylibmc.Client([sys.argv[1]])
items = {"key%d" % i: "value %d of a hundred bytes or so" % i * 4 for i in range(10000)}
assert c.set_multi(items) == []
assert c.get_multi(list(items)) == items
big = "x" * 1000000
assert c.set("big", big) and c.get("big") == big
assert c.get_multi(["big", "key1", "none"]) == {"big": big, "key1": items["key1"]}
print("ok")
`
	pymemcache = `
import sys
from pymemcache.client.base import Client
host, port = sys.argv[1].split(":")
for noreply in False, True:
    c = Client((host, int(port)), timeout=60)
    items = {"key%d" % i: b"value %d of a hundred bytes or so" % i * 4 for i in range(10000)}
    assert c.set_many(items, noreply=noreply) == []
    assert c.get_many(items) == items
    big = b"x" * 1000000
    assert c.set("big", big, noreply=noreply) and c.get("big") == big
    assert c.gets_many(["big", "key1", "none"])["key1"][0] == items["key1"]
    assert c.delete_many(list(items), noreply=noreply) and c.get_many(items) == {}
print("ok")
`
	cacheMemcached = `
use strict;
use Cache::Memcached;
my $c = Cache::Memcached->new({servers => [$ARGV[0]], compress_threshold => 0});
my %items = map { ("key$_" => "value $_ of a hundred bytes or so" x 4) } 1..10000;
for my $k (keys %items) { $c->set($k, $items{$k}) or die "set $k"; }
my $got = $c->get_multi(keys %items);
for my $k (keys %items) { ($got->{$k} // "") eq $items{$k} or die "get $k"; }
my $big = "x" x 1000000;
$c->set("big", $big) or die "set big";
$c->get("big") eq $big or die "get big";
print "ok\n";
`
)

// TestClients: clients of other languages get what they have set, much of it at a time.
func TestClients(t *testing.T) {
	python, perl := []string{"/usr/bin/python3", "-c"}, []string{"/usr/bin/perl", "-e"}
	for _, c := range []struct {
		name, program, check string
		by                   []string
	}{
		{"python3-pylibmc", pylibmc, "import pylibmc", python},
		{"python3-pymemcache", pymemcache, "import pymemcache", python},
		{"libcache-memcached-perl", cacheMemcached, "use Cache::Memcached;", perl},
	} {
		t.Run(c.name, func(t *testing.T) {
			if exec.Command(c.by[0], c.by[1], c.check).Run() != nil {
				if os.Getenv("CI") == "true" && os.Getuid() == 0 {
					t.Fatalf("apt-get install %s", c.name)
				}
				t.Skipf("%s is not installed", c.name)
			}
			s, _ := newServer(t, 2, mica.Config{})
			s.cfg.Version = defaultVersion
			addr := listen(t, s)().RemoteAddr().String()
			out, err := exec.Command(c.by[0], c.by[1], c.program, addr).CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != "ok" {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestLongPipelines: a megabyte of commands that is sent at once is answered in order.
func TestLongPipelines(t *testing.T) {
	s, _ := newServer(t, 2, mica.Config{})
	c := listen(t, s)()
	var said, want bytes.Buffer
	for i := 0; said.Len() < 1<<20; i++ {
		fmt.Fprintf(&said, "set %d 0 0 5\r\n%05d\r\nmg %d v k\r\nget %d none\r\n", i, i, i, i)
		fmt.Fprintf(&want, "STORED\r\nVA 5 k%d\r\n%05d\r\nVALUE %d 0 5\r\n%05d\r\nEND\r\n", i, i, i, i)
	}
	go func() { _, _ = c.Write(said.Bytes()) }() // the answers say whether it could
	say(t, c, "", want.String())
}
