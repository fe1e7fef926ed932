package ycsb_test

import (
	"fmt"
	"log"

	"github.com/userspace-rpc/erpc/ycsb"
)

// Workload B reads nearly always, and some records far more often than others.
func ExampleGenerator() {
	workload, err := ycsb.Standard("b")
	if err != nil {
		log.Fatal(err)
	}
	const records = 1000
	keys := ycsb.NewKeyspace(records, 0)
	g, err := ycsb.NewGenerator(workload, keys, 10, 1, 0)
	if err != nil {
		log.Fatal(err)
	}
	const n = 20_000
	reads, counts := 0, map[int64]int{}
	for range n {
		r := g.Next()
		if r.Op == ycsb.Read {
			reads++
		}
		counts[r.Record]++
	}
	most := 0
	for _, c := range counts {
		most = max(most, c)
	}
	fmt.Printf("reads: %d %%\n", (100*reads+n/2)/n)
	fmt.Println("the most wanted record beats the average by 20:", most > 20*n/records)
	// Output:
	// reads: 95 %
	// the most wanted record beats the average by 20: true
}
