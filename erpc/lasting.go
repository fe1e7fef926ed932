package erpc

import "time"

// promptly is the longest epoch with which callers wait for the end of a call alone at first.
const promptly = 5 * time.Millisecond

// freshCalls are the calls under way whose callers wait for nothing but the end. To wait for the
// end of the context too takes a select: at 64 callers a sixth of a call's time, most of all if the
// contexts have one channel, whose lock all share. So a caller does that when its call lasts. The
// loop tells it, one or two epochs after the call began: that is how much later such a call's
// context is seen to have ended. Calls whose types lasted the last time wait for both from the
// beginning, and so do those whose deadline is near.
//
// The calls are in two lists: those that began in this epoch, and in the one before.
type freshCalls struct{ young, old *goCall }

// add puts a call in.
func (f *freshCalls) add(k *goCall) {
	k.freshAt, k.fresher = &f.young, f.young
	if k.fresher != nil {
		k.fresher.freshAt = &k.fresher
	}
	f.young = k
}

// remove takes a call out. It returns false if it is not in.
func (f *freshCalls) remove(k *goCall) bool {
	if k.freshAt == nil {
		return false
	}
	*k.freshAt = k.fresher
	if k.fresher != nil {
		k.fresher.freshAt = k.freshAt
	}
	k.freshAt, k.fresher = nil, nil
	return true
}

// empty reports whether there are none.
func (f *freshCalls) empty() bool { return f.young == nil && f.old == nil }

// epoch tells the callers of the old calls that these last. The young ones are old then.
func (f *freshCalls) epoch() (told int) {
	for ; f.old != nil; told++ {
		k := f.old
		f.remove(k)
		k.client.lasts[k.typ].Store(true)
		k.ended <- false
	}
	f.old, f.young = f.young, nil
	if f.old != nil {
		f.old.freshAt = &f.old
	}
	return told
}

// waitsForEnd reports whether the caller is to wait for the end of the call alone.
func (k *goCall) waitsForEnd() bool {
	c := k.client
	t := c.rpc.cfg.Timing.RTOMin
	return t/4 <= promptly && (k.timeout == 0 || k.timeout > t) && !c.lasts[k.typ].Load() &&
		c.rpc.cfg.Simulation.Clock == nil
}

// stopWaiting takes the call from those that are fresh, and learns how long those of its type take.
func (k *goCall) stopWaiting(r *Rpc) {
	if r.fresh.remove(k) || k.done != nil {
		return
	}
	lasts := &k.client.lasts[k.typ]
	if lasts.Load() && r.engine.Now().Sub(k.began) < r.cfg.Timing.RTOMin/4 {
		lasts.Store(false)
	}
}
