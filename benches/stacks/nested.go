// Calls through an interface in a goroutine, for the seconds in the second argument.
package main

import (
	"os"
	"sort"
	"strconv"
	"time"
)

type shape interface{ area(n int) int }
type square struct{ side int }

//go:noinline
func leaf(n int) (sum int) {
	for i := 0; i < 20000; i++ {
		sum += i*n ^ i
	}
	return
}

//go:noinline
func (s square) area(n int) int { return leaf(s.side+n) + 1 }

//go:noinline
func outer(s shape) int {
	all := make([]int, 64)
	sort.Slice(all, func(a, b int) bool { return s.area(a) < s.area(b) })
	return all[0] + 1
}

func main() {
	seconds, _ := strconv.Atoi(os.Args[2])
	done := make(chan bool)
	go func() {
		for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); {
			outer(square{3})
		}
		done <- true
	}()
	<-done
}
