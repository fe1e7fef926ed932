// Package faulty decorates a transport with the faults of a bad network: packets
// lost, repeated, reordered, damaged, late, or cut off altogether.
//
// Faults are drawn from a seeded generator, a fixed number of draws per packet and
// direction. So the same seed and the same calls give the same faults, and changing
// one probability leaves the other faults where they were. (Late packets depend on
// the clock too; give [Config.Clock] a virtual one to repeat them exactly.)
//
// Faults.TX happens to packets on their way out, Faults.RX to packets that came in.
// To each packet, in this order:
//
//	cut       swallowed, while [Transport.Cut] or [Transport.CutAddr] is in force
//	Loss      swallowed
//	Corrupt   1 to 3 bits flipped, on the way out in a copy
//	Dup       one copy more, which is never held
//	Reorder   held until some later packets have passed, or a short time
//	Delay     held for a time
//
// Without faults, packets and buffers go straight through.
//
// # Map
//
//	owns       the fate of each packet, and held packets
//	called by  tests, between erpc and another transport
//	never      memory grows with traffic; a fault is drawn from anything but the seed
package faulty
