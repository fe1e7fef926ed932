package refused

import (
	"github.com/userspace-rpc/erpc/gopt"
)

var data [100]uint32

func helper(k uint32) uint32 {
	gopt.Expensive(&data[k]) // want: a mark in a function without
	return data[k]
}

//gopt:batch // want: //gopt:batch belongs right above a function
var other int

//gopt:batch
func none(k uint32) uint32 { // want: no mark
	return data[k]
}

//gopt:batch
func heads(k uint32) uint32 {
	gopt.Expensive(&data[k])
	if gopt.Expensive(&data[k]); k > 1 { // want: a mark that is no statement of its own
		return 1
	}
	defer gopt.Expensive(&data[0]) // want: defer // want: a mark that is no statement of its own
	return data[k]
}

//gopt:batch backend=stages
func branch(k uint32) uint32 {
	if k > 1 { // want: backend=stages: a mark in a branch
		gopt.Expensive(&data[k])
	}
	return data[k]
}

//gopt:batch backend=stages
func loop(k uint32) uint32 {
	for k > 1 { // want: backend=stages: a mark in a loop
		gopt.Expensive(&data[k])
		k--
	}
	return data[k]
}

//gopt:batch
func variadic(ks ...uint32) uint32 { // want: a variadic function
	gopt.Expensive(&data[ks[0]])
	return data[ks[0]]
}

//gopt:batch shared=k,other
func lonely(k uint32) uint32 { // want: the directive names other // want: no parameter of
	gopt.Expensive(&data[k])
	return data[k]
}

//gopt:batch
func nameless(uint32) uint32 { // want: a parameter without a name
	gopt.Expensive(&data[0])
	return data[0]
}

//gopt:batch values=k
func value(k uint32) uint32 { // want: values=k: the parameter is no pointer
	gopt.Expensive(&data[k])
	return data[k]
}

//gopt:batch B=300 // want: B=300
func large(k uint32) uint32 {
	gopt.Expensive(&data[k])
	return data[k]
}

//gopt:batch backend=both // want: backend=both: want
func both(k uint32) uint32 {
	gopt.Expensive(&data[k])
	return data[k]
}

//gopt:batch name=helper
func taken(k uint32) uint32 { // want: helper is there already
	gopt.Expensive(&data[k])
	return data[k]
}

//gopt:batch
func (t *set) find(k uint32) uint32 { // want: findBatch is there already
	gopt.Expensive(&data[k])
	return data[k]
}

type set struct{}

func (t *set) findBatch() {}

//gopt:batch
func number(k uint32) uint32 {
	gopt.ExpensiveLines(&data[k], int(k)) // want: a number of lines that depends on k
	return data[k]
}

//gopt:batch
func broken(k uint32) uint32 {
	gopt.Expensive(&data[k])
	return data[k] + missing(k) // want: undefined: missing
}

//gopt:batch
func outside(k uint32) uint32 // want: a function without a body
