// The audit log: who did what to which data, when and why.
import { ago, empty, filters, h, narrow, organizationLink, pages, quoted } from './ui.js'
import { ORGANIZATION } from './lists.js'

const NAMES = [['actor', 'Who', 'anna'], ['action', 'What', 'retryMutations'], ORGANIZATION, ['since', 'Since', '2026-11-25T00:00:00Z'], ['until', 'Until']]
const words = value => value == null ? '' : typeof value !== 'object' ? String(value)
	: Object.entries(value).filter(([, each]) => each !== null && each !== '').map(([name, each]) => Array.isArray(value) ? words(each) : `${name.replaceAll('_', ' ')} ${words(each)}`).join(', ')

export async function audit(view) {
	view.begin('Audit')
	const asked = Object.fromEntries(NAMES.map(([name]) => [name, view.asked(name)]))
	const list = pages(view, 'Audit', [
		['when', row => ago(row.at)], ['who', row => [h('span.strong', quoted(row.actor, 60)), ' ', h('span.muted', row.scope)]],
		['what', row => h('code', quoted(row.action, 60))],
		['organization', row => row.organization_id && organizationLink(row)],
		['which', row => quoted(words(row.target), 160), 'wide'], ['why', row => row.reason && quoted(row.reason, 120), 'wide'], ['outcome', row => row.outcome ? words(row.outcome) && quoted(words(row.outcome), 80) : 'begun'],
	], ['/admin/audit', asked, 'audit'], empty('Nothing', 'No operator action matches.'))
	view.put(filters(view, NAMES.map(each => narrow(view, each))), list.element)
}
