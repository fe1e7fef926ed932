package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/outfile"
)

// PeersFile is the name of the file with the Comparison.
const PeersFile = "peers.json"

// Figure is the object that bin/erpc bench --json printed, with the machine added. It may hold more
// fields than these.
type Figure struct {
	Bench     string  `json:"bench"`
	Transport string  `json:"transport"`
	Size      int     `json:"size"`
	RespSize  int     `json:"resp_size"`
	MTU       int     `json:"mtu"`
	Window    int     `json:"window"`
	Threads   int     `json:"threads"`
	Symmetric bool    `json:"symmetric"`
	Rps       float64 `json:"rps"`
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
	Gbps      float64 `json:"gbps"`
	CPU       float64 `json:"cpu_ns_per_rpc"`
	RawP50    float64 `json:"raw_p50_us"`
	RawRps    float64 `json:"raw_rps"`
	RawGbps   float64 `json:"raw_gbps"`
	Ratio     float64 `json:"ratio_to_raw"`
	Cores     float64 `json:"core_round_trip_ns"` // a cache line's, between client and server
	Machine   Machine `json:"machine"`
}

// Results are all that a folder holds.
type Results struct {
	Figures []Figure
	Peers   *Comparison // nil if there is none
}

var errEmpty = errors.New("no JSON file there")

// Read reads the JSON files of a folder.
func Read(dir string) (r Results, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return r, err
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return r, err
		}
		if filepath.Base(name) == PeersFile {
			r.Peers = new(Comparison)
			err = json.Unmarshal(b, r.Peers)
		} else {
			var f Figure
			if err = json.Unmarshal(b, &f); err == nil && f.Bench != "" {
				r.Figures = append(r.Figures, f)
			}
		}
		if err != nil {
			return r, fmt.Errorf("%s: %w", name, err)
		}
	}
	if r.Peers == nil && len(r.Figures) == 0 {
		return r, fmt.Errorf("%s: %w", dir, errEmpty)
	}
	slices.SortStableFunc(r.Figures, func(a, b Figure) int { return a.rank() - b.rank() })
	return r, nil
}

// rank puts figures in the order of tables; those of a kind stay in their files' order.
func (f *Figure) rank() int {
	n := slices.Index([]string{"latency", "rate", "bandwidth"}, f.Bench)
	if n < 0 {
		n = 3
	}
	if f.RespSize > f.Size {
		return 2*n + 1
	}
	return 2 * n
}

// AddMachine puts m into a JSON object as printed by bin/erpc, and keeps the rest of it.
func AddMachine(object []byte, m Machine) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, err
	}
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if _, ok := fields["machine"]; ok {
		fields["machine"] = b
		return json.Marshal(fields)
	}
	head := bytes.TrimSuffix(bytes.TrimSpace(object), []byte("}"))
	comma := ","
	if len(fields) == 0 {
		comma = ""
	}
	return fmt.Appendf(nil, "%s%s%q:%s}\n", head, comma, "machine", b), nil
}

// Write writes a value as indented JSON, in a file of that name.
func Write(file string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return outfile.Write(file, append(b, '\n'), 0o644)
}

// Name says what the figure measures, in a few words.
func (f *Figure) Name() string {
	if f.Bench == "bandwidth" {
		name := "requests"
		if f.RespSize > f.Size {
			name = "responses"
		}
		return cli.BytesText(max(f.Size, f.RespSize)) + " " + name
	}
	text := []string{cli.BytesText(f.Size) + " RPC"}
	if f.RespSize != f.Size {
		text[0] = cli.BytesText(f.Size) + " to " + cli.BytesText(f.RespSize) + " RPC"
	}
	text = append(text, fmt.Sprintf("%d in flight", f.Window))
	if f.Threads > 1 {
		text = append(text, fmt.Sprintf("%d threads", f.Threads))
	}
	if f.Symmetric {
		text = append(text, "symmetric")
	}
	return strings.Join(text, ", ")
}
