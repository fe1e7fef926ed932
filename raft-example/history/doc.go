// Package history records what concurrent clients of the store saw, and checks with
// porcupine that it is linearizable. Keys are independent, so each is checked alone.
package history
