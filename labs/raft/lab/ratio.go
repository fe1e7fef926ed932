package lab

import (
	"fmt"
	"slices"
)

// Ratio has the ratio of two figures in each round: the median, least and largest of them. Both
// figures of a round are of the same moment, so that a machine that is slower for a while slows
// both.
type Ratio struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// RatioOf takes the ratio of each round from f. There is at least one round.
func RatioOf(rounds int, f func(round int) float64) Ratio {
	var v []float64
	for i := range rounds {
		v = append(v, f(i))
	}
	slices.Sort(v)
	return Ratio{v[len(v)/2], v[0], v[len(v)-1]}
}

// String is as in "2.84 (2.52 to 3.21)".
func (r Ratio) String() string {
	return fmt.Sprintf("%.2f (%.2f to %.2f)", r.Median, r.Least, r.Most)
}
