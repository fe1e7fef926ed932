package ycsb

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Errors of this package. Those of single fields and values match one of them.
var (
	ErrUnknownWorkload = errors.New("ycsb: unknown workload")
	ErrWorkload        = errors.New("ycsb: bad workload")
	ErrSchema          = errors.New("ycsb: bad schema")
)

// Op is a kind of operation.
type Op uint8

// The operations.
const (
	Read            Op     = iota // a whole record
	Update                        // one field
	Insert                        // a new record
	Scan                          // records in order of keys, from one on
	ReadModifyWrite               // Read, then Update of the same record
	Ops             = iota        // how many kinds there are
)

// String returns the name that YCSB prints: "read", "read-modify-write".
func (o Op) String() string {
	names := [Ops]string{"read", "update", "insert", "scan", "read-modify-write"}
	if int(o) >= len(names) {
		return fmt.Sprintf("op(%d)", uint8(o))
	}
	return names[o]
}

// Distribution says which records are asked for.
type Distribution uint8

// The distributions; see the package's comment.
const (
	Uniform Distribution = iota
	Zipfian
	Latest
)

// String returns "uniform", "zipfian" or "latest".
func (d Distribution) String() string {
	switch d {
	case Uniform:
		return "uniform"
	case Zipfian:
		return "zipfian"
	case Latest:
		return "latest"
	}
	return fmt.Sprintf("distribution(%d)", uint8(d))
}

// Workload is a mix of operations.
type Workload struct {
	Name    string
	Shares  [Ops]float64 // of each Op; their sum is 1
	Request Distribution // of records in all operations but inserts
	MaxScan int          // scans have a uniform length of 1 to MaxScan; needed if there are scans
}

// Names are those of the standard workloads, in order.
var Names = []string{"a", "b", "c", "d", "e", "f"}

// Standard returns one of YCSB's core workloads, "a" to "f" in any case. The error is
// ErrUnknownWorkload.
func Standard(name string) (Workload, error) {
	w := Workload{Name: strings.ToLower(name), Request: Zipfian}
	switch w.Name {
	case "a":
		w.Shares = [Ops]float64{Read: 0.5, Update: 0.5}
	case "b":
		w.Shares = [Ops]float64{Read: 0.95, Update: 0.05}
	case "c":
		w.Shares = [Ops]float64{Read: 1}
	case "d":
		w.Shares = [Ops]float64{Read: 0.95, Insert: 0.05}
		w.Request = Latest
	case "e":
		w.Shares = [Ops]float64{Scan: 0.95, Insert: 0.05}
		w.MaxScan = 100
	case "f":
		w.Shares = [Ops]float64{Read: 0.5, ReadModifyWrite: 0.5}
	default:
		return Workload{}, fmt.Errorf("%w: %q; there are a to f", ErrUnknownWorkload, name)
	}
	return w, nil
}

// Check reports what is wrong with a workload. The error matches ErrWorkload.
func (w *Workload) Check() error {
	sum := 0.0
	for op, share := range w.Shares {
		if !(share >= 0 && share <= 1) { // also NaN
			return fmt.Errorf("%w: a share of %v for %v", ErrWorkload, share, Op(op))
		}
		sum += share
	}
	switch {
	case math.Abs(sum-1) > 1e-9:
		return fmt.Errorf("%w: the shares of operations add up to %v", ErrWorkload, sum)
	case w.Request > Latest:
		return fmt.Errorf("%w: unknown %v", ErrWorkload, w.Request)
	case w.Shares[Scan] > 0 && w.MaxScan < 1:
		return fmt.Errorf("%w: scans of at most %d records", ErrWorkload, w.MaxScan)
	}
	return nil
}
