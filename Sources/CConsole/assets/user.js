// One user: why something has not arrived, in sentences; the lane in order; the devices.
import { ago, deviceLink, empty, facts, h, idLine, link, load, mutationLink, mutationPath, number, of, organizationLink, organizationPath, pages, pill, query, quoted, refill, section, shortId, table } from './ui.js'
import { keepFresh } from './lists.js'
import { recentList } from './recent.js'

const REASONS = {
	back_off: 'the upstream failed; the request will be retried', circuit_open: 'requests to the upstream are paused',
	no_upstream: 'the organization has no upstream', upstream_paused: 'an operator has paused the upstream', rate_limited: 'waits until the upstream may get another request', blocked: 'waits for other mutations', conflict: 'a conflict that needs action', failure: 'a failure that needs action',
}

// Shows the sentences of an explanation.
export const findings = (organization, user, { findings: list = [] }) => h('ul.findings', list.map(each => h('li', { class: `finding is-${each.severity}` },
	h('p.strong', h('span.unheard', `${each.severity}: `), quoted(each.sentence, 600)),
	each.do && h('p', quoted(each.do, 600)),
	each.mutation_id || each.until ? h('p.muted', each.mutation_id && link(mutationPath(organization, user, each.mutation_id), 'See the mutation'), each.until && [' · ', ago(each.until)]) : null)))

// The columns of devices. They are also the facts of a device's page.
export const unsettled = row => Object.entries(row.counts).filter(([, value]) => value).map(([name, value]) => [pill(name, `${value} ${name.replace('_', ' ')}`), ' '])

export async function user(view) {
	const { organization, user: id } = view, base = of(organization, 'users', id)
	view.begin('User')
	const top = h('div'), devices = h('div'), why = h('div')
	const loadTop = load(view, top, () => view.get(base), it => {
		const subject = it.subjects?.[0]?.subject
		return [h('p.crumbs', organizationLink({ organization_id: organization }), ' › ', idLine(id)),
			facts([
				['Known as', subject ? it.subjects.map(each => h('div', quoted(each.subject, 80), each.issuer && [h('span.muted', ' by '), quoted(each.issuer, 80)])) : 'only its id'],
				['Registered', it.registered ? 'yes' : 'no'], ['First seen', ago(it.first_seen_at)], ['Last seen', ago(it.last_seen_at)],
				['Joined into', it.into && link(organizationPath(organization, 'users', it.into), shortId(it.into))],
			])]
	})
	const asked = { mutation: view.asked('mutation'), device: view.asked('device'), entity_type: view.asked('entity_type'), entity_id: view.asked('entity_id') }
	const channels = h('div')
	const loadChannels = load(view, channels, () => view.get(`${base}/channels`), ({ own_channel: own, grants = [] }) => table('Channels', [
		['channel', row => link(query(organizationPath(organization, 'channel'), { channel: row.channel }), quoted(row.channel, 80))], ['role', row => row.role], ['source', row => quoted(row.source, 80), 'wide'],
	], [{ channel: own, role: 'write', source: 'every user' }, ...grants]).element)
	const explain = load(view, why, () => view.get(query(`${base}/explain`, asked)), answer => findings(organization, id, answer))
	const held = h('div')
	const list = pages(view, 'Lane', [
		['mutation', row => mutationLink(organization, id, row)],
		['status', row => pill(row.status)],
		['device', row => [deviceLink(organization, id, row.device_id), ` ${row.sequence_number}`]],
		['why', row => row.blocked_by?.length ? ['waits for ', row.blocked_by.slice(0, 3).map(each => [link(mutationPath(organization, id, each), shortId(each)), ' '])] : row.next_retry_at && ['next try ', ago(row.next_retry_at)], 'wide'],
		['attempts', row => number(row.attempt_count), 'n'], ['accepted', row => ago(row.accepted_at)],
	], [`${base}/lane`, {}, 'mutations'], empty('The lane is empty', 'All mutations of this user’s devices are settled.'), ({ lane, devices: rows }) => {
		const by = lane.held_by
		refill(held, facts([
			['Held by', by ? [h('span.strong', REASONS[by.reason] ?? by.reason), by.until && [', until ', ago(by.until)], (by.mutation_ids ?? []).map(each => [' ', link(mutationPath(organization, id, each), shortId(each))])] : 'nothing: it runs'],
			['Halted by', lane.halted_by && link(mutationPath(organization, id, lane.halted_by), shortId(lane.halted_by))],
			['Leased by', lane.lease && [shortId(lane.lease.gateway_id), ' until ', ago(lane.lease.until)]],
		]))
		showDevices(rows)
	})
	const showDevices = rows => refill(devices, rows.length ? table('Devices', [
		['device', row => deviceLink(organization, id, row.device_id)], ['watermark', row => number(row.accepted_sequence), 'n'], ['last seen', row => ago(row.last_seen_at)],
		['not settled', unsettled],
	], rows).element : h('p.muted', 'No device has pushed or registered.'))
	const recent = recentList(view, organization, { user_id: id })
	view.put(top, section('Why something has not arrived', view.query.size > 0 && h('p', 'About ', h('code', asked.mutation || asked.device || `${asked.entity_type} ${asked.entity_id}`), ' · ', link(location.pathname, 'About all')), why), section('Lane', held, list.element), section('Devices', devices), section('Recent mutations', recent.element), section('Channels', channels))
	keepFresh(view, { element: list.element, again: () => { list.again(); recent.again(); explain() } }, organization)
	await Promise.all([loadTop(), explain(), loadChannels()])
}
