package backup

import (
	"slices"
	"strings"

	"github.com/meshctl/meshctl/pkg/mesh"
)

// members says what may be seen of the objects of a folder. Nested members are
// named with dots. What is not named, members of later versions among it, is
// secret: it is written for recipients alone, whatever the settings.
type members struct {
	kind     string // what one object is called
	public   string // ids, states, times, limits: anybody who reads the repository
	personal string // names, addresses, reasons: recipients, or anybody when so set
}

var folders = map[string]members{
	"acme": {
		kind:   "acme",
		public: "agreed allowMissingCaa dns.kind",
		personal: "directory roots contact external " +
			"dns.server dns.zone dns.keyName dns.algorithm dns.resolvers",
	},
	"admins": {
		kind:     "admin",
		public:   "id role suspended revoked banned created",
		personal: "name",
	},
	"auditchain": {
		kind:   "audit segment",
		public: "id first through count records sum sealed",
	},
	"backup": {
		kind: "backup settings",
		public: "every heartbeat proveEvery totalsEvery plaintextObjects run verify " +
			"copies.every copies.keep",
		personal: "recipients remotes verifyRecipient signPublic copies.dir",
	},
	"ca": {
		kind:   "ca",
		public: "created",
	},
	"cellcerts": {
		kind:     "cell certificate",
		public:   "core cell order.asked order.by order.issued order.notAfter order.failures order.failed order.next",
		personal: "suffix order.request order.chain order.reason",
	},
	"cells": {
		kind:     "cell",
		public:   "id state fallback certificate order offers guests.devices guests.connections guests.traffic forwardClientAddress compromised earlier created",
		personal: "name suffix caCert",
	},
	"certs": {
		kind:   "cert",
		public: "serial node keyHash issuer issued notBefore notAfter token replaces",
	},
	"config": {
		kind: "config",
		public: "certLife.node certLife.admin certLife.mgmt renewGrace staleIfError epoch " +
			"subscription.certificate subscription.updateInterval labels.every labels.overlap " +
			"bot.noSecrets bot.noGuests bot.deviceLimit " +
			"restored.at restored.backup restored.epoch restored.collect restored.collected",
		personal: "allowedAddresses mgmtAddresses entryAddresses epochProof subscription.name subscription.title " +
			"subscription.supportUrl subscription.pageUrl subscription.announce subscription.agents " +
			"alerts.rules alerts.mutes",
	},
	"cores": {
		kind:     "core",
		public:   "id member cell drain revoked banned state everReady version joined egress.kind",
		personal: "name reason addresses egress.forward egress.allow",
	},
	"devices": {
		kind: "device",
		public: "id member state created assigned.cell assigned.core earlier " +
			"limits.connections limits.traffic limits.expires subscription.created trafficReset.at",
		personal: "name labels hiddenLabel trafficReset.used",
	},
	"entries": {
		kind:     "entry",
		public:   "id revoked banned version joined pod.cluster pod.uid pod.gone",
		personal: "name pod.namespace pod.name pod.node",
	},
	"hooks": {
		kind:     "webhook",
		public:   "name events severity created",
		personal: "host",
	},
	"kubes": {
		kind: "kube",
		public: "id auth ends added wanted.number wanted.pods wanted.made wanted.by wanted.why wanted.failed " +
			"paused removing removals namespaceUID",
		personal: "name server ca serverName namespace earlier " +
			"wanted.layer",
	},
	"members": {
		kind:     "member",
		public:   "id state created deviceLimit",
		personal: "name note",
	},
	"revocations": {
		kind: "revocation",
		public: "record.id record.node record.serial record.issuedBefore record.mayRejoin " +
			"record.at record.by record.until",
		personal: "record.reason payload signature signer",
	},
	"rollouts": {
		kind: "rollout",
		public: "group running.revision trial.revision parked.revision canary since tried " +
			"running.offers trial.offers parked.offers",
		personal: "reason " +
			"running.suffixes running.staleIfError running.cell running.cellSuffix running.cellCertificate running.meshAddresses " +
			"trial.suffixes trial.staleIfError trial.cell trial.cellSuffix trial.cellCertificate trial.meshAddresses " +
			"parked.suffixes parked.staleIfError parked.cell parked.cellSuffix parked.cellCertificate parked.meshAddresses",
	},
	"servers": {
		kind:     "server",
		public:   "id member state joined",
		personal: "name addresses peer gossip",
	},
	"subcert": {
		kind:     "subscription certificate",
		public:   "order.asked order.by order.issued order.notAfter order.failures order.failed order.next",
		personal: "name order.request order.chain order.reason",
	},
	"telegram": {
		kind:     "telegram user",
		public:   "id admin member state created",
		personal: "telegram name language",
	},
	"tokens": {
		kind:     "token",
		public:   "id role member cell grant created by expires revoked used.node used.at",
		personal: "name used.from used.keyHash",
	},
	"totals": {
		kind:     "totals",
		personal: "devices cores",
	},
}

