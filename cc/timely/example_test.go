package timely_test

import (
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/cc/timely"
)

// Timely lowers a session's rate when round trips are long, and raises it again when they are
// short. It is a function of the times that it is given; it reads no clock.
func Example() {
	config := timely.ERPC()
	const link = 25e9 / 8 // bytes per second
	control := timely.New(&config, link)
	now := cc.Time(time.Second)
	const base = 6 * time.Microsecond
	for range 100 { // a queue: 2 ms in place of 6 us
		now = now.Add(2 * time.Millisecond)
		control.OnAck(now, 2*time.Millisecond, base, 1000, false)
	}
	slow := control.Rate()
	for range 10_000 { // the queue has gone
		now = now.Add(20 * time.Microsecond)
		control.OnAck(now, 10*time.Microsecond, base, 1000, false)
	}
	fmt.Println("lower under a queue:", slow < link/10)
	fmt.Println("the link's again:", control.Rate() == link)
	// Output:
	// lower under a queue: true
	// the link's again: true
}
