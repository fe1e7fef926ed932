package carousel_test

import (
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/ratelimit/carousel"
)

// Two flows send packets of 1000 bytes, one at 100 MB/s and one at 40 MB/s. Each has
// one entry in the wheel, for its next packet, and its own pacing clock.
func Example() {
	type flow struct {
		name string
		gap  time.Duration // from one packet to the next: size/rate
		next carousel.Time // pacing clock
	}
	var now carousel.Time
	w, err := carousel.New[*flow](carousel.Config{}, now)
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Insert(now, &flow{name: "fast", gap: 10 * time.Microsecond})
	w.Insert(now, &flow{name: "slow", gap: 25 * time.Microsecond})

	for now = 0; now <= 50_000; now = now.Add(time.Microsecond) { // the event loop
		w.Advance(now)
		for f, ok := w.Pop(now); ok; f, ok = w.Pop(now) {
			fmt.Println(time.Duration(now), f.name)
			f.next = max(now, f.next.Add(f.gap))
			w.Insert(f.next, f)
		}
	}
	// Output:
	// 0s fast
	// 0s slow
	// 11µs fast
	// 21µs fast
	// 26µs slow
	// 31µs fast
	// 41µs fast
}
