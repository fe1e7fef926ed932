// Package history records what concurrent clients of the store saw, and checks with
// porcupine that it is linearizable. Keys are independent, so each is checked alone.
//
// # Map
//
//	owns       what clients saw
//	called by  tests of the store
//	never      a history that is not linearizable passes
package history
