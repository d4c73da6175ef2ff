package subscription

import "github.com/meshctl/meshctl/pkg/mesh"

// builtIn are the rules for the apps that are known, the first match counts.
// Links suit every app of the V2Ray family, and need no rule.
func builtIn() []mesh.AgentRule {
	return []mesh.AgentRule{
		// These name other cores too ("like ClashMeta v2ray sing-box"), and take
		// nothing but the outbounds of a configuration.
		{Match: "hiddify", Format: string(FormatSingBoxOutbounds)},
		{Match: "karing", Format: string(FormatSingBoxOutbounds)},

		// The graphical clients of sing-box: Android, iOS, macOS, tvOS.
		{Match: "SFA", Below: "1.12", Format: string(FormatSingBoxOld)},
		{Match: "SFI", Below: "1.12", Format: string(FormatSingBoxOld)},
		{Match: "SFM", Below: "1.12", Format: string(FormatSingBoxOld)},
		{Match: "SFT", Below: "1.12", Format: string(FormatSingBoxOld)},
		{Match: "SFA", Format: string(FormatSingBox)},
		{Match: "SFI", Format: string(FormatSingBox)},
		{Match: "SFM", Format: string(FormatSingBox)},
		{Match: "SFT", Format: string(FormatSingBox)},

		{Match: "flclash", Format: string(FormatClash)},
		{Match: "stash", Format: string(FormatClash)},
		// Clash before its successor: neither VLESS nor an authority of our own.
		{Match: "ClashForWindows", Format: string(FormatClashOld)},
		{Match: "ClashForAndroid", Format: string(FormatClashOld)},
		{Match: "ClashX Pro", Format: string(FormatClashOld)},
		{Match: "ClashX", From: "1", Format: string(FormatClashOld)}, // not "ClashX Meta"
		{Match: "clash", Format: string(FormatClash)},
		{Match: "mihomo", Format: string(FormatClash)},

		// Cores by themselves, in lists of which the names of apps are not part:
		// a version follows at once.
		{Match: "sing-box", Below: "1.12", Format: string(FormatSingBoxOldLocal)},
		{Match: "sing-box", Format: string(FormatSingBoxLocal)},
		{Match: "xray", From: "1", Format: string(FormatXray)},
		{Match: "v2ray", From: "1", Format: string(FormatV2Ray)},

		{Match: "curl", From: "1", Format: string(FormatCurl)},
	}
}

// BuiltIn are the rules that come after the operator's own.
func BuiltIn() []mesh.AgentRule { return builtIn() }
