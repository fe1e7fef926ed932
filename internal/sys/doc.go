// Package sys holds the few machine instructions that Go has no name for.
package sys
