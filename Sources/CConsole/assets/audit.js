// Who did what, to which, when and why.
import { ago, empty, field, filters, get, h, link, organizationPath, pages, query, said, shortId } from './ui.js'

const NAMES = [['actor', 'Who', 'anna'], ['action', 'What', 'retryMutations'], ['organization_id', 'Organization', 'id'], ['since', 'Since', '2026-11-25T00:00:00Z'], ['until', 'Until', '']]
const NOBODY = '00000000-0000-0000-0000-000000000000'
const words = value => value == null ? '' : typeof value !== 'object' ? String(value)
	: Object.entries(value).filter(([, each]) => each !== null && each !== '').map(([name, each]) => Array.isArray(value) ? words(each) : `${name.replaceAll('_', ' ')} ${words(each)}`).join(', ')

export async function audit(view) {
	view.begin('Audit')
	const fields = NAMES.map(([name, label, placeholder]) => field({ label, name, placeholder, value: view.query.get(name) ?? '', 'data-search': name === 'actor', size: '12' }))
	const asked = Object.fromEntries(NAMES.map(([name]) => [name, view.query.get(name) ?? '']))
	const list = pages(view, 'Audit', [
		['when', row => ago(row.at)], ['who', row => [h('span.strong', said(row.actor, 60)), ' ', h('span.muted', row.scope)]],
		['what', row => h('code', said(row.action, 60))],
		['organization', row => !row.organization_id || row.organization_id === NOBODY ? '' : link(organizationPath(row.organization_id), shortId(row.organization_id))],
		['which', row => said(words(row.target), 160), 'wide'], ['why', row => row.reason && said(row.reason, 120), 'wide'], ['outcome', row => row.outcome ? words(row.outcome) && said(words(row.outcome), 80) : 'begun'],
	], ['/admin/audit', { ...asked }, 'audit'], empty('Nothing to see', 'No operator did anything that fits.'))
	view.put(filters(view, fields), list.element)
}
