// Package invariants says whether this build checks invariants: costly or
// paranoid assertions that compile away in ordinary builds. They are on with
// the build tag "invariants" and under the race detector.
//
//	if invariants.Enabled && credits > max {
//		panic("session: more credits than agreed")
//	}
//
// # Map
//
//	owns       one constant
//	called by  all packages, around costly checks
//	never      an ordinary build pays for a check
package invariants
