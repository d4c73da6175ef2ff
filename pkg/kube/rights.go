package kube

// Right is one thing that management does in a namespace. Resource is as Kubernetes
// writes it, with a subresource after a slash.
type Right struct{ Group, Resource, Verb string }

// Rights are all that RBAC gives in the namespace.
func Rights() []Right {
	var out []Right
	for _, r := range rights {
		for _, resource := range r.resources {
			for _, verb := range r.verbs {
				out = append(out, Right{r.group, resource, verb})
			}
		}
	}
	return out
}
