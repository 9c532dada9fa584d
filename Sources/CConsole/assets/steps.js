// The first steps with a gateway of `sluice dev`, as in the README: push, push again, pull.
import { button, copyButton, entityLink, deviceLink, get, h, link, me, mutationLink, of, organizationPath, query, refill, section } from './ui.js'
import * as live from './live.js'

const STORED = 'sluice-first-steps'

const PUSH = `{
  "device_id": "019bb000-de71-7000-8000-000000000001", "mutations": [{
    "id": "019bb000-001d-7000-8000-000000000001",
    "idempotency_key": "019bb000-00d0-4000-8000-000000000001",
    "sequence_number": 1, "created_at": "2026-01-15T08:00:00.000Z",
    "operation": "create", "entity_type": "contact",
    "local_id": "019bb000-00c0-7000-8000-000000000001",
    "payload": {"name": "Kari Nordmann", "phone": "+47 22 00 00 00"}
  }]}`
const PUSHED = JSON.parse(PUSH).mutations[0].id

const curl = (path, more = '') => `curl -sS -w '\\n' '${me.demo.api ?? 'http://127.0.0.1:8080/v1'}${path}' -H "Authorization: Bearer $TOKEN"${more}`

const command = (label, text) => h('div', h('pre.json', { tabindex: '0', role: 'group', 'aria-label': label }, text), copyButton(text))

// Returns the card; null if `sluice dev` did not start the gateway, or if the operator has closed the card.
export function firstSteps(view) {
	if (!me.demo || localStorage.getItem(STORED) === 'off') return null
	const { organization_id: organization, user_id: user } = me.demo
	const arrived = h('div'), push = h('li')
	const look = async () => {
		const [it] = (await get(query(of(organization, 'mutations', 'recent'), { user_id: user, mutation: PUSHED }), { signal: view.signal })).mutations
		if (!it) return refill(arrived, h('p.muted', 'Nothing has arrived yet.'))
		push.className = 'done'
		refill(arrived, h('p', h('span.strong', 'It arrived: '), mutationLink(organization, user, it), it.server_id != null && [', its entity ', entityLink(organization, it.entity_type, it.server_id)],
			', its device ', deviceLink(organization, user, it.device_id), '.'))
	}
	refill(push, 'A phone pushes a contact that it created offline:', command('A push', curl('/mutations', ` \\\n  -H 'Content-Type: application/json' --data '${PUSH}'`)), arrived)
	const card = section('First steps', h('ol.steps',
		h('li', 'Paste the line ', h('code', 'export TOKEN=…'), ' that ', h('code', 'sluice dev'), ' printed into another terminal. It is the token of a user of the organization Demo.'),
		push,
		h('li', 'Run the command again, as a phone would if the response got lost: ', h('code', '"replayed": true'), ', and nothing is applied twice.'),
		h('li', 'Other devices pull the contact:', command('A pull', curl('/changes'))),
		h('li', 'See what is stored: ', link(query('/console/recent', { organization_id: organization }), 'recent mutations'), ', ', link(organizationPath(organization, 'entities'), 'entities'), ', ', link(organizationPath(organization, 'settings'), 'settings'), '.')),
	h('div.actions', button('Close', () => { localStorage.setItem(STORED, 'off'); card.remove() })))
	const ignored = () => {}
	look().catch(ignored)
	live.on('changed', ({ organization_id: id }) => { if (!id || id === organization) look().catch(ignored) }, view.signal)
	return card
}
