package failures

import (
	"strings"
)

// The values of the dimensions.
const (
	udpTransport, shmTransport, autoTransport, afpacketTransport = "udp", "shm", "auto", "afpacket"

	plain, byTLS, byPSK = "plain", "tls", "psk"

	rpcClient, oneClient, poolClient = "rpc", "client", "pool"
	grpcPickFirst, grpcRoundRobin    = "grpcerpc-pick_first", "grpcerpc-round_robin"

	faultKill, faultStop, faultGone = "kill", "stop", "gone"
	faultHang, faultDrain           = "hang", "drain"
	faultRestart, faultReplace      = "restart", "replace"
)

// dimensions are all values, in the order of a cell's.
var dimensions = [...][]string{
	{udpTransport, shmTransport, autoTransport, afpacketTransport},
	{plain, byTLS, byPSK},
	{rpcClient, oneClient, poolClient, grpcPickFirst, grpcRoundRobin},
	{faultKill, faultStop, faultGone, faultHang, faultDrain, faultRestart, faultReplace},
}

// cell is one place of the matrix: a value of each dimension.
type cell [len(dimensions)]string

func (c cell) transport() string { return c[0] }
func (c cell) security() string  { return c[1] }
func (c cell) client() string    { return c[2] }
func (c cell) fault() string     { return c[3] }
func (c cell) String() string    { return strings.Join(c[:], "/") }

// lone reports whether the client has one server.
func (c cell) lone() bool { return c.client() == rpcClient || c.client() == oneClient }

// library is the one whose clients and servers the cell has.
func (c cell) library() string {
	if strings.HasPrefix(c.client(), "grpcerpc") {
		return "grpcerpc"
	}
	return "erpc"
}

// policy is that of grpc-go which does what the cell's client does.
func (c cell) policy() string {
	if c.lone() || c.client() == grpcPickFirst {
		return "pick_first"
	}
	return "round_robin"
}

// anchor is the situation of grpc-go that the cell is beside.
func (c cell) anchor() anchor {
	return anchor{policy: c.policy(), fault: c.fault(), lone: c.lone(), keep: true}
}

// share is the victim's part of the calls.
func (c cell) share() float64 {
	if c.lone() || c.client() == grpcPickFirst {
		return 1
	}
	return 1.0 / servers
}

// silent reports whether the victim says nothing when the fault comes, and nobody does for it.
func (c cell) silent() bool { return c.fault() == faultStop || c.fault() == faultGone }

// apart reports whether the processes have to be in network namespaces.
func (c cell) apart() bool {
	return c.transport() == afpacketTransport || c.fault() == faultGone
}

// void says why there is no such cell, "" if there is.
func (c cell) void() string {
	switch {
	case c.transport() == shmTransport && c.fault() == faultGone:
		return "shared memory has no link that could go down"
	case c.transport() == autoTransport && c.fault() == faultGone:
		return "auto is shared memory within a machine, and udp, whose cells these are, across a link"
	case c.client() == rpcClient && c.fault() == faultReplace:
		return "an Rpc's sessions go to the addresses that the application gives"
	case c.client() == oneClient && c.fault() == faultReplace && c.transport() != udpTransport:
		return "a Client goes to one address or name: udp's cell has the name, which all resolve alike"
	}
	return ""
}

// allCells returns the cells that are not void, and why the others are.
func allCells() (cells []cell, voids map[string]int) {
	voids = make(map[string]int)
	var each func(c cell, i int)
	each = func(c cell, i int) {
		if i < len(c) {
			for _, v := range dimensions[i] {
				c[i] = v
				each(c, i+1)
			}
		} else if why := c.void(); why != "" {
			voids[why]++
		} else {
			cells = append(cells, c)
		}
	}
	each(cell{}, 0)
	return cells, voids
}

// couple is two values of a cell.
type couple struct{ a, b string }

// couples returns all pairs of values of a cell.
func (c cell) couples() (list []couple) {
	for i := range c {
		for j := i + 1; j < len(c); j++ {
			list = append(list, couple{c[i], c[j]})
		}
	}
	return list
}

// allPairs returns few cells that have all pairs of values that there are: the one with the most
// new ones, again and again.
func allPairs(cells []cell) (chosen []cell) {
	left := make(map[couple]bool)
	for _, c := range cells {
		for _, p := range c.couples() {
			left[p] = true
		}
	}
	for len(left) > 0 {
		best, most := cell{}, 0
		for _, c := range cells {
			n := 0
			for _, p := range c.couples() {
				if left[p] {
					n++
				}
			}
			if n > most {
				best, most = c, n
			}
		}
		chosen = append(chosen, best)
		for _, p := range best.couples() {
			delete(left, p)
		}
	}
	return chosen
}
