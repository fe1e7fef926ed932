package simlab

// Fairness is how flows share one bottleneck.
type Fairness struct {
	Flows int `json:"flows"`
}
