// Package timely controls a session's rate by its round-trip times.
package timely