func known(folder string) bool { _, ok := folders[folder]; return ok }

// KindOf is what one object of a folder is called: "device" for "devices".
func KindOf(folder string) string {
	if f, ok := folders[folder]; ok {
		return f.kind
	}
	return folder
}

// A rule says who may see a member; with members of its own, who may see those.
type rule struct {
	public, personal bool
	members          map[string]*rule
}

// rules are those of all folders. Nothing changes them.
var rules = func() map[string]*rule {
	out := make(map[string]*rule)
	for folder, f := range folders {
		top := &rule{members: make(map[string]*rule)}
		for _, header := range []string{memberSchema, memberMinReader} {
			top.at(header).public = true
		}
		for path := range strings.FieldsSeq(f.public) {
			top.at(path).public = true
		}
		for path := range strings.FieldsSeq(f.personal) {
			top.at(path).personal = true
		}
		out[folder] = top
	}
	return out
}()

func (r *rule) at(path string) *rule {
	for name := range strings.SplitSeq(path, ".") {
		if r.members == nil {
			r.members = make(map[string]*rule)
		}
		next, ok := r.members[name]
		if !ok {
			next = new(rule)
			r.members[name] = next
		}
		r = next
	}
	return r
}

// ruleOf is the rule of a folder. Of a folder that this version does not know
// only the header may be seen.
func ruleOf(folder string) *rule {
	if r, ok := rules[folder]; ok {
		return r
	}
	return &rule{members: map[string]*rule{memberSchema: {public: true}, memberMinReader: {public: true}}}
}

// split parts an object into what anybody may see and the rest.
func (r *rule) split(object map[string]any, plaintext bool) (open, closed map[string]any) {
	open, closed = make(map[string]any), make(map[string]any)
	for k, v := range object {
		m := r.members[k]
		nested, isObject := v.(map[string]any)
		switch {
		case m == nil:
			closed[k] = v
		case m.members != nil && isObject && len(nested) > 0:
			o, c := m.split(nested, plaintext)
			if len(o) > 0 {
				open[k] = o
			}
			if len(c) > 0 {
				closed[k] = c
			}
		case m.members != nil && isObject,
			m.public && isFlat(v) && !hasSealed(v),
			m.personal && plaintext && !hasSealed(v):
			open[k] = v
		default:
			closed[k] = v
		}
	}
	return open, closed
}

// isFlat: a member that became an object since may hold anything.
func isFlat(v any) bool {
	switch t := v.(type) {
	case map[string]any:
		return false
	case []any:
		for _, e := range t {
			switch e.(type) {
			case map[string]any, []any:
				return false
			}
		}
	}
	return true
}

func hasSealed(v any) bool {
	switch t := v.(type) {
	case string:
		return strings.Contains(t, mesh.SealedPrefix)
	case []any:
		if slices.ContainsFunc(t, hasSealed) {
			return true
		}
	case map[string]any:
		for k, e := range t {
			if strings.Contains(k, mesh.SealedPrefix) || hasSealed(e) {
				return true
			}
		}
	}
	return false
}

// merge puts the two parts together again. It returns the name of a member that
// both have, or "".
func merge(open, closed map[string]any) (both string) {
	for k, v := range closed {
		have, ok := open[k]
		if !ok {
			open[k] = v
			continue
		}
		o, ok1 := have.(map[string]any)
		c, ok2 := v.(map[string]any)
		if !ok1 || !ok2 {
			return k
		}
		if b := merge(o, c); b != "" {
			return k + "." + b
		}
	}
	return ""
}
