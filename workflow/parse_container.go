package workflow

// container checks GitHub's `container` of a job, which is not supported.
func (p *fileParser) container(job *Job, e Entry) {
	p.errorf(e.Key, "unsupported", "say `docker: {image: …}` in its place", "`container` is not supported")
	p.image(job, e, "container")
}

// services checks GitHub's `services` of a job, which are not supported.
func (p *fileParser) services(job *Job, e Entry) {
	p.errorf(e.Key, "unsupported", "start what is needed in a step of the job", "`services` are not supported")
	if e.Value.isExpression() {
		return
	}
	p.inside(e, func(s Entry) { p.image(job, s, "service") })
}

// image reads the description of a container: an image, or a mapping with one.
func (p *fileParser) image(job *Job, e Entry, name string) {
	if p.empty(e) {
		return
	}
	v := p.prepare(e.Value)
	if v.Kind == Scalar {
		job.inert = append(job.inert, inert{"container", p.filled(e)})
		return
	}
	p.inside(e, func(k Entry) {
		place := "container"
		switch k.Key.Text {
		case "image":
			p.filled(k)
		case "options":
			p.text(k)
		case "entrypoint", "command":
			if name != "service" {
				p.unknown(k.Key, name)
				return
			}
			p.text(k)
		case "env":
			place = "container.env"
			p.environment(k)
		case "ports", "volumes":
			if !k.Value.isExpression() && k.Value.Kind != Sequence {
				p.errorf(k.Value, "type", "write a list", "`%s` must be a list, found %s", k.Key.Text, describe(k.Value))
				return
			}
			for _, item := range k.Value.Items {
				if item.Kind != Scalar || item.Text == "" {
					p.errorf(item, "type", "", "an entry of `%s` must be a text, found %s", k.Key.Text, describe(item))
				}
			}
		case "credentials":
			place = "container.credentials"
			p.credentials(k)
		default:
			p.unknown(k.Key, name)
			return
		}
		job.inert = append(job.inert, inert{place, k.Value})
	})
	if v.Kind == Mapping {
		p.requireKey(e.Key, v, "image", "`"+e.Key.Text+"`")
	}
}

func (p *fileParser) credentials(e Entry) {
	if e.Value.isExpression() {
		return
	}
	p.inside(e, func(k Entry) {
		if k.Key.Text != "username" && k.Key.Text != "password" {
			p.unknown(k.Key, "credentials")
			return
		}
		p.filled(k)
	})
}
