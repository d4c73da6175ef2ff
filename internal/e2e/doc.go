// Package e2e tests meshctl from outside: the built binary as real processes on
// loopback, killed, frozen, misconfigured and lied to. Everything in it is a
// test; what a test learns it learns as an operator, a client or an attacker
// would.
//
//	main_test.go   builds the binary once, and fails when a process of it is left
//	run_test.go    one command: its output, exit code and error lines
//	mesh_test.go   a whole mesh, of a test's own or shared by those that disturb nothing
//	client_test.go clients of a device, and destinations for them
package e2e
