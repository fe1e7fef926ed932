// Package rawtest serves the tests of all frame devices: packets and RPCs across a pair of
// links, traffic that is not for an endpoint, links that go down, come back or are deleted. Tests
// in the packages of the devices use it; nothing else does.
//
// # Map
//
//	owns       tests that all frame devices pass
//	called by  tests of the devices
//	never      a device is exempt without a reason
package rawtest
