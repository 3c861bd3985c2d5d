package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

func main() {
	cases, _ := os.Open(os.Args[1])
	for lines := bufio.NewScanner(cases); lines.Scan(); {
		parts := strings.Split(lines.Text(), "\t")
		body, _ := os.ReadFile(parts[0])
		fmt.Println(isFromKeyhook(body, parts[1], parts[2:]...))
	}
}
