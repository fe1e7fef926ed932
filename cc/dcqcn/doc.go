// Package dcqcn controls a session's rate by congestion marks.
package dcqcn
