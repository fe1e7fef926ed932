package rfplab

import (
	"math"
	"math/rand/v2"
	"slices"
)

// zipf draws numbers below n, number i with a probability that goes as 1/(i+1)^theta (Gray et al.,
// "Quickly Generating Billion-Record Synthetic Databases", SIGMOD 1994). The numbers are mixed by
// their users.
type zipf struct {
	n, theta, alpha, zeta, eta float64
}

func newZipf(n uint64, theta float64) *zipf {
	z := &zipf{n: float64(n), theta: theta, alpha: 1 / (1 - theta)}
	least := min(n, single)
	for i := range least {
		z.zeta += math.Pow(float64(i+1), -theta)
	}
	z.zeta += z.area(float64(least)+.5, z.n+.5) // of the rest
	z.eta = (1 - math.Pow(2/z.n, 1-theta)) / (1 - (1+math.Pow(0.5, theta))/z.zeta)
	return z
}

// single is how many numbers are summed one by one.
const single = 1 << 17

// area is that below the curve of probabilities, not yet divided by their sum.
func (z *zipf) area(from, to float64) float64 {
	return (math.Pow(to, 1-z.theta) - math.Pow(from, 1-z.theta)) / (1 - z.theta)
}

// spread returns the load of the most loaded of so many partitions as a multiple of the least
// loaded one's, where each number has its partition by a hash: the median of many hashes.
func (z *zipf) spread(parts int) float64 {
	const hashes = 101
	var ratios []float64
	weights := make([]float64, single)
	for i := range weights {
		weights[i] = math.Pow(float64(i+1), -z.theta)
	}
	rest := z.area(single+.5, z.n+.5) / float64(parts)
	for hash := range uint64(hashes) {
		loads := make([]float64, parts)
		for i, w := range weights {
			loads[mix(uint64(i)^hash<<32)%uint64(parts)] += w
		}
		ratios = append(ratios, (slices.Max(loads)+rest)/(slices.Min(loads)+rest))
	}
	slices.Sort(ratios)
	return ratios[hashes/2]
}

func (z *zipf) next(r *rand.Rand) uint64 {
	if z.theta == 0 {
		return r.Uint64N(uint64(z.n))
	}
	u := r.Float64()
	switch uz := u * z.zeta; {
	case uz < 1:
		return 0
	case uz < 1+math.Pow(0.5, z.theta):
		return 1
	}
	return min(uint64(z.n*math.Pow(z.eta*u-z.eta+1, z.alpha)), uint64(z.n)-1)
}
