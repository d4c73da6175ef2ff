// Package kubetest is an API of Kubernetes in the process of a test: real HTTP over
// TLS, and server-side apply by the library that the real one uses. It knows the kinds
// that an entry layer has. What happens between objects is made by the test, or by
// Server.Roll.
package kubetest
