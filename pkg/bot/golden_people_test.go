package bot_test

import "github.com/meshctl/meshctl/pkg/bot/texts"

// said are the texts of a language.
func said(lang string) *texts.Texts { return texts.Load().For(lang) }
