// An organization's REST API: its address, the requests to it, and whether it responds.
import { ask, button, call, facts, field, filters, form, h, lock, may, number, of, problemBox, record, refill, quoted, section, toast } from './ui.js'

const PLAIN = { asWritten: new Set() }
const MEMBERS = [
	['timeout_seconds', 'Time limit, seconds', 'whole', 'Empty: the default.'], ['max_concurrency', 'Requests at a time', 'whole'], ['requests_per_second', 'Requests per second', 'whole', 'From all gateways together. Empty: any number.'],
	['id_pointer', 'Pointer to the id in responses', 'text', 'A JSON Pointer, /id unless set.'], ['erase_endpoint', 'Erase endpoint', 'text', 'A path for notifications of erased users. Empty: no notification.'],
	['send_weak_etags', 'Sends weak ETags in If-Match', 'flag', 'Only if the upstream accepts them: RFC 9110 requires servers to reject them.'],
	['headers', 'Headers of every request', 'pairs', 'One per line: name, a space, value.'], ['allowed_headers', 'Headers that phones may set', 'lines', 'One name per line.'],
]

export async function upstream(view, place, it) {
	const base = of(it.id, 'upstream')
	const now = await view.get(base, PLAIN).catch(problem => {
		if (problem.status === 404) return null
		throw problem
	})
	const kind = !now || now.credential === 'signed' ? 'signed' : now.credential?.bearer ? 'bearer' : now.credential?.header ? 'header' : 'none'
	const url = field({ label: 'Base URL', api: 'base_url', pointer: '/base_url', value: now?.base_url, type: 'url', placeholder: 'https://api.example.com/v1' })
	const credential = field({
		label: 'Credential', api: 'credential', type: 'select', pointer: '/credential', value: kind,
		options: [['signed', 'a JWT that the gateway signs for each request'], ['bearer', 'a bearer token'], ['header', 'a custom header'], ['none', 'none']],
	})
	const header = field({ label: 'Header’s name', value: now?.credential?.header ?? 'X-Api-Key' })
	const secret = field({ label: 'Secret', type: 'password', autocomplete: 'new-password', hint: 'Never shown. Empty: keep the current one.' })
	const rest = record(MEMBERS, now)
	const toggle = () => { header.element.hidden = credential.value !== 'header'; secret.element.hidden = !['bearer', 'header'].includes(credential.value) }
	credential.input.addEventListener('change', toggle)
	toggle()
	const credentialValue = () => {
		if (credential.value === 'none') return { credential: null }
		if (credential.value === 'signed') return { credential: 'signed' }
		if (!secret.value && credential.value === kind && (kind === 'bearer' || header.value === now?.credential?.header)) return {}
		return { credential: credential.value === 'bearer' ? { bearer: secret.value } : { header: header.value.trim(), value: secret.value } }
	}
	const settings = h('div', form({
		label: 'Upstream', submit: 'Save', fields: [url, credential, header, secret, ...rest.fields], reason: may('admin'),
		act: reason => call('PUT', base, { base_url: url.value.trim(), ...credentialValue(), ...rest.read() }, { reason, ...PLAIN }),
		done: () => { toast('Saved. Use a probe to check whether it responds.'); view.go(location.pathname) },
	}))
	lock(settings)
	if (!now) place.append(h('p.hint', 'No upstream: every type uses the built-in store.'))
	else if (may('admin')) place.append(probe(view, of(it.id, 'upstream', 'test')))
	if (now) place.append(section('State', facts([
		['Status', now.status !== 'paused' ? 'active' : now.paused_until ? `paused until ${now.paused_until}` : 'paused until it is resumed'],
		['Batches', now.batch ? h('span', h('code.wrap', quoted(now.batch.path, 400)), ` up to ${number(now.batch.max_requests)} requests`) : 'none'],
		['Outcome rules', now.outcomes.length ? h('pre.json', { tabindex: '0', role: 'group', 'aria-label': 'Outcome rules' }, quoted(JSON.stringify(now.outcomes, null, 2), 8_000)) : 'none'],
	])))
	place.append(section('Settings', settings))
	if (now && may('admin')) place.append(h('div.actions', button(now.status === 'paused' ? 'Resume…' : 'Pause…', () => pause(view, base, now), now.status === 'paused' ? 'primary' : ''), button('Take the upstream away…', () => ask({
		title: 'Take the upstream away', submit: 'Take it away', danger: true, reason: 'required',
		text: 'Mutations of forwarded types wait until an upstream is set.', does: () => ['DELETE', base], then: () => view.go(location.pathname),
	}), 'danger')))
}

function pause(view, base, now) {
	const isPaused = now.status === 'paused'
	return ask({
		title: isPaused ? 'Resume the upstream' : 'Pause the upstream', submit: isPaused ? 'Resume' : 'Pause', reason: 'required',
		text: isPaused ? 'Waiting mutations are sent within half a minute.' : 'Nothing is sent to it until it is resumed. Pushes are accepted, and requests in flight end.',
		does: () => ['PUT', base, { status: isPaused ? 'active' : 'paused' }], then: () => view.go(location.pathname),
	})
}

const CREDENTIAL = 'The upstream is reachable, but rejects the credential.'
const MEANS = {
	401: CREDENTIAL, 403: CREDENTIAL, 407: 'A proxy rejects the gateway.',
	404: 'The upstream is reachable, but has no resource at this path.', 405: 'The upstream is reachable, but does not support this method here.',
	429: 'The upstream is reachable, but limits the rate of requests.',
}

// A 4xx response shows that the upstream is reachable. It is a problem only if the upstream refuses the credential, or
// if a proxy refuses the gateway.
const judge = status => status >= 200 && status < 400 ? 'good' : MEANS[status] === CREDENTIAL || !(status >= 400 && status < 500) || status === 407 ? 'bad' : ''

function probe(view, address) {
	const method = field({ label: 'Method', name: 'method', type: 'select', options: [['GET'], ['HEAD'], ['OPTIONS'], ['batch', 'a batch of GET']] })
	const target = field({ label: 'Path', name: 'path', value: '/', pointer: '/path' })
	const result = h('div', { 'aria-live': 'polite' })
	return section('Probe', h('p.hint', 'Sends a request with the organization’s credential and the rules of forwarding. Does not affect the circuit breaker.'),
		filters(view, [method, target], 'Send a probe', async values => {
			refill(result, h('p.loading', 'Asking…'))
			try {
				const body = values.method === 'batch' ? { path: values.path, batch: true } : values
				const it = await call('POST', address, body, { signal: view.signal, ...PLAIN })
				refill(result, h('div', { class: `verdict ${judge(it.status)}` },
					h('p.strong', it.status ? `Response ${it.status} in ${number(it.duration_ms)} ms` : 'No response'),
					it.batch ? h('p', quoted(it.batch.detail, 400)) : MEANS[it.status] && h('p', MEANS[it.status]), it.error && h('p', quoted(it.error, 400)),
					it.outcome_rule && h('p', 'For a mutation, the rule ', h('code.wrap', quoted(it.outcome_rule, 200)), ` would decide: ${it.outcome}.`)),
				facts([['Asked', h('code.wrap', `${it.sent?.method} `, quoted(it.sent?.url, 400))], ...Object.entries(it.headers ?? {})]),
				it.body_excerpt && h('pre.json', { tabindex: '0', role: 'group', 'aria-label': 'Beginning of the response' }, quoted(it.body_excerpt, 2_100)))
			} catch (problem) {
				refill(result, problemBox(problem))
			}
		}), result)
}
