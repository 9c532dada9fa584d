// Calls of `/admin`, and their responses.
import { parse } from './json.js'
import { setClock } from './dom.js'

// A refusal of the gateway, or a failed connection: an RFC 9457 problem as an error.
export class Problem extends Error {
	constructor(status, body, requestId) {
		super(body.detail || body.title || `The gateway answered ${status}`)
		Object.assign(this, { status, title: body.title ?? `Status ${status}`, detail: body.detail ?? '', code: body.code ?? '',
			errors: Array.isArray(body.errors) ? body.errors : [], requestId: body.request_id ?? requestId ?? '' })
	}
}

// the result of a call that is no longer needed, because the operator has left the page or must sign in first
const NEVER = new Promise(() => {})

let signedOut = () => {}
export const onSignedOut = act => { signedOut = act }

// The signed-in operator: `name`, `scope`, `version`, `commit`, `gateway_id`, `sealed`.
export const me = {}
const SCOPES = ['read', 'settle', 'admin']

// Whether the signed-in operator's scope includes this one.
export const may = scope => SCOPES.indexOf(me.scope) >= SCOPES.indexOf(scope)

export const loadMe = async () => Object.assign(me, await get('/admin/me'))

// Makes a call. `body` is JSON text, or a value that is written as JSON. Options: `reason`, the reason for the audit
// log; `asWritten`, the names of members to keep as source text; `signal`.
export async function call(method, path, body, options = {}) {
	const headers = { Accept: 'application/json' }
	if (body !== undefined && body !== null) headers['Content-Type'] = 'application/json'
	if (options.reason) headers['Sluice-Reason'] = encodeURIComponent(options.reason)
	let response, text
	try {
		response = await fetch(path, {
			method, headers, credentials: 'same-origin', cache: 'no-store', signal: options.signal,
			body: body === undefined || body === null ? undefined : typeof body === 'string' ? body : JSON.stringify(body),
		})
		text = await response.text()
	} catch (error) {
		if (error.name === 'AbortError') return NEVER
		throw new Problem(0, { title: 'The gateway cannot be reached', detail: 'It may be restarting, or the network or tunnel to it is down.' })
	}
	if (response.ok) {
		if (!text) return null
		try {
			const answer = parse(text, options.asWritten)
			if (typeof answer?.at === 'string') setClock(answer.at)
			return answer
		} catch {
			throw new Problem(response.status, { title: 'The response is not JSON', detail: text.slice(0, 200) })
		}
	}
	let problem = {}
	try { problem = parse(text) ?? {} } catch { problem = { detail: text.slice(0, 200) } }
	if (response.status === 401 && path !== '/console/session') {
		signedOut()
		return NEVER
	}
	throw new Problem(response.status, problem, response.headers.get('x-request-id'))
}

export const get = (path, options) => call('GET', path, undefined, options)

// Returns the path of a part of an organization below `/admin`.
export const of = (organization, ...parts) => ['/admin/organizations', organization, ...parts].map((part, index) =>
	index === 0 ? part : encodeURIComponent(part)).join('/')
