package turns

import (
	"cmp"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	sizes   = flag.String("mib", "8,64,1024", "sizes of tables in MiB")
	works   = flag.String("work", "0,60,200", "other work between lookups in ns")
	batches = flag.String("batch", "1,2,4,8,16,32,64", "lookups per call")
	rounds  = flag.Int("rounds", 31, "rounds, whose medians count")
)

// Lookups is how many lookups one measurement draws.
const Lookups = 4096

// Way is a way to do the lookups that have been drawn.
type Way struct {
	name string
	look func(from, to int)
	by   string // the way whose time is divided by this one's
}

// Ways returns four ways to do the lookups from to to-1: the function of one lookup, as it is and
// without marks, and its batched ones. A structure may lack the one by hand.
func Ways(plain, unmarked, byHand, generated func(from, to int)) []Way {
	if byHand == nil {
		return []Way{{"plain", plain, ""}, {"unmarked", unmarked, "plain"},
			{"generated", generated, "plain"}}
	}
	return []Way{{"plain", plain, ""}, {"unmarked", unmarked, "plain"}, {"by hand", byHand, "plain"},
		{"generated", generated, "by hand"}}
}

// Set is a structure: Draw draws Lookups lookups anew, and Result is what lookup i has found.
type Set struct {
	Draw   func()
	Result func(i int) uint64
	Ways   []Way
}

// Bench measures a structure at all sizes; fill returns one of about so many bytes.
func Bench(b *testing.B, name string, fill func(size int) Set) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unit := pace()
	for _, mib := range numbers(b, *sizes) {
		s := fill(mib << 20)
		fmt.Printf("\n%s, %d MiB; ns per lookup without the work, medians of %d rounds\n", name, mib,
			*rounds)
		fmt.Printf("%5s %5s", "work", "batch")
		for _, w := range s.Ways {
			fmt.Printf(" %10s", w.name)
			if w.by != "" {
				fmt.Printf(" %10s", "/ "+w.by)
			}
		}
		fmt.Println()
		for _, work := range numbers(b, *works) {
			for _, batch := range numbers(b, *batches) {
				s.row(work, batch, unit)
			}
		}
	}
}

// row measures all ways in turns and prints their medians, and those of the ratios within a round.
func (s Set) row(work, batch int, unit float64) {
	times := make([][]float64, len(s.Ways))
	for range *rounds {
		for i, w := range s.Ways {
			times[i] = append(times[i], s.measure(w, work, max(1, batch), unit))
		}
	}
	fmt.Printf("%5d %5d", work, batch)
	for i, w := range s.Ways {
		fmt.Printf(" %10.1f", median(times[i]))
		if w.by == "" {
			continue
		}
		j := slices.IndexFunc(s.Ways, func(o Way) bool { return o.name == w.by })
		var ratios []float64
		for r := range times[i] {
			ratios = append(ratios, times[j][r]/times[i][r])
		}
		fmt.Printf(" %10.2f", median(ratios))
	}
	fmt.Println()
}

// sink keeps results alive.
var sink uint64

// measure returns the time of a lookup in ns without that of the work. Each lookup's work depends
// on its result, and what a single lookup reads does not depend on the work of the one before.
func (s Set) measure(w Way, work, batch int, unit float64) float64 {
	steps := int(float64(work) / unit)
	s.Draw()
	begin := now()
	for from := 0; from < Lookups; from += batch {
		to := min(from+batch, Lookups)
		w.look(from, to)
		for i := from; steps > 0 && i < to; i++ {
			sink += spin(s.Result(i), steps)
		}
	}
	return float64(now()-begin)/Lookups - float64(steps)*unit
}

// spin is work: steps multiplications, each of which waits for the one before.
//
//go:noinline
func spin(x uint64, steps int) uint64 {
	for range steps {
		x = x*0x9E3779B97F4A7C15 + 1
	}
	return x
}

// pace returns the ns of a step of spin.
func pace() float64 {
	var list []float64
	for range 20 {
		begin := now()
		sink += spin(sink, 100_000)
		list = append(list, float64(now()-begin)/100_000)
	}
	return median(list)
}

func median(list []float64) float64 {
	list = slices.Clone(list)
	slices.SortFunc(list, cmp.Compare)
	return list[len(list)/2]
}

func numbers(b *testing.B, text string) (list []int) {
	b.Helper()
	for _, word := range strings.Split(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 {
			b.Fatalf("%q: not a number", word)
		}
		list = append(list, n)
	}
	return list
}
