package workflow

import (
	"sort"
	"strconv"
	"strings"
)

// didYouMean is a hint that names the candidate nearest to name; empty where
// none is near.
func didYouMean(name string, candidates []string) string {
	best, bestDistance := "", 3
	switch n := len([]rune(name)); {
	case n <= 1:
		bestDistance = 1
	case n <= 4:
		bestDistance = 2
	}
	sorted := append([]string(nil), candidates...)
	sort.Strings(sorted)
	lower := strings.ToLower(name)
	for _, c := range sorted {
		if d := distance(lower, strings.ToLower(c), bestDistance); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean " + strconv.Quote(best) + "?"
}

// Suggest is a hint for a name that is none of the candidates: the nearest, if
// any is near, and all of them.
func Suggest(name string, candidates []string) string { return suggest(name, candidates) }

// suggest is a hint with the nearest candidate, if any, and all of them.
func suggest(name string, candidates []string) string {
	const most = 40
	listed := candidates
	more := ""
	if len(listed) > most {
		listed, more = listed[:most], " …"
	}
	all := "one of: " + strings.Join(listed, ", ") + more
	if len(candidates) == 0 {
		all = ""
	}
	if hint := didYouMean(name, candidates); hint != "" {
		return strings.TrimSuffix(hint+" "+all, " ")
	}
	return all
}

// distance is the number of edits between a and b, a swap of neighbours being
// one; it gives limit where there are as many or more.
func distance(a, b string, limit int) int {
	x, y := []rune(a), []rune(b)
	if abs(len(x)-len(y)) >= limit || len(x) > 64 || len(y) > 64 {
		return limit
	}
	before, prev, cur := make([]int, len(y)+1), make([]int, len(y)+1), make([]int, len(y)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(x); i++ {
		cur[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return min(prev[len(y)], limit)
}

func abs(n int) int { return max(n, -n) }
