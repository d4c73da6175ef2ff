package main

import (
	"slices"
	"strings"
	"testing"
)

const (
	mit    = "The MIT License\n\nPermission is hereby granted, free of charge,\nto any person obtaining a copy of this software"
	apache = "Apache License\n   Version 2.0, January 2004"
	bsd2   = "Redistribution and use in source and binary forms, with or without modification, are permitted"
	bsd3   = bsd2 + "\nNeither the name of it may be used to endorse or promote\nproducts derived from this software"
	mpl    = "Mozilla Public License, version 2.0\n\"Secondary License\" means the GNU General Public License, Version 2.0"
)

func TestLicencesAreKnownByTheirWords(t *testing.T) {
	for _, c := range []struct {
		what, text string
		want       []string
	}{
		{"MIT", mit, []string{"MIT"}},
		{"Apache", apache, []string{"Apache-2.0"}},
		{"BSD of two clauses", bsd2, []string{"BSD-2-Clause"}},
		{"BSD of three clauses", bsd3, []string{"BSD-3-Clause"}},
		{"MPL, which names the GPL", mpl, []string{"MPL-2.0"}},
		{"two in one file", mit + "\n" + apache, []string{"Apache-2.0", "MIT"}},
		{"GPL", "GNU GENERAL PUBLIC LICENSE\nVersion 3", []string{"GPL"}},
		{"AGPL", "GNU AFFERO GENERAL PUBLIC LICENSE", []string{"AGPL"}},
		{"a choice with the GPL", mit + "\nor the GNU General Public License", []string{"GPL", "MIT"}},
		{"something else", "All rights reserved.", nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			if got := detect(c.text); !slices.Equal(got, c.want) {
				t.Errorf("found %v, want %v", got, c.want)
			}
		})
	}
}

func TestWhatMayNotBeLinkedIsNamed(t *testing.T) {
	err := judge([]*module{
		{path: "good.example", licences: []document{{"LICENSE", mit}}},
		{path: "gnu.example", licences: []document{{"COPYING", "GNU Affero General Public License"}}},
		{path: "none.example"},
		{path: "odd.example", licences: []document{{"sub/LICENSE", "Ask me."}}},
	})
	for _, want := range []string{"gnu.example : COPYING: AGPL may not be linked", "none.example : no licence file", "odd.example : sub/LICENSE: unknown licence"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "good.example") {
		t.Errorf("a good module is refused: %v", err)
	}
}

func TestEqualTextsAreWrittenOnce(t *testing.T) {
	page := string(render([]*module{
		{path: "a.example", version: "v1.0.0", licences: []document{{"LICENSE", mit + "\n"}}, notices: []document{{"NOTICE", "A notice."}}},
		{path: "b.example", version: "v2.0.0", licences: []document{{"LICENSE", mit + "  \n\n"}, {"x/LICENSE", apache}}},
	}))
	for _, want := range []string{"| b.example | v2.0.0 | Apache-2.0 AND MIT |", "\na.example, b.example:\n", "\nb.example/x/LICENSE:\n", "A notice."} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in:\n%s", want, page)
		}
	}
	if strings.Count(page, "free of charge") != 1 {
		t.Error("a text is there twice")
	}
}
