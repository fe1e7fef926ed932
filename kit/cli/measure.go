package cli

import (
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"

	"github.com/userspace-rpc/erpc/kit/outfile"
)

// ErrStopped means that Ctrl-C came before there was anything to tell.
var ErrStopped = errors.New("interrupted before anything was measured")

// StartProfile writes a CPU profile to file until the result is called; "" means none.
func StartProfile(file string) (stop func(), err error) {
	if file == "" {
		return func() {}, nil
	}
	f, err := outfile.Create(file, 0o666)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, nil
}

// Positive complains about a flag that is not at least min.
func Positive(flag string, value, min int) error {
	if value < min {
		return Usagef("%s %d: must be at least %d", flag, value, min)
	}
	return nil
}

// Between complains about a flag outside its limits.
func Between(flag string, value, low, high int) error {
	if value < low || value > high {
		return Usagef("%s %d: must be %d to %d", flag, value, low, high)
	}
	return nil
}

// Numbers reads a list of whole numbers, each from low to high.
func Numbers(flag, text string, low, high int) (list []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < low || n > high {
			return nil, Usagef("%s %q: want numbers from %d to %d, with commas between", flag,
				text, low, high)
		}
		list = append(list, n)
	}
	return list, nil
}

// BytesText writes a number of bytes for people.
func BytesText(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// CountText writes a number or a rate for people.
func CountText(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.2f M", n/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f k", n/1e3)
	}
	return fmt.Sprintf("%.1f", n)
}

// Median of v, 0 if empty.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}
