package main

import (
	"strings"
	"testing"
)

// TestUnknownNode: a command for a node that is not there names it, and those that are.
func TestUnknownNode(t *testing.T) {
	f := &fleet{nodes: []*node{{name: "web-0"}, {name: "web-1"}}}
	for _, line := range []string{"kill 2", "drain 2", "stop 2", "cont 2"} {
		err := f.do(line)
		if err == nil || !strings.Contains(err.Error(), "no node 2") ||
			!strings.Contains(err.Error(), "web-0 web-1") {
			t.Errorf("%s: %v", line, err)
		}
	}
	if err := f.do("zone q"); err == nil || !strings.Contains(err.Error(), "zone q") {
		t.Errorf("zone q: %v", err)
	}
	for _, line := range []string{"kill", "kill web-0 web-1", "add zz", "etcd", "dance"} {
		if err := f.do(line); err == nil || !strings.Contains(err.Error(), "want add") {
			t.Errorf("%s: %v", line, err)
		}
	}
}
