package prometheus

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/userspace-rpc/erpc/erpc"
)

// dashboard has the fields of Grafana's file that the test needs.
const dashboard = "../../deploy/grafana/erpc.json"

// queries returns the queries of the dashboard with its variables filled in.
func queries(t *testing.T) (list []string) {
	t.Helper()
	var d struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile(dashboard)
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	vars := strings.NewReplacer("$__rate_interval", "4s", "$endpoint", ".*")
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			list = append(list, vars.Replace(target.Expr))
		}
	}
	return list
}

// TestDashboard: a real Prometheus scrapes a program under load, and each query of the dashboard
// answers with data, with classic histograms and with native ones: a server that takes native ones
// has no others.
func TestDashboard(t *testing.T) {
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("prometheus is missing: apt-get install prometheus")
		}
		t.Skip("prometheus is missing: apt-get install prometheus")
	}
	for mode, flags := range map[string][]string{
		"classic": nil, "native": {"--enable-feature=native-histograms"},
	} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t)
			reg := prometheus.NewPedanticRegistry()
			reg.MustRegister(New(Config{}, r.server, r.client))
			web := httptest.NewServer(promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
			t.Cleanup(web.Close)
			load(t, r)
			api := startPrometheus(t, binary, web.Listener.Addr().String(), flags)
			wantData(t, api, queries(t))
		})
	}
}

// wantData waits until all queries have data.
func wantData(t *testing.T, api string, missing []string) {
	t.Helper()
	if len(missing) < 30 {
		t.Fatalf("the dashboard has %d queries only", len(missing))
	}
	for end := time.Now().Add(time.Minute); len(missing) > 0; <-time.After(200 * time.Millisecond) {
		var left []string
		for _, q := range missing {
			if !answers(t, api, q) {
				left = append(left, q)
			}
		}
		if missing = left; time.Now().After(end) {
			t.Fatalf("no data: %s", strings.Join(missing, "\n"))
		}
	}
}

// load calls the rig's handlers until the test ends.
func load(t *testing.T, r *rig) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for typ := uint8(1); typ <= 3; typ++ {
		wg.Go(func() {
			for {
				_, err := r.client.Call(context.Background(), typ, []byte("load"))
				if c := erpc.CodeOf(err); c != erpc.CodeOK && c != erpc.CodeNotFound {
					t.Error(err)
					return
				}
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
	t.Cleanup(func() { close(stop); wg.Wait() })
}

// startPrometheus starts a server that scrapes target, and returns the address of its API.
func startPrometheus(t *testing.T, binary, target string, flags []string) (api string) {
	t.Helper()
	dir := t.TempDir()
	cfg := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("scrape_configs:\n- job_name: erpc\n  scrape_interval: 500ms\n"+
		"  scrape_timeout: 500ms\n  static_configs:\n  - targets: ['%s']\n", target)
	if err := os.WriteFile(cfg, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	api = free.Addr().String()
	_ = free.Close()
	cmd := exec.Command(binary, append([]string{"--config.file=" + cfg, "--storage.tsdb.path=" + dir,
		"--web.listen-address=" + api, "--log.level=error"}, flags...)...)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return api
}

// answers reports whether a query has data now.
func answers(t *testing.T, api, query string) bool {
	resp, err := http.PostForm("http://"+api+"/api/v1/query", url.Values{"query": {query}})
	if err != nil {
		return false // it is not up yet
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	var a struct {
		Status string
		Error  string
		Data   struct {
			Result []struct{ Value []any }
		}
	}
	if err != nil || json.Unmarshal(body, &a) != nil {
		return false
	}
	if a.Error != "" && !strings.Contains(a.Error, "not ready") {
		t.Fatalf("%s: %s", query, a.Error)
	}
	for _, r := range a.Data.Result {
		if len(r.Value) == 2 && r.Value[1] != "NaN" {
			return true
		}
	}
	return false
}
