// Package idle decides how an event loop waits when a pass found nothing: look again, give the
// core away for a moment, or sleep. A Policy learns from the times of the passes alone. It makes no
// system call and reads no clock, so all of it is tested in virtual time.
//
// Six things are learned:
//
//   - Whether others want the core. A loop that polls starts a pass every microsecond or less. If
//     the next pass comes much later, the loop was switched off the core in between. Threads that
//     come back soon after a Yield share the core well, and then each idle pass yields. Threads
//     that keep the core, as a computation does, make the loop sleep for a while instead: a thread
//     that sleeps gets the core at once when a packet comes, one that spins must wait its turn.
//   - Whether polls beside such threads meet packets. A loop that works for more than its share of
//     the core waits its turn at each wake-up too, and its peer idles meanwhile. Then it polls for
//     50 us before a sleep, without a Yield, while most such polls meet a packet. They don't if the
//     peer waits for the same core.
//   - The cost of a sleep: how much longer it takes until the loop sees a packet. Neither a clock
//     nor the length of a sleep shows this, since it is unknown when the packet came. So the loop
//     compares: now and then it sleeps at once for some spells though it usually spins, or spins
//     though it usually sleeps, and takes the difference of the average lengths of such spells. On
//     a machine of its own that is some 5 us; a virtual machine that halts a core may need 55 us.
//   - Whether the next packet usually comes within the time that is worth spinning: twice that
//     cost, or a quarter of it for a loop that is to save CPU. If it does not, the loop sleeps
//     without spinning first. A peer that sleeps too makes packets late by its own wake-up; twice
//     the cost lets one of the two begin to spin.
//   - Whether packets that come later come regularly: nearly all within the usual time and half of
//     it, and that is at most nine times the cost. Such are the calls of one who waits for each
//     answer and then does something else. Each wake-up delays all calls after it, so to sleep
//     would cost a tenth of the rate or more. Then the loop spins, though that may take four times
//     the CPU. A loop that is to save CPU does not.
//   - How much the loop works. A sleep saves a busy loop little for each call, and many calls wait
//     for its wake-up, so a sleep is taken to cost at least 25 us then, and is not tried. Without
//     that, two busy loops can each find that the other's packets come too late for a spin.
//
// Packets that come at random are met by a spin if most come within twice the cost. If few do, the
// loop sleeps but for the tries; in between it changes from one to the other. They are not regular.
//
// # Map
//
//	owns       one loop's policy of waiting
//	called by  package erpc, once per pass; internal/paperlab/waitlab in virtual time
//	never      it makes a system call or reads a clock
package idle
