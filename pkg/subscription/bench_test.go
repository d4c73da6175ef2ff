package subscription

import "testing"

func BenchmarkRender(b *testing.B) {
	p := everything(b)
	for _, f := range []Format{FormatBase64, FormatClash, FormatSingBox, FormatXray, FormatXrayList, FormatPAC} {
		b.Run(string(f), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Render(f, p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkChoose(b *testing.B) {
	for b.Loop() {
		Rules{}.Choose("HiddifyNext/2.5.7 (android) like ClashMeta v2ray sing-box", "*/*", "")
		Rules{}.Choose("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/131.0.0.0 Safari/537.36", "text/html", "")
	}
}
