package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// allowed are the licences that may be linked. Those of MPL-2.0 bind their own
// files only, whose source is published under the module's path.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unlicense"}

// marks are words that are in the text of one licence and of no other one.
var marks = []struct{ spdx, words string }{
	{"MPL-2.0", "mozilla public license version 2.0"},
	{"Apache-2.0", "apache license version 2.0"},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"ISC", "permission to use, copy, modify, and/or distribute this software for any purpose"},
	{"ISC", "permission to use, copy, modify, and distribute this software for any purpose"},
	{"Unlicense", "this is free and unencumbered software released into the public domain"},
}

// detect names the licences in a text as SPDX does; none when it knows none of
// them. One file may hold several.
func detect(text string) []string {
	t := normal(text)
	var out []string
	for _, m := range marks {
		if strings.Contains(t, m.words) {
			out = append(out, m.spdx)
		}
	}
	out = append(out, bsd(t)...)
	if !slices.Contains(out, "MPL-2.0") { // which names these as secondary licences
		out = append(out, gnu(t)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// normal makes line breaks, indentation and punctuation of headings alike.
func normal(text string) string {
	t := strings.Join(strings.Fields(strings.ToLower(text)), " ")
	return strings.NewReplacer("license, version", "license version", "license, v. 2.0", "license version 2.0", "license v2.0", "license version 2.0").Replace(t)
}

func bsd(t string) []string {
	switch {
	case !strings.Contains(t, "redistribution and use in source and binary forms"):
		return nil
	case strings.Contains(t, "endorse or promote products"):
		return []string{"BSD-3-Clause"}
	}
	return []string{"BSD-2-Clause"}
}

// gnu names what must not be linked; the version does not matter.
func gnu(t string) []string {
	var out []string
	for _, m := range []struct{ spdx, words string }{
		{"AGPL", "affero general public license"},
		{"LGPL", "lesser general public license"},
		{"LGPL", "library general public license"},
		{"GPL", "gnu general public license"},
		{"SSPL", "server side public license"},
		{"BUSL", "business source license"},
	} {
		if strings.Contains(t, m.words) {
			out = append(out, m.spdx)
		}
	}
	return out
}

// judge refuses a module without a licence, with an unknown one, and with one
// that is not allowed: all of them at once.
func judge(modules []*module) error {
	var errs []error
	for _, m := range modules {
		if len(m.licences) == 0 {
			errs = append(errs, fmt.Errorf("%s %s: no licence file", m.path, m.version))
		}
		for _, d := range m.licences {
			found := detect(d.text)
			if len(found) == 0 {
				errs = append(errs, fmt.Errorf("%s %s: %s: unknown licence; read it, and teach internal/licenses if it may be linked", m.path, m.version, d.name))
			}
			for _, l := range found {
				if !slices.Contains(allowed, l) {
					errs = append(errs, fmt.Errorf("%s %s: %s: %s may not be linked", m.path, m.version, d.name, l))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// spdx is the expression for all licences of a module.
func (m *module) spdx() string {
	var all []string
	for _, d := range m.licences {
		all = append(all, detect(d.text)...)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " AND ")
}
