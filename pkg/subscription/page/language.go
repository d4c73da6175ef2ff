package page

import (
	"embed"
	"encoding/json"
	"fmt"

	"golang.org/x/text/language"
)

//go:embed messages/*.json
var catalogues embed.FS

// languages there are, the one for whoever reads none of them first.
var languages = []language.Tag{language.English, language.Russian}

var matcher = language.NewMatcher(languages)

// catalogue is the texts of one language by their names.
type catalogue map[string]string

var texts = func() map[language.Tag]catalogue {
	out := map[language.Tag]catalogue{}
	for _, tag := range languages {
		b, err := catalogues.ReadFile("messages/" + tag.String() + ".json")
		var c catalogue
		if err == nil {
			err = json.Unmarshal(b, &c)
		}
		if err != nil {
			panic(fmt.Sprintf("page: texts in %s: %v", tag, err)) // they are part of the program
		}
		out[tag] = c
	}
	return out
}()

// maxAccept is how much of Accept-Language is read.
const maxAccept = 256

// choose takes the language asked for by name, else the one that accept (RFC
// 9110, 12.5.4) prefers.
func choose(name, accept string) language.Tag {
	for _, tag := range languages {
		if tag.String() == name {
			return tag
		}
	}
	wanted, _, err := language.ParseAcceptLanguage(accept[:min(len(accept), maxAccept)])
	if err != nil {
		return languages[0]
	}
	_, i, _ := matcher.Match(wanted...)
	return languages[i]
}
