package schema

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
)

// items compiles what is said of a list's items. Up to 2019-09 a list of
// schemas stands in items and the rest in additionalItems; since 2020-12 in
// prefixItems and items.
func (k *keyword) items() error {
	first, rest := "prefixItems", "items"
	if k.draft < 2020 {
		if _, ok := k.siblings["items"].([]any); ok {
			first, rest = "items", "additionalItems"
		} else {
			first = "" // one schema for all
		}
	}
	switch k.name {
	case first:
		nodes, err := k.list()
		if err != nil {
			return err
		}
		on(k, func(c *check, v []any, at *place) {
			for i := range min(len(nodes), len(v)) {
				nodes[i].check(c, v[i], at.item(i))
			}
		})
	case rest:
		n, err := k.schema(k.value, k.pointer)
		if err != nil {
			return err
		}
		before, _ := k.siblings[first].([]any)
		on(k, func(c *check, v []any, at *place) {
			for i := len(before); i < len(v); i++ {
				n.check(c, v[i], at.item(i))
			}
		})
	}
	return nil
}

func (k *keyword) contains() error {
	n, err := k.schema(k.value, k.pointer)
	if err != nil {
		return err
	}
	least, most := 1, -1
	if v, ok := k.siblings["minContains"]; ok && k.draft >= 2019 {
		if least, err = k.count(v); err != nil {
			return err
		}
	}
	if v, ok := k.siblings["maxContains"]; ok && k.draft >= 2019 {
		if most, err = k.count(v); err != nil {
			return err
		}
	}
	on(k, func(c *check, v []any, at *place) {
		found := 0
		for i := range v {
			if len(c.try(n, v[i], at.item(i))) == 0 {
				found++
			}
		}
		switch {
		case found < least:
			c.problem(at, "%d items are what `contains` asks for, want at least %d", found, least)
		case most >= 0 && found > most:
			c.problem(at, "%d items are what `contains` asks for, want at most %d", found, most)
		}
	})
	return nil
}

func (k *keyword) uniqueItems() error {
	unique, ok := k.value.(bool)
	if !ok {
		return k.errorf("expected true or false, got %s", typeOf(k.value))
	}
	if !unique {
		return nil
	}
	on(k, func(c *check, v []any, at *place) {
		seen := make(map[string]int, len(v))
		for i := range v {
			form := string(canonical(nil, v[i]))
			c.compared(len(form))
			if first, ok := seen[form]; ok {
				c.problem(at, "items %d and %d are equal, want each once", first, i)
				return
			}
			seen[form] = i
		}
	})
	return nil
}

func (k *keyword) properties() error {
	if k.name == "additionalProperties" {
		return k.additionalProperties()
	}
	nodes, err := k.schemas()
	if err != nil {
		return err
	}
	if k.name == "properties" {
		names := slices.Sorted(maps.Keys(nodes))
		on(k, func(c *check, v map[string]any, at *place) {
			for _, name := range names {
				if item, ok := v[name]; ok {
					nodes[name].check(c, item, at.property(name))
				}
			}
		})
		return nil
	}
	for _, text := range slices.Sorted(maps.Keys(nodes)) {
		re, err := regexp.Compile(text)
		if err != nil {
			return k.errorf("%v", err)
		}
		n := nodes[text]
		on(k, func(c *check, v map[string]any, at *place) {
			for _, name := range slices.Sorted(maps.Keys(v)) {
				c.compared(len(name))
				if re.MatchString(name) {
					n.check(c, v[name], at.property(name))
				}
			}
		})
	}
	return nil
}

func (k *keyword) additionalProperties() error {
	n, err := k.schema(k.value, k.pointer)
	if err != nil {
		return err
	}
	listed, _ := k.siblings["properties"].(map[string]any)
	var patterns []*regexp.Regexp
	byPattern, _ := k.siblings["patternProperties"].(map[string]any)
	for text := range byPattern {
		re, err := regexp.Compile(text)
		if err != nil {
			return nil // patternProperties says so
		}
		patterns = append(patterns, re)
	}
	forbidden := k.value == false
	on(k, func(c *check, v map[string]any, at *place) {
		for _, name := range slices.Sorted(maps.Keys(v)) {
			c.compared(len(name))
			if _, ok := listed[name]; ok || slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return re.MatchString(name) }) {
				continue
			}
			if forbidden {
				c.problem(at, "additional property %s is not allowed", quote(name))
			} else {
				n.check(c, v[name], at.property(name))
			}
		}
	})
	return nil
}

func (k *keyword) dependencies() error {
	object, ok := k.value.(map[string]any)
	if !ok {
		return k.errorf("expected an object, got %s", typeOf(k.value))
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if _, isList := object[name].([]any); isList && k.name != "dependentSchemas" || k.name == "dependentRequired" {
			names, err := k.names(object[name])
			if err != nil {
				return err
			}
			on(k, func(c *check, v map[string]any, at *place) {
				if _, ok := v[name]; ok {
					c.required(v, names, at)
				}
			})
			continue
		}
		n, err := k.schema(object[name], k.pointer+"/"+escape(name))
		if err != nil {
			return err
		}
		k.inPlace(n)
		on(k, func(c *check, v map[string]any, at *place) {
			if _, ok := v[name]; ok {
				n.check(c, v, at)
			}
		})
	}
	return nil
}

// size compiles the bounds of a length.
func (k *keyword) size() error {
	bound, err := k.count(k.value)
	if err != nil {
		return err
	}
	least := k.name[:3] == "min"
	words := map[bool]string{true: "at least ", false: "at most "}[least] + strconv.Itoa(bound)
	bounded := func(c *check, n int, unit string, at *place) {
		if least && n < bound || !least && n > bound {
			c.problem(at, "got %d %s, want %s", n, unit, words)
		}
	}
	switch k.name[3:] {
	case "Length":
		on(k, func(c *check, v string, at *place) {
			c.compared(len(v))
			bounded(c, len([]rune(v)), "characters", at)
		})
	case "Items":
		on(k, func(c *check, v []any, at *place) { bounded(c, len(v), "items", at) })
	case "Properties":
		on(k, func(c *check, v map[string]any, at *place) { bounded(c, len(v), "properties", at) })
	}
	return nil
}
