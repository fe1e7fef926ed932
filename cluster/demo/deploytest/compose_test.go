package deploytest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// TestCompose: the loader takes the file, against compose's schema, and servers may do no more than
// they need.
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
		servers := 0
		for _, s := range p.Services {
			if s.Image != "erpc:0.1.0" {
				continue
			}
			servers++
			if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") || s.MemLimit == 0 || s.HealthCheck == nil {
				t.Errorf("%s: %s may do more than it needs, or has no limit or no health check", file, s.Name)
			}
		}
		if servers == 0 {
			t.Errorf("%s has no server", file)
		}
	}
}
