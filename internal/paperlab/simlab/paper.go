package simlab

// Table5 is a row of the paper's table 5: incasts on the CX4 cluster.
type Table5 struct {
	Degree int     `json:"-"`
	CC     bool    `json:"-"`
	Gbps   float64 `json:"gbps"`
	P50    float64 `json:"p50_us"`
	P99    float64 `json:"p99_us"`
}

var table5 = []Table5{
	{20, true, 21.8, 39, 67}, {20, false, 23.1, 202, 204},
	{50, true, 18.4, 34, 174}, {50, false, 23.0, 524, 524},
	{100, true, 22.8, 349, 969}, {100, false, 23.0, 1056, 1060},
}

// PaperBackgroundP99 is the 99th percentile in us of the latency of the background
// RPCs during an incast of 100 with congestion control (section 6.5).
const PaperBackgroundP99 = 274.0

// paperIncast returns the paper's row, nil if it has none.
func paperIncast(degree int, cc bool) *Table5 {
	for i := range table5 {
		if t := &table5[i]; t.Degree == degree && t.CC == cc {
			return t
		}
	}
	return nil
}

// paperLoss is table 4: Gbit/s of 8 MB requests by the probability of loss.
var paperLoss = map[float64]float64{1e-7: 73, 1e-6: 71, 1e-5: 57, 1e-4: 18, 1e-3: 2.5}

// PaperLossFree is the bandwidth without loss, Gbit/s (section 6.4).
const PaperLossFree = 75.0

// Section63 holds the figures of section 6.3, for 100 nodes; zero where the paper has none.
type Section63 struct {
	Mrps             float64 `json:"mrps_per_node,omitempty"`
	P50              float64 `json:"p50_us,omitempty"`
	P9999Below       float64 `json:"p9999_us_below,omitempty"`
	RetransmitsBelow float64 `json:"retransmits_per_node_s_below,omitempty"`
}

// paperScale returns the paper's figures, nil if it has none.
func paperScale(nodes, threads int) *Section63 {
	switch {
	case nodes != 100:
	case threads == 1:
		return &Section63{P50: 12.7}
	case threads == 10:
		return &Section63{Mrps: 12.3, P9999Below: 700, RetransmitsBelow: 1700}
	}
	return nil
}
