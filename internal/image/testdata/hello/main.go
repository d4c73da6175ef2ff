// Command hello is small enough to be built in a test.
package main

func main() { println("hello") }
