package deploytest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// member looks at a member of etcd: the others look for it under its name, and so do clients.
func member(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	env := func(key string) string {
		if v := s.Environment[key]; v != nil {
			return *v
		}
		return ""
	}
	peers := strings.Split(env("ETCD_INITIAL_CLUSTER"), ",")
	self := s.Name + "=" + env("ETCD_INITIAL_ADVERTISE_PEER_URLS")
	if len(peers) != 3 || !slices.Contains(peers, self) || env("ETCD_NAME") != s.Name ||
		env("ETCD_INITIAL_ADVERTISE_PEER_URLS") != "http://"+s.Name+":2380" ||
		env("ETCD_ADVERTISE_CLIENT_URLS") != "http://"+s.Name+":2379" ||
		len(s.Volumes) != 1 || s.Volumes[0].Source != s.Name ||
		s.Volumes[0].Target != env("ETCD_DATA_DIR") {
		t.Errorf("%s: %v %v", s.Name, s.Environment, s.Volumes)
	}
}

// TestCompose: the loader takes the file, against compose's schema; servers may do no more than
// they need and are asked at their port, and members of etcd find each other.
func TestCompose(t *testing.T) {
	files, err := filepath.Glob("../../../deploy/compose/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
			WorkingDir:  filepath.Dir(file),
			ConfigFiles: []types.ConfigFile{{Filename: file, Content: text}},
		}, func(o *loader.Options) { o.SetProjectName("erpc", false) })
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		servers, members := 0, 0
		for _, s := range p.Services {
			if strings.Contains(s.Image, "etcd") {
				member(t, s)
				members++
				continue
			}
			servers++
			if s.Image != "erpc:0.1.0" || !slices.Contains(s.Command, ":31850") || s.HealthCheck == nil ||
				!slices.Contains(s.HealthCheck.Test, "127.0.0.1:31850") {
				t.Errorf("%s: %s is not asked where it serves", file, s.Name)
			}
			if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") || s.MemLimit == 0 {
				t.Errorf("%s: %s may do more than it needs, or has no limit", file, s.Name)
			}
		}
		if servers == 0 || members != 3 {
			t.Errorf("%s has %d servers and %d members of etcd", file, servers, members)
		}
	}
}
