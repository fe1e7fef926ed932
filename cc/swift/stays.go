package swift

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// stays finds a delay that stays though the session yields: one of the path, a slow link whose
// packets take longer than the target, or of others that do not yield. The session could wait for
// ever for it to go.
type stays struct {
	delay time.Duration // 0 if there is none

	// Round trips are looked at in periods.
	least   time.Duration
	began   monotime.Time
	answers uint8
	busy    bool // the session had staysPackets or more under way at some time
}

const (
	staysPackets = 1   // fewer than so many under way on average are no queue
	staysAnswers = 4   // a period has so many answers at least,
	staysRounds  = 128 // and lasts as long as so many round trips
)

// see takes a round trip where the base target is such.
func (d *stays) see(s *Control, now monotime.Time, rtt, base time.Duration) {
	if d.answers == 0 || now < d.began {
		*d = stays{delay: d.delay, least: rtt, began: now}
	}
	d.least = min(d.least, rtt)
	d.answers = min(d.answers+1, staysAnswers)
	d.busy = d.busy || s.rate*float64(rtt)*1e-9 >= float64(s.cfg.Packet)*staysPackets
	if d.answers < staysAnswers || now.Sub(d.began)/staysRounds < d.least {
		return
	}
	d.answers = 0
	most := float64(max(base, s.cfg.Bypass(d.delay))) + float64(s.cfg.FlowRange)
	switch {
	case d.least <= base:
		d.delay = 0
	case d.least < d.delay || !d.busy && float64(d.least) > most:
		d.delay = d.least
	}
}
