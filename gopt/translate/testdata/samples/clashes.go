package main

import "github.com/userspace-rpc/erpc/gopt"

// hides has variables that hide the receiver in a block.
//
//gopt:batch B=4
func (t *table) hides(k uint32) (sum uint32) {
	for i := range uint32(3) {
		e := &t.entries[place(k+i)]
		gopt.Expensive(e)
		if t := e.next; t != nil {
			gopt.Expensive(t)
			sum += t.key
		}
		sum += t.order[i]
	}
	return sum
}

// share has variables that hide a shared parameter.
//
//gopt:batch B=4 shared=t,n
func share(t *table, n, k uint32) (sum uint32) {
	for n := range n {
		gopt.Expensive(&t.order[place(k)])
		{
			n := n + k
			gopt.Expensive(&t.order[place(n)])
			sum += t.order[place(n)]
		}
		sum += n * t.order[place(k)]
	}
	return sum + n
}

// leave leaves its loops where they would begin again.
//
//gopt:batch B=4
func (t *table) leave(k uint32) uint32 {
	for i := range uint32(4) {
		gopt.Expensive(&t.order[place(k)])
		if t.order[place(k)] > 5 {
			return i + 7
		}
		break
	}
	for {
		gopt.Expensive(&t.order[place(k+1)])
		return t.order[place(k+1)]
	}
}

// unread assigns a result and a parameter that nothing reads.
//
//gopt:batch B=4
func (t *table) unread(k uint32) (sum uint32) {
	n := place(k)
	for range 2 {
		gopt.Expensive(&t.order[n])
		n = place(t.order[n])
	}
	k, sum = 5, 6
	return n
}

// fields has a struct of its own.
//
//gopt:batch B=4
func (t *table) fields(k uint32) uint32 {
	var own struct {
		k, sum uint32
		entry
	}
	for range 3 {
		gopt.Expensive(&t.order[place(k)])
		own.k++
		own.key = t.order[place(k)]
		own.sum += own.key * own.k
		k = own.sum
	}
	return own.sum
}

// ends has no end but its cases and its last loop.
//
//gopt:batch B=4
func (t *table) ends(k uint32) uint32 {
	switch k % 4 {
	case 0:
		gopt.Expensive(&t.order[place(k)])
		return t.order[place(k)]
	case 1:
		k++
		fallthrough
	default:
		gopt.Expensive(&t.order[place(k)])
		k += t.order[place(k)]
	}
	if k%2 == 0 {
		switch {
		case k%3 == 0:
			return 3
		default:
			return 4
		}
	}
out:
	for {
		for i := uint32(0); ; i++ {
			if i*k%7 == 3 {
				return i
			}
			if i > 20 {
				break out
			}
		}
	}
	return k
}
