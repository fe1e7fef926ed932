package swift

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/cc"
)

// told tells a controller round trips, one each in the time that it takes.
func told(c *Control, now *cc.Time, n int, rtt func() time.Duration) {
	for range n {
		r := rtt()
		*now = now.Add(r)
		c.OnAck(*now, r, 6*us, 1000, false)
	}
}

// TestSlowPath: a session that yields and finds that round trips stay what they are takes them for
// the path's. Its rate rises again, and it forgets them when they become shorter.
func TestSlowPath(t *testing.T) {
	c, now := New(filled(t, Config{}), 3e9), cc.Time(0)
	told(c, &now, 300, func() time.Duration { return ms })
	if c.stays.delay != ms || c.Rate() < 500e3 {
		t.Errorf("%v stay, rate %v", c.stays.delay, c.Rate())
	}
	if _, bypass := c.OnAck(now, ms, 6*us, 1000, false); bypass != ms+25*us {
		t.Errorf("bypass %v", bypass)
	}
	told(c, &now, 300, func() time.Duration { return 900 * us })
	if c.stays.delay != 900*us {
		t.Errorf("%v stay of 900 us", c.stays.delay)
	}
	told(c, &now, 20_000, func() time.Duration { return 20 * us })
	if c.stays.delay != 0 {
		t.Errorf("%v stay of 20 us", c.stays.delay)
	}
}

// TestQueueIsNoPath: a delay that falls as the session yields does not count as the path's, nor
// does one that stays while it has packets under way.
func TestQueueIsNoPath(t *testing.T) {
	c, now := New(filled(t, Config{}), 3e9), cc.Time(0)
	queue := 10 * ms
	told(c, &now, 1000, func() time.Duration { queue -= queue / 64; return 6*us + queue })
	if c.stays.delay != 0 {
		t.Errorf("%v stay of a queue that falls", c.stays.delay)
	}
	c = New(filled(t, Config{MinRate: 100e6}), 3e9)
	told(c, &now, 1000, func() time.Duration { return ms })
	if c.stays.delay != 0 {
		t.Errorf("%v stay, with 100 packets under way", c.stays.delay)
	}
}
